//! What the broker's routing knows of the nodes that lead shards, and what it hears of them in return.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwapOption;
use pointsman_failure_detector::SuspicionCause;
use pointsman_ids::{
    CollectionId, Incarnation, NodeId, NodeKey,
    feed::{CollectionEntry, NodeEntry, Snapshot},
};
use pointsman_routing::{Routing, RoutingView};
use pointsman_shard_client::{NodeView, ShardListing, Standing};

/// The nodes of the local cluster.
#[derive(Debug)]
pub(crate) struct Nodes {
    routing: Routing,
    /// Of the view that was asked for last.
    known: ArcSwapOption<Known>,
}

/// The nodes of one view by their number.
#[derive(Debug)]
struct Known {
    view: Arc<RoutingView>,
    nodes: BTreeMap<NodeId, Node>,
}

/// A node as one view knows it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Who.
    pub(crate) key: NodeKey,
    incarnation: Incarnation,
    standing: Standing,
}

impl Known {
    fn of(view: Arc<RoutingView>) -> Self {
        let node = |entry: &NodeEntry| {
            let key = NodeKey { cluster: view.cluster().clone(), node: entry.name.clone() };
            let standing = match () {
                // A node that drains leads on until others do: its switch alone counts here.
                () if !entry.switched_on => Standing::Disabled,
                () if view.exclusion(&key).is_some() => Standing::Excluded,
                () => Standing::Routable,
            };
            (entry.id, Node { key, incarnation: entry.incarnation, standing })
        };
        let nodes = view.snapshot().nodes.iter().map(node).collect();
        Self { view, nodes }
    }
}

impl Nodes {
    pub(super) fn new(routing: Routing) -> Self {
        Self { routing, known: ArcSwapOption::empty() }
    }

    /// A node by its number; `None`: the routing does not know it, or not any more.
    pub(crate) fn node(&self, id: NodeId) -> Option<Node> {
        self.with(|known| known.nodes.get(&id).cloned())
    }

    /// A call ended with its transport, or no connection could be made.
    pub(super) fn report_unreachable(&self, id: NodeId, evidence: &str) {
        if let Some(node) = self.node(id) {
            self.routing.report_unreachable(&node.key, node.incarnation, evidence);
        }
    }

    /// A call ended in a way that may be the node's fault.
    pub(crate) fn report_suspicious(&self, id: NodeId, cause: SuspicionCause, evidence: &str) {
        if let Some(node) = self.node(id) {
            self.routing.report_suspicious(&node.key, node.incarnation, cause, evidence);
        }
    }

    /// The node answered, if only that the question makes no sense.
    pub(super) fn report_answered(&self, id: NodeId) {
        if let Some(node) = self.node(id) {
            self.routing.report_answered(&node.key, node.incarnation);
        }
    }

    /// The leaders of a collection as the routing feed told them last. `None`: it has not told a leader of every shard.
    pub(super) fn leaders_of_feed(&self, collection: CollectionId) -> Option<Vec<ShardListing>> {
        let view = self.routing.view();
        let snapshot = view.snapshot();
        let entry = snapshot.collections.iter().find(|entry| entry.id == collection)?;
        let listings: Vec<_> =
            (0..entry.shards.len()).filter_map(|at| listing(snapshot, entry, at)).collect();
        let is_whole = !listings.is_empty() && listings.len() == entry.shards.len();
        is_whole.then_some(listings)
    }

    fn with<T>(&self, read: impl FnOnce(&Known) -> T) -> T {
        let view = self.routing.view();
        if let Some(known) = &*self.known.load()
            && Arc::ptr_eq(&known.view, &view)
        {
            return read(known);
        }
        let known = Arc::new(Known::of(view));
        self.known.store(Some(known.clone()));
        read(&known)
    }
}

/// A shard with its leaders; `None`: it has none that the snapshot knows.
fn listing(snapshot: &Snapshot, entry: &CollectionEntry, at: usize) -> Option<ShardListing> {
    let mut listing = ShardListing { shard: entry.shards.get(at)?.to_string(), ..ShardListing::default() };
    for leader in entry.leaders.get(at)? {
        let Some(node) = snapshot.nodes.iter().find(|node| node.id == leader.node) else { continue };
        let group = snapshot.groups.iter().find(|group| group.number == leader.group);
        listing.node_ids.push(node.id.0);
        listing.node_addrs.push(node.address.clone());
        listing.serviceable.push(leader.serviceable);
        listing.resource_groups.push(group.map(|group| group.name.to_string()).unwrap_or_default());
    }
    (!listing.node_ids.is_empty()).then_some(listing)
}

impl NodeView for Nodes {
    fn standing(&self, node: NodeId) -> Standing {
        self.with(|known| known.nodes.get(&node).map(|node| node.standing)).unwrap_or_default()
    }

    /// Numbers are given in ascending order, so one above all that are known is of a process that the feed has yet to tell.
    fn is_gone(&self, node: NodeId) -> bool {
        let is_followed = |known: &Known| {
            let newest = known.nodes.last_key_value().map(|(newest, _)| *newest);
            !known.nodes.contains_key(&node) && newest.is_some_and(|newest| node < newest)
        };
        self.with(is_followed)
    }

    fn why_excluded(&self, node: NodeId) -> Option<String> {
        let key = self.node(node)?.key;
        self.routing.view().exclusion(&key).map(|exclusion| exclusion.evidence.clone())
    }

    /// Asked only when all leaders of a shard are excluded, so a look at all collections costs nothing that matters.
    fn is_fail_closed(&self, collection: CollectionId) -> bool {
        let view = self.routing.view();
        view.snapshot().collections.iter().any(|entry| entry.id == collection && entry.routing.fail_closed)
    }
}
