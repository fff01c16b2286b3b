//! What queries read: one immutable value per change.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use imbl::OrdMap;
use pointsman_failure_detector::{Counters, Key, Suspicions};
use pointsman_ids::{
    ClusterName, CollectionName, Error, ErrorCode, NodeKey,
    feed::{CollectionEntry, Snapshot},
};
use pointsman_instance_selector::{AdaptiveSettings, FailOpen, InFlight, NodeStatistics, decay};
use url::Url;

use crate::{
    cluster::{ClusterView, RoutedNode},
    members::Member,
    spanning::Spanning,
};

/// Catalogs, nodes and candidates of all clusters at one moment.
#[derive(Clone, Debug)]
pub struct RoutingView {
    /// In the order of the configuration, the local one first.
    pub(crate) clusters: Vec<Arc<ClusterView>>,
    pub(crate) collections: OrdMap<CollectionName, Arc<Spanning>>,
    /// The unhealthy set.
    pub(crate) exclusions: Arc<BTreeMap<Key, Exclusion>>,
    pub(crate) suspicions: Arc<BTreeMap<NodeKey, Suspicions>>,
    pub(crate) detector: Arc<Counters>,
    /// The switches in force.
    pub(crate) fail_open: FailOpen,
    pub(crate) adaptive: AdaptiveSettings,
}

/// Why and since when a key stands in the unhealthy set. Times are since the start of the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// When it was marked.
    pub since: Duration,
    /// What was seen.
    pub evidence: String,
    /// When it is probed next.
    pub next_probe: Duration,
    /// Failed probes so far.
    pub tries: u64,
    /// What the last failed probe saw; `None` before the first.
    pub last_probe: Option<String>,
}

