//! What a coordinator that has just become active does not know yet. Brokers keep what they have of it, so that nobody
//! misses copies merely because nodes have not said yet that they hold them.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{
    CollectionId, CollectionName, NodeName,
    feed::{Delta, Snapshot},
};
use pointsman_query_coord::{SessionState, Stores, settled};

/// Nodes and collections that are waited for. Nothing, once every node was heard or the time for that is over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Nodes that were not heard yet, with the operator's switch.
    nodes: BTreeMap<NodeName, bool>,
    /// Collections that are served by nodes some of which have not reported yet.
    collections: BTreeSet<CollectionName>,
}

impl Awaited {
    pub(crate) fn of(stores: &Stores) -> Self {
        let silent = stores.nodes.iter();
        let silent = silent.filter(|(name, _)| stores.session(name.as_str()) == SessionState::Awaited);
        let unsettled = stores.names.iter().filter(|(_, id)| !is_settled(stores, **id));
        Self {
            nodes: silent.map(|(name, record)| (name.clone(), record.switched_on)).collect(),
            collections: unsettled.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Whether a broker that has nothing can be told everything. Nodes that were not heard and serve nothing are no
    /// matter: they have no address.
    pub(crate) fn is_over(&self) -> bool {
        self.collections.is_empty()
    }

    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    pub(crate) fn has_collection(&self, name: &str) -> bool {
        self.collections.contains(name)
    }

    /// Nodes that are switched off, by name. That counts at once.
    pub(crate) fn switched_off(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.iter().filter(|(_, switched_on)| !**switched_on).map(|(name, _)| name)
    }

    /// Adds to the change that leads to `snapshot` what became of things that brokers may have and that were waited
    /// for until now: those that did not come have gone.
    pub(crate) fn complete(&self, delta: &mut Delta, snapshot: &Snapshot, now: &Self) {
        let came = |name: &NodeName| snapshot.nodes.binary_search_by(|node| node.name.cmp(name)).is_ok();
        let gone = self.nodes.keys().filter(|name| !now.nodes.contains_key(*name) && !came(name));
        delta.nodes_removed.extend(gone.cloned());
        let dropped = self
            .collections
            .iter()
            .filter(|name| !now.collections.contains(*name) && snapshot.collection(name.as_str()).is_none());
        delta.dropped.extend(dropped.cloned());
        let off = now.switched_off().filter(|name| self.nodes.get(*name) != Some(&false));
        delta.switched_off.extend(off.cloned());
    }
}

/// Whether all that serve a collection were heard, or the time for that is over.
pub(crate) fn is_settled(stores: &Stores, collection: CollectionId) -> bool {
    !stores.awaiting
        || stores.targets.current(collection).is_none()
        || stores.replicas_of(collection).all(|replica| settled(stores, replica))
}
