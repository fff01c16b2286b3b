//! What the coordinators of a scenario's clusters would say: membership and collections, as values of the feed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_ids::{
    ClusterName, CollectionName, GroupNumber, Incarnation, NodeId, NodeKey, NodeName,
    feed::{CollectionEntry, NodeEntry},
};

use super::{
    names::Names,
    parts::{Numbers, Parts},
    scenario::{CollectionChange, Member, NodeChange},
};

/// All clusters.
#[derive(Debug)]
pub(super) struct World {
    /// In the listed order.
    clusters: Vec<Cluster>,
    /// Of every node of the file, member or not.
    ids: BTreeMap<NodeKey, NodeId>,
    numbers: Numbers,
}

/// One cluster.
#[derive(Debug)]
struct Cluster {
    name: ClusterName,
    /// Its routing manager hears of changes at once, else when it comes up.
    up: bool,
    members: BTreeMap<NodeName, MemberState>,
    parts: Parts,
}

#[derive(Clone, Copy, Debug)]
struct MemberState {
    enabled: bool,
    pool: GroupNumber,
}

impl World {
    /// All clusters of a file, without members and collections.
    pub(super) fn new(names: &Names, down: &[ClusterName]) -> Self {
        let nodes = |cluster| names.nodes_of(cluster).map(move |node| key(cluster, node));
        let ids = names.clusters.iter().flat_map(nodes).zip((1..).map(NodeId)).collect();
        let cluster = |name: &ClusterName| Cluster {
            name: name.clone(),
            up: !down.contains(name),
            members: BTreeMap::new(),
            parts: Parts::default(),
        };
        Self { clusters: names.clusters.iter().map(cluster).collect(), ids, numbers: Numbers::default() }
    }

    /// Every node of the file with its id, member or not.
    pub(super) fn ids(&self) -> impl Iterator<Item = (&NodeKey, NodeId)> {
        self.ids.iter().map(|(key, id)| (key, *id))
    }

    fn cluster(&self, name: &ClusterName) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| cluster.name == *name)
    }

    fn cluster_mut(&mut self, name: &ClusterName) -> Option<&mut Cluster> {
        self.clusters.iter_mut().find(|cluster| cluster.name == *name)
    }

    pub(super) fn is_up(&self, name: &ClusterName) -> bool {
        self.cluster(name).is_some_and(|cluster| cluster.up)
    }

    /// Brings a cluster up, and says whether it was down.
    pub(super) fn start(&mut self, name: &ClusterName) -> bool {
        self.cluster_mut(name).is_some_and(|cluster| !std::mem::replace(&mut cluster.up, true))
    }

    /// Who is meant. A plain name that no cluster has right now means the first listed cluster that the file declares
    /// it in.
    pub(super) fn resolve(&self, member: &Member) -> Option<NodeKey> {
        let node = match member {
            Member::Of(key) => return Some(key.clone()),
            Member::Plain(node) => node,
        };
        let here = |cluster: &Cluster| key(&cluster.name, node);
        let has = self.clusters.iter().find(|cluster| cluster.members.contains_key(node));
        has.map(here).or_else(|| self.clusters.iter().map(here).find(|key| self.ids.contains_key(key)))
    }

    /// Changes the membership; the cluster that it is about.
    pub(super) fn change_node(&mut self, change: &NodeChange) -> Option<ClusterName> {
        match change {
            NodeChange::Upsert { node: NodeKey { cluster, node }, pool, enabled } => {
                let members = &mut self.cluster_mut(cluster)?.members;
                let newcomer = MemberState { enabled: true, pool: GroupNumber::NONE };
                let member = members.entry(node.clone()).or_insert(newcomer);
                member.pool = pool.unwrap_or(member.pool);
                member.enabled = enabled.unwrap_or(member.enabled);
                Some(cluster.clone())
            }
            NodeChange::Remove(member) => {
                let NodeKey { cluster, node } = self.resolve(member)?;
                self.cluster_mut(&cluster)?.members.remove(&node);
                Some(cluster)
            }
        }
    }

    /// The operator's switch of a member; the cluster that it is about. Who is no member has no switch.
    pub(super) fn set_enabled(&mut self, member: &Member, enabled: bool) -> Option<ClusterName> {
        let NodeKey { cluster, node } = self.resolve(member)?;
        self.cluster_mut(&cluster)?.members.get_mut(&node)?.enabled = enabled;
        Some(cluster)
    }

    /// The members of a cluster, as the feed tells them.
    pub(super) fn members(&self, name: &ClusterName) -> Vec<NodeEntry> {
        let members = self.cluster(name).into_iter().flat_map(|cluster| &cluster.members);
        let entry = |(node, member): (&NodeName, &MemberState)| {
            Some(NodeEntry {
                name: node.clone(),
                id: *self.ids.get(&key(name, node))?,
                address: "http://nobody.invalid:7000".to_owned(),
                incarnation: Incarnation(1),
                switched_on: member.enabled,
                enabled: member.enabled,
                lost: false,
                pool: member.pool,
            })
        };
        members.filter_map(entry).collect()
    }

    /// Changes a cluster's part of a collection.
    pub(super) fn change_part(
        &mut self,
        cluster: &ClusterName,
        name: &CollectionName,
        change: &CollectionChange,
    ) {
        if let Some(cluster) = self.clusters.iter_mut().find(|known| known.name == *cluster) {
            cluster.parts.change(name, change, &mut self.numbers);
        }
    }

    /// Names of the collections that a cluster has a part of.
    pub(super) fn parts(&self, cluster: &ClusterName) -> Vec<CollectionName> {
        self.cluster(cluster).map(|cluster| cluster.parts.names()).unwrap_or_default()
    }

    /// A part as the cluster's manager hears it now; `None`: there is none.
    pub(super) fn tell_part(
        &mut self,
        cluster: &ClusterName,
        name: &CollectionName,
        now: Duration,
    ) -> Option<Arc<CollectionEntry>> {
        let spans = self.clusters.iter().map(|cluster| cluster.name.clone()).collect();
        let Self { clusters, ids, numbers } = self;
        let part = clusters.iter_mut().find(|known| known.name == *cluster)?;
        let id = |node: &NodeName| ids.get(&key(cluster, node)).copied();
        part.parts.tell(name, spans, id, numbers, now).map(Arc::new)
    }
}

fn key(cluster: &ClusterName, node: &NodeName) -> NodeKey {
    NodeKey { cluster: cluster.clone(), node: node.clone() }
}
