//! What queries read: one immutable value per change.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pointsman_failure_detector::Counters;
use pointsman_ids::{
    ClusterName, CollectionName, Error, ErrorCode, GroupName, GroupNumber, Incarnation, NodeKey, NodeName,
    feed::{CollectionEntry, LoadState, Snapshot},
};
use pointsman_instance_selector::{NodeIndex, NodeSet, Nodes, Request, Selection, States, select};
use url::Url;

/// Catalog, nodes and candidates of one cluster at one moment.
#[derive(Clone, Debug)]
pub struct RoutingView {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) nodes: Nodes,
    /// Where each node's worker listens, by its place in `nodes`.
    pub(crate) urls: Arc<[Url]>,
    pub(crate) collections: Arc<BTreeMap<CollectionName, CollectionRouting>>,
    pub(crate) exclusions: BTreeMap<NodeName, Exclusion>,
    pub(crate) counters: Counters,
}

/// What routing adds to a collection of the snapshot.
#[derive(Clone, Debug)]
pub(crate) struct CollectionRouting {
    pub(crate) entry: Arc<CollectionEntry>,
    pub(crate) states: Arc<States>,
    /// The request ids that were given out; it outlives changes of the collection.
    pub(crate) requests: Arc<AtomicU64>,
}

/// Why and since when a node is excluded. Times are since the start of the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// When it was marked.
    pub since: Duration,
    /// What was seen.
    pub evidence: String,
    /// When it is probed next.
    pub next_probe: Duration,
}

/// A node with all that a call to it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedNode {
    /// Who.
    pub key: NodeKey,
    /// Where its worker listens.
    pub url: Url,
    /// Its process; reports about the node carry it.
    pub incarnation: Incarnation,
}

/// What a request asks of a selection, besides segments.
#[derive(Clone, Copy, Debug)]
pub struct SelectOptions<'a> {
    /// Requests with the same id choose alike. All scans of one query on one collection share one, retries included.
    pub request_id: u64,
    /// Nodes that failed under this query.
    pub without: &'a BTreeSet<NodeKey>,
    /// Over how many of a segment's replicas a request spreads, for collections with `replica_group`; at least 1.
    pub num_replica_groups: u32,
    /// Only replicas of this resource group answer; `None`: all do.
    pub resource_group: Option<&'a GroupName>,
}

impl<'a> SelectOptions<'a> {
    /// The usual options.
    pub fn new(request_id: u64, without: &'a BTreeSet<NodeKey>) -> Self {
        Self { request_id, without, num_replica_groups: 1, resource_group: None }
    }
}

