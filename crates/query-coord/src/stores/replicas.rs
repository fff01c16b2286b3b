//! Copies of loaded collections, and on which nodes they live.

use std::{collections::BTreeSet, sync::Arc};

use imbl::OrdMap;
use pointsman_ids::{CollectionId, GroupName, NodeName, ReplicaId};

/// One full copy of a loaded collection, living in one resource group. Replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its number.
    pub id: ReplicaId,
    /// What it is a copy of.
    pub collection: CollectionId,
    /// The group it lives in.
    pub group: GroupName,
    /// Nodes that take new work.
    pub nodes: BTreeSet<NodeName>,
    /// Nodes that still hold data and are being drained; disjoint from `nodes`.
    pub ro_nodes: BTreeSet<NodeName>,
    /// Whether queries may use it.
    pub query_visible: bool,
    /// It was serviceable at least once.
    pub finished: bool,
    /// Since when the first assignment of nodes waits for the group to have its nodes, nanoseconds since the Unix
    /// epoch; `None`: it does not wait.
    pub waits_for_group_since: Option<u64>,
}

impl Replica {
    /// Whether `node` holds or takes data of this replica.
    pub fn contains(&self, node: &str) -> bool {
        self.nodes.contains(node) || self.ro_nodes.contains(node)
    }

    /// Every node that holds or takes data of this replica: first those that take new work, each in order of names.
    pub fn all_nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.iter().chain(&self.ro_nodes)
    }
}

/// All replicas; those of one collection in the order of their creation. A clone shares everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas(OrdMap<CollectionId, Arc<Vec<Arc<Replica>>>>);

impl Replicas {
    /// Replicas of a collection, in the order of their creation.
    pub fn of(&self, collection: CollectionId) -> &[Arc<Replica>] {
        self.0.get(&collection).map_or(&[], |replicas| replicas)
    }

    /// The replica of this number.
    pub fn get(&self, id: ReplicaId) -> Option<&Arc<Replica>> {
        self.iter().find(|replica| replica.id == id)
    }

    /// Puts a replica in the place of the one with its number; a new one comes last.
    pub fn insert(&mut self, replica: Replica) {
        let replicas = Arc::make_mut(self.0.entry(replica.collection).or_default());
        match replicas.iter_mut().find(|present| present.id == replica.id) {
            Some(present) => *present = Arc::new(replica),
            None => replicas.push(Arc::new(replica)),
        }
    }

    /// Takes one replica of a collection out.
    pub fn remove(&mut self, collection: CollectionId, id: ReplicaId) {
        if let Some(replicas) = self.0.get_mut(&collection) {
            Arc::make_mut(replicas).retain(|replica| replica.id != id);
        }
    }

    /// Takes all replicas of a collection out.
    pub fn remove_all(&mut self, collection: CollectionId) {
        self.0.remove(&collection);
    }

    /// Collections whose replicas differ in another version. Costs what differs.
    pub(crate) fn changes(&self, after: &Self) -> Vec<CollectionId> {
        super::differing(&self.0, &after.0)
    }

    /// All replicas, by collection.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Replica>> {
        self.0.values().flat_map(|replicas| replicas.iter())
    }
}

impl FromIterator<Replica> for Replicas {
    fn from_iter<T: IntoIterator<Item = Replica>>(replicas: T) -> Self {
        let mut made = Self::default();
        replicas.into_iter().for_each(|replica| made.insert(replica));
        made
    }
}
