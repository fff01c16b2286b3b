//! What queries read of one cluster.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use imbl::OrdMap;
use pointsman_ids::{
    ClusterName, CollectionName, Error, ErrorCode, GroupName, GroupNumber, Incarnation, NodeKey, NodeName,
    feed::{CollectionEntry, LoadState, Snapshot},
};
use pointsman_instance_selector::{AdaptiveSettings, Health, NodeIndex, NodeSet, Nodes, Scores};
use url::Url;

use crate::{
    collections::Collection,
    members::{Member, Members, Names},
};

/// One cluster at one moment. Immutable; what did not change is shared with the view before.
#[derive(Clone, Debug)]
pub(crate) struct ClusterView {
    pub(crate) name: ClusterName,
    /// Its manager runs: there is a snapshot of it, from the wire or from disk.
    pub(crate) running: bool,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) names: Names,
    pub(crate) members: Members,
    pub(crate) nodes: Nodes,
    pub(crate) collections: OrdMap<CollectionName, Routed>,
    pub(crate) health: Arc<OnceLock<Vec<(CollectionName, Health)>>>,
}

/// A collection of the cluster's catalog.
#[derive(Clone, Debug)]
pub(crate) enum Routed {
    /// It can be routed.
    Built(Arc<Collection>),
    /// It could not be built, for this reason.
    Refused(Arc<CollectionEntry>, Error),
}

impl Routed {
    pub(crate) fn entry(&self) -> &Arc<CollectionEntry> {
        match self {
            Self::Built(collection) => &collection.entry,
            Self::Refused(entry, _) => entry,
        }
    }

    pub(crate) fn built(&self) -> Option<&Arc<Collection>> {
        match self {
            Self::Built(collection) => Some(collection),
            Self::Refused(..) => None,
        }
    }
}

/// A node with all that a call to it needs. Views have one of each member and share it with routing tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedNode {
    /// Who.
    pub key: NodeKey,
    /// Where its worker listens.
    pub url: Url,
    /// Its process; reports about the node carry it.
    pub incarnation: Incarnation,
    /// The resource group it is a member of; [`GroupNumber::NONE`] if it is in none.
    pub pool: GroupNumber,
}

impl ClusterView {
    /// A cluster of which nothing is known.
    pub(crate) fn empty(name: ClusterName) -> Self {
        Self {
            snapshot: Arc::new(Snapshot::empty(name.clone())),
            name,
            running: false,
            names: Names::default(),
            members: Members::default(),
            nodes: Nodes::new(Default::default(), [], |_| false),
            collections: OrdMap::new(),
            health: Arc::default(),
        }
    }

    pub(crate) fn key(&self, node: &NodeName) -> NodeKey {
        NodeKey { cluster: self.name.clone(), node: node.clone() }
    }

    pub(crate) fn built(&self, collection: &str) -> Option<&Arc<Collection>> {
        self.collections.get(collection)?.built()
    }

    /// The key of a place.
    pub(crate) fn key_of(&self, node: NodeIndex) -> Option<NodeKey> {
        self.nodes.name(node).map(|name| self.key(name))
    }

    /// A member with its address; `None`: the node is no member.
    pub(crate) fn node(&self, node: NodeIndex) -> Option<&Arc<RoutedNode>> {
        self.members.get(node).map(|member| &member.node)
    }

    pub(crate) fn place(&self, node: &NodeName) -> Option<NodeIndex> {
        self.names.table.find(node)
    }

    /// The nodes of this cluster among some.
    pub(crate) fn node_set(&self, keys: &BTreeSet<NodeKey>) -> NodeSet {
        let ours = keys.iter().filter(|key| key.cluster == self.name);
        ours.filter_map(|key| self.place(&key.node)).collect()
    }

    /// The collection, if it can be queried.
    ///
    /// # Errors
    /// `collection_not_loaded`, or `collection_not_fully_loaded` with the progress, when there is no current target;
    /// `collection_not_loaded` with the reason when it could not be built.
    pub(crate) fn serving<'a>(&self, routed: &'a Routed) -> Result<&'a Arc<Collection>, Error> {
        let collection = match routed {
            Routed::Built(collection) => collection,
            Routed::Refused(_, reason) => {
                let (code, message) = (ErrorCode::CollectionNotLoaded, reason.message());
                return Err(Error::new(code, format!("there is no routing: {message}")));
            }
        };
        let name = &collection.entry.name;
        match collection.entry.load {
            LoadState::Serving => Ok(collection),
            LoadState::Loading { percent } => Err(Error::new(
                ErrorCode::CollectionNotFullyLoaded,
                format!("collection '{name}' is being loaded ({percent}%) and cannot be queried yet"),
            )),
            LoadState::NotLoaded => Err(Error::new(
                ErrorCode::CollectionNotLoaded,
                format!("collection '{name}' is not loaded; load it first"),
            )),
        }
    }

    /// The number of a group that may answer for the collection on its own.
    ///
    /// # Errors
    /// `resource_group_not_found`; `collection_not_fully_loaded` when the collection has no replica in the group, or
    /// its load there has not finished.
    pub(crate) fn scope(&self, entry: &CollectionEntry, group: &GroupName) -> Result<GroupNumber, Error> {
        let number = self.group(group).ok_or_else(|| unknown_group(group))?;
        let has_replica = entry.replicas.iter().any(|replica| replica.group == number);
        if has_replica && entry.finished_groups.contains(&number) {
            return Ok(number);
        }
        let what = if has_replica { "is not fully loaded" } else { "has no replica" };
        let message = format!("collection '{}' {what} in resource group '{group}'", entry.name);
        Err(Error::new(ErrorCode::CollectionNotFullyLoaded, message))
    }

    /// What the statistics say of each member.
    pub(crate) fn scores(&self, settings: &AdaptiveSettings) -> Scores {
        let standing =
            |member: &Member| settings.standing(member.statistics.get().map(|node| node.measured()).as_ref());
        Scores::new(self.members.iter().map(|(node, member)| (node, standing(member))))
    }

    pub(crate) fn group(&self, group: &GroupName) -> Option<GroupNumber> {
        self.snapshot.groups.iter().find(|known| known.name == *group).map(|known| known.number)
    }

    /// The health of every collection, by name. One pass over all segments, the first time that it is asked of this
    /// view.
    pub(crate) fn health(&self) -> &[(CollectionName, Health)] {
        self.health.get_or_init(|| {
            let health = |(name, routed): (&CollectionName, &Routed)| match routed {
                Routed::Built(collection) => Some((name.clone(), collection.states.health(&self.nodes))),
                Routed::Refused(..) => None,
            };
            self.collections.iter().filter_map(health).collect()
        })
    }
}

pub(crate) fn unknown_group(group: &GroupName) -> Error {
    Error::new(ErrorCode::ResourceGroupNotFound, format!("there is no resource group '{group}'"))
}