impl RoutingView {
    pub(crate) fn empty(cluster: ClusterName) -> Self {
        Self {
            snapshot: Arc::new(Snapshot::empty(cluster)),
            nodes: Nodes::new(&[], |_| false),
            urls: Arc::default(),
            collections: Arc::default(),
            exclusions: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    /// What the coordinator said. Collections that a newer snapshot did not change stay the same pointers.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The collection of this name.
    pub fn collection(&self, name: &str) -> Option<&Arc<CollectionEntry>> {
        self.snapshot.collection(name)
    }

    /// A fresh request id: every collection counts on its own, or two that are queried in turn would each hit the
    /// same replica for ever. 0 for a collection that is not in this view.
    pub fn next_request_id(&self, collection: &CollectionEntry) -> u64 {
        let routing = self.collections.get(&collection.name);
        routing.map_or(0, |routing| routing.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// Chooses a node for each of the segments, which are positions in the segments of `collection`; these must be
    /// the ones of this view.
    ///
    /// # Errors
    /// `collection_not_found`; `collection_not_loaded`, or `collection_not_fully_loaded` with the progress, when
    /// there is no current target; `resource_group_not_found`, or `collection_not_fully_loaded` when the load has not
    /// finished in the group; `service_internal` for a collection of another view; what
    /// [`pointsman_instance_selector::select`] refuses.
    pub fn select(
        &self,
        collection: &CollectionEntry,
        segments: &[u32],
        options: &SelectOptions<'_>,
    ) -> Result<Selection, Error> {
        let routing = self.routing(collection)?;
        let request = Request {
            without: self.node_set(options.without),
            num_replica_groups: options.num_replica_groups,
            group: options.resource_group.map(|group| self.scope(&routing.entry, group)).transpose()?,
            ..Request::these(segments, options.request_id)
        };
        select(&routing.states, &self.nodes, &request)
    }

    /// The number of a group that may answer for the collection on its own.
    fn scope(&self, entry: &CollectionEntry, group: &GroupName) -> Result<GroupNumber, Error> {
        let known = self.snapshot.groups.iter().find(|known| known.name == *group);
        let number = known.map(|known| known.number).ok_or_else(|| {
            Error::new(ErrorCode::ResourceGroupNotFound, format!("there is no resource group '{group}'"))
        })?;
        let has_replica = entry.replicas.iter().any(|replica| replica.group == number);
        if has_replica && entry.finished_groups.contains(&number) {
            return Ok(number);
        }
        let what = if has_replica { "is not fully loaded" } else { "has no replica" };
        let message = format!("collection '{}' {what} in resource group '{group}'", entry.name);
        Err(Error::new(ErrorCode::CollectionNotFullyLoaded, message))
    }

    fn routing(&self, collection: &CollectionEntry) -> Result<&CollectionRouting, Error> {
        let name = &collection.name;
        let routing = self
            .collections
            .get(name)
            .ok_or_else(|| Error::new(ErrorCode::CollectionNotFound, format!("no collection '{name}'")))?;
        if (routing.entry.id, routing.entry.version) != (collection.id, collection.version) {
            let message =
                format!("collection '{name}' was planned against another view than it is routed by");
            return Err(Error::new(ErrorCode::ServiceInternal, message));
        }
        match routing.entry.load {
            LoadState::Serving => Ok(routing),
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

    /// Nodes that any stage of a query may run on: the routable ones, by name, without those that failed under it.
    pub fn stage_nodes(&self, without: &BTreeSet<NodeKey>) -> Vec<RoutedNode> {
        let failed = self.node_set(without);
        let routable = self.nodes.routable().iter().filter(|node| !failed.contains(*node));
        routable.map(|node| self.node(node)).collect()
    }

    /// A node of a selection of this view.
    pub fn node(&self, node: NodeIndex) -> RoutedNode {
        let entry = self.nodes.entry(node);
        RoutedNode {
            key: self.key(&entry.name),
            url: self.urls[node.0 as usize].clone(),
            incarnation: entry.incarnation,
        }
    }

    /// The node whose worker listens at `url`.
    pub fn node_by_url(&self, url: &Url) -> Option<RoutedNode> {
        self.nodes
            .iter()
            .map(|(at, _)| at)
            .find(|at| self.urls[at.0 as usize] == *url)
            .map(|at| self.node(at))
    }

    /// The nodes that have a segment, or should have it when nobody does, by name. For reports on segments that
    /// nobody answers for.
    pub fn nodes_of(&self, collection: &CollectionEntry, segment: u32) -> Vec<NodeKey> {
        let Ok(routing) = self.routing(collection) else { return vec![] };
        let candidates = routing.states.candidates(segment).unwrap_or_default();
        if !candidates.is_empty() {
            return candidates.iter().map(|candidate| self.node(candidate.node).key).collect();
        }
        let copies = collection.segments.get(segment as usize).map_or(&[][..], |segment| &segment.copies);
        let assigned = copies.iter().filter(|copy| copy.assigned.is_some_and(|state| state.serves()));
        let nodes: BTreeSet<_> = assigned.filter_map(|copy| self.nodes.by_id(copy.node)).collect();
        nodes.into_iter().map(|node| self.node(node).key).collect()
    }

    /// Whether the cluster lets queries go to the node.
    pub fn is_enabled(&self, node: &NodeName) -> bool {
        self.nodes.by_name(node).is_some_and(|node| self.nodes.is_enabled(node))
    }

    /// Whether the node is enabled and not excluded.
    pub fn is_routable(&self, node: &NodeName) -> bool {
        self.nodes.by_name(node).is_some_and(|node| self.nodes.is_routable(node))
    }

    /// Excluded members, by name.
    pub fn exclusions(&self) -> &BTreeMap<NodeName, Exclusion> {
        &self.exclusions
    }

    /// Number of enabled and of routable nodes.
    pub fn node_counts(&self) -> (usize, usize) {
        let enabled = self.nodes.iter().filter(|(node, _)| self.nodes.is_enabled(*node)).count();
        (enabled, self.nodes.routable().iter().count())
    }

    /// What the failure detector had counted when this view was made.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn key(&self, node: &NodeName) -> NodeKey {
        NodeKey { cluster: self.snapshot.cluster.clone(), node: node.clone() }
    }

    fn node_set(&self, keys: &BTreeSet<NodeKey>) -> NodeSet {
        let mut set = NodeSet::empty(self.nodes.len());
        let ours = keys.iter().filter(|key| key.cluster == self.snapshot.cluster);
        ours.filter_map(|key| self.nodes.by_name(&key.node)).for_each(|node| set.insert(node));
        set
    }
}