impl RoutingView {
    /// What the local coordinator said. Collections that a newer snapshot did not change stay the same pointers.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.local().snapshot
    }

    /// The local cluster.
    pub fn cluster(&self) -> &ClusterName {
        &self.local().name
    }

    /// Every cluster of the configuration, local first, with its newest snapshot; `None`: it was never connected.
    pub fn clusters(&self) -> impl Iterator<Item = (&ClusterName, Option<&Arc<Snapshot>>)> {
        self.clusters
            .iter()
            .map(|cluster| (&cluster.name, Some(&cluster.snapshot).filter(|_| cluster.running)))
    }

    /// The collection of this name as it is routed: one that spans clusters has the local definition and the segments
    /// of all parts, one part after the other. What a segment of another cluster points at (partition, shard, replica,
    /// node ids) is meant in that cluster's own catalog.
    pub fn collection(&self, name: &str) -> Option<&Arc<CollectionEntry>> {
        self.collections.get(name).map(|spanning| &spanning.entry)
    }

    /// All collections that running clusters have, by name.
    pub fn collections(&self) -> impl Iterator<Item = &Arc<CollectionEntry>> {
        self.collections.values().map(|spanning| &spanning.entry)
    }

    /// The clusters that have a part of the collection, with the positions of its segments, ascending.
    pub fn parts(&self, collection: &str) -> impl Iterator<Item = (&ClusterName, std::ops::Range<u32>)> {
        let parts = self.collections.get(collection).into_iter().flat_map(|spanning| &spanning.parts);
        parts.filter_map(|span| {
            let cluster = self.clusters.get(span.cluster)?;
            Some((&cluster.name, span.start..span.start.saturating_add(span.len)))
        })
    }

    /// A fresh request id: every collection counts on its own, or two that are queried in turn would each hit the
    /// same replica for ever. 0 for a collection that cannot be routed.
    pub fn next_request_id(&self, collection: &CollectionEntry) -> u64 {
        let Some(spanning) = self.collections.get(&collection.name) else { return 0 };
        let parts = self.located(collection.name.as_str(), spanning);
        let first = parts.iter().find_map(|part| part.routed.built());
        first.map_or(0, |first| first.counters.requests.fetch_add(1, Relaxed))
    }

    /// The node whose worker listens at `url`.
    pub fn node_by_url(&self, url: &Url) -> Option<&Arc<RoutedNode>> {
        let members = self.clusters.iter().flat_map(|cluster| cluster.members.iter());
        members.map(|(_, member)| &member.node).find(|node| node.url == *url)
    }

    /// The node that answers for a key: that of its cluster, for a bare name the local one or else that of the first
    /// remote cluster; in each case only where it is enabled.
    pub fn answerer(&self, key: &Key) -> Option<&Arc<RoutedNode>> {
        let (cluster, name) = match key {
            Key::Node(node) => (Some(&node.cluster), &node.node),
            Key::Bare(name) => (None, name),
        };
        let asked = self.running().filter(|asked| cluster.is_none_or(|cluster| asked.name == *cluster));
        asked.into_iter().find_map(|cluster| {
            let node = cluster.place(name).filter(|node| cluster.nodes.is_enabled(*node))?;
            cluster.node(node)
        })
    }

    /// Every member of every running cluster, cluster after cluster, by name.
    pub fn members(&self) -> Vec<&Arc<RoutedNode>> {
        let mut nodes = vec![];
        for cluster in self.running() {
            let first = nodes.len();
            nodes.extend(cluster.members.iter().map(|(_, member)| &member.node));
            nodes[first..].sort_by(|one, other| one.key.cmp(&other.key));
        }
        nodes
    }

    /// Whether its cluster lets queries go to the node.
    pub fn is_enabled(&self, node: &NodeKey) -> bool {
        self.find(node).is_some_and(|(cluster, place)| cluster.nodes.is_enabled(place))
    }

    /// Whether the node is enabled and not excluded.
    pub fn is_routable(&self, node: &NodeKey) -> bool {
        self.find(node).is_some_and(|(cluster, place)| cluster.nodes.is_routable(place))
    }

    /// Whether the node's lease at its coordinator has ended.
    pub fn is_lost(&self, node: &NodeKey) -> bool {
        self.member(node).is_some_and(|member| member.entry.lost)
    }

    /// The routable nodes of every running cluster, by name.
    pub fn routable(&self) -> impl Iterator<Item = (&ClusterName, Vec<NodeKey>)> {
        self.running().map(|cluster| {
            let nodes = cluster.nodes.routable().iter().filter_map(|node| cluster.key_of(node));
            let mut nodes: Vec<_> = nodes.collect();
            nodes.sort();
            (&cluster.name, nodes)
        })
    }

    /// The unhealthy set with what is held against each key, members and others, by key.
    pub fn exclusions(&self) -> &BTreeMap<Key, Exclusion> {
        &self.exclusions
    }

    /// What is held against a node under either of its keys; `None`: it is not excluded.
    pub fn exclusion(&self, node: &NodeKey) -> Option<&Exclusion> {
        Key::both(node).iter().find_map(|key| self.exclusions.get(key))
    }

    /// The suspicions in a row against nodes that are not excluded.
    pub fn suspicions(&self) -> &BTreeMap<NodeKey, Suspicions> {
        &self.suspicions
    }

    /// The switches of fail-open in force.
    pub fn fail_open(&self) -> FailOpen {
        self.fail_open
    }

    /// Counts a request that is being sent to a node, until the guard is ended or dropped; `None`: the node is no
    /// member. `now` is since the start of the clock.
    pub fn sent(&self, node: &NodeKey, now: Duration) -> Option<InFlight> {
        let member = self.member(node)?;
        let statistics = member.statistics.get_or_init(|| Arc::new(NodeStatistics::new(self.adaptive, now)));
        Some(statistics.sent(now))
    }

    /// Lets statistics that were not fed for a while drift to those of the others; to be called once per
    /// [`AdaptiveSettings::decay_window`].
    pub fn decay_statistics(&self, now: Duration) {
        let members = self.clusters.iter().flat_map(|cluster| cluster.members.iter());
        let measured: Vec<_> = members.filter_map(|(_, member)| member.statistics.get().cloned()).collect();
        decay(&measured, now);
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &Arc<ClusterView>> {
        self.clusters.iter().filter(|cluster| cluster.running)
    }

    pub(crate) fn spanning(&self, name: &str) -> Result<&Spanning, Error> {
        let spanning = self.collections.get(name).filter(|spanning| !spanning.parts.is_empty());
        spanning.map(AsRef::as_ref).ok_or_else(|| {
            let message = format!("no cluster that is connected has routing for collection '{name}'");
            Error::new(ErrorCode::CollectionNotLoaded, message)
        })
    }

    fn member(&self, node: &NodeKey) -> Option<&Member> {
        let (cluster, place) = self.find(node)?;
        cluster.members.get(place)
    }

    fn find(&self, node: &NodeKey) -> Option<(&ClusterView, pointsman_instance_selector::NodeIndex)> {
        let cluster = self.running().find(|cluster| cluster.name == node.cluster)?;
        Some((cluster, cluster.place(&node.node)?))
    }

    fn local(&self) -> &ClusterView {
        // There is always a local cluster: a core without one cannot be made.
        &self.clusters[0]
    }
}
