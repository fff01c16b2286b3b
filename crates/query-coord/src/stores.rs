//! The stores that decisions read.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, LazyLock},
};

mod distribution;
mod failed;
mod nodes;
mod registration;
mod replicas;
mod targets;

use imbl::{OrdMap, ordmap::DiffItem};
use pointsman_ids::{
    CollectionId, CollectionName, GroupName, Incarnation, NodeId, NodeName, PartitionName, SegmentId,
    SegmentName, ShardName,
    catalog::{Collection, ColumnStatistics, Segment, shard_name},
};

pub use self::{
    distribution::{Distribution, LeaderReport, LeaderView, elected},
    failed::{DroppedGroup, FailedLoad, FailedLoads},
    nodes::{KnownNode, KnownNodes},
    registration::{LoadKind, LoadRecord, LoadStatus, PartitionLoad, Registrations},
    replicas::{Replica, Replicas},
    targets::{Scope, Target, TargetSegment, TargetShard, Targets},
};
use crate::{
    Failure, Leads, Leaving, NodeRecord, Placement, PlacementRules, Pulls, ResourceGroup, Seen, Whereabouts,
    balance::Penalties,
};

/// All that the coordinator knows: what it stored, what nodes report, and what it decided last.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    /// The catalog.
    pub collections: BTreeMap<CollectionId, CollectionStore>,
    /// Numbers of collections by name.
    pub names: BTreeMap<CollectionName, CollectionId>,
    /// Segments that are dropped from the catalog and may still be in a current target or on nodes.
    pub dropped: BTreeMap<SegmentId, CatalogSegment>,
    /// Resource groups with their members.
    pub groups: BTreeMap<GroupName, ResourceGroup>,
    /// Nodes that were ever registered.
    pub nodes: BTreeMap<NodeName, NodeRecord>,
    /// The cluster's configuration: keys that have a value.
    pub config: BTreeMap<String, String>,
    /// Registrations of loads.
    pub loads: Registrations,
    /// Replicas of all loads.
    pub replicas: Replicas,
    /// What is served, and what is being loaded to be served next.
    pub targets: Targets,
    /// Which of them hold what the catalog has.
    pub pulls: Pulls,
    /// What nodes report to lead.
    pub distribution: Distribution,
    /// Failed loads.
    pub failed_loads: FailedLoads,
    /// Sessions and reports of nodes that were heard since this coordinator became active.
    pub observed: BTreeMap<NodeName, Observation>,
    /// Loads of segments that failed of late, by segment and node, until the node holds the segment or starts anew.
    pub failures: BTreeMap<SegmentId, BTreeMap<NodeName, Failure>>,
    /// Nodes that had no room of late.
    pub penalties: Penalties,
    /// What placement goes by.
    pub rules: PlacementRules,
    /// Whether nodes that were not heard yet are still waited for. False: their lease is over as well.
    pub awaiting: bool,
    /// Where segments are and should be.
    pub whereabouts: Whereabouts,
    /// Sums over places, and what is on its way.
    pub placement: Placement,
    /// Which node of a replica leads a shard.
    pub leads: Leads,
    /// Nodes that did not take over a lead in time; others are asked first.
    pub late_leads: Leads,
    /// Nodes that are to leave.
    pub leaving: Leaving,
    /// How everything was when changes were looked for last.
    pub seen: Seen,
}

impl Stores {
    /// The collection of this name.
    pub fn collection(&self, name: &str) -> Option<&CollectionStore> {
        self.collections.get(self.names.get(name)?)
    }

    /// A segment of a collection, dropped ones included.
    pub fn segment(&self, collection: CollectionId, id: SegmentId) -> Option<&CatalogSegment> {
        let live = self.collections.get(&collection).and_then(|store| store.segments.get(&id));
        live.or_else(|| self.dropped.get(&id))
    }

    /// Replicas of a collection, in the order of their creation.
    pub fn replicas_of(&self, collection: CollectionId) -> impl Iterator<Item = &Replica> {
        self.replicas.of(collection).iter().map(Arc::as_ref)
    }

    /// The newest target: next, else current.
    pub fn next_first(&self, collection: CollectionId) -> Option<&Target> {
        self.targets.first(collection, Scope::NextFirst).map(Arc::as_ref)
    }

    /// State of a node's session. One that lives and is being drained counts as stopping.
    pub fn session(&self, node: &str) -> SessionState {
        match self.observed.get(node).map(|observation| observation.state) {
            Some(SessionState::Live) if self.leaving.drains.contains_key(node) => SessionState::Stopping,
            Some(state) => state,
            None if self.awaiting => SessionState::Awaited,
            None => SessionState::Lost,
        }
    }

    /// Whether a node takes new work: its session lives, and the operator's switch is on.
    pub fn takes_work(&self, node: &str) -> bool {
        self.session(node) == SessionState::Live && self.switched_on(node)
    }

    /// Whether a node is there, also while it is stopping, whatever the operator's switch.
    pub fn is_present(&self, node: &str) -> bool {
        matches!(self.session(node), SessionState::Live | SessionState::Stopping)
    }

    /// Whether queries can count on what a node holds: it is present, and the operator's switch is on.
    pub fn is_known(&self, node: &str) -> bool {
        self.is_present(node) && self.switched_on(node)
    }

    /// Whether the operator has taken a registered node out of everything that routes.
    pub fn is_disabled(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|record| !record.switched_on)
    }

    /// Whether a node reports a segment as held, whatever its session.
    pub fn holds(&self, node: &str, segment: SegmentId) -> bool {
        self.report(node, segment) == Some(SegmentReport::Held)
    }

    /// All that a node reports.
    pub fn reports(&self, node: &NodeName) -> impl Iterator<Item = (SegmentId, SegmentReport)> + '_ {
        let index = self.whereabouts.index(node.as_str());
        index.into_iter().flat_map(|index| self.whereabouts.reports(index))
    }

    /// Forgets all that a node reported.
    pub fn clear_reports(&mut self, node: &NodeName) {
        if let Some(index) = self.whereabouts.index(node.as_str()) {
            self.whereabouts.clear_reports(index);
        }
    }

    /// A segment that a target lists or listed and that somebody has to do with, or one that is dropped.
    pub fn known_segment(&self, id: SegmentId) -> Option<&CatalogSegment> {
        let row = self.whereabouts.row(id).filter(|row| row.is_described());
        row.and_then(|row| self.segment(row.collection(), id)).or_else(|| self.dropped.get(&id))
    }

    /// What a node reported of a segment.
    pub fn report(&self, node: &str, segment: SegmentId) -> Option<SegmentReport> {
        self.whereabouts.reported(self.whereabouts.index(node)?, segment)
    }

    fn switched_on(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|record| record.switched_on)
    }
}

/// Keys of entries in which two versions of a map differ. Costs what differs.
fn differing<K: Ord + Clone, V: PartialEq>(before: &OrdMap<K, V>, after: &OrdMap<K, V>) -> Vec<K> {
    let key = |item| match item {
        DiffItem::Add(key, _) | DiffItem::Remove(key, _) | DiffItem::Update { new: (key, _), .. } => {
            K::clone(key)
        }
    };
    before.diff(after).map(key).collect()
}

/// A collection with its segments.
#[derive(Clone, Debug)]
pub struct CollectionStore {
    /// What it is.
    pub collection: Arc<Collection>,
    /// Its segments that are not dropped.
    pub segments: BTreeMap<SegmentId, CatalogSegment>,
    /// Their numbers by name.
    pub names: BTreeMap<SegmentName, SegmentId>,
    /// How many of them each partition has; none has 0.
    sizes: BTreeMap<PartitionName, usize>,
    /// Another one after every change of the segments.
    contents: Arc<()>,
}

impl CollectionStore {
    /// A collection without segments.
    pub fn new(collection: Collection) -> Self {
        Self {
            collection: Arc::new(collection),
            segments: BTreeMap::new(),
            names: BTreeMap::new(),
            sizes: BTreeMap::new(),
            contents: Arc::default(),
        }
    }

    /// A collection with these segments.
    pub fn of(
        collection: Collection,
        segments: BTreeMap<SegmentId, CatalogSegment>,
        names: BTreeMap<SegmentName, SegmentId>,
    ) -> Self {
        let mut sizes = BTreeMap::new();
        for segment in segments.values() {
            *sizes.entry(segment.segment.content.partition.clone()).or_default() += 1;
        }
        Self { collection: Arc::new(collection), segments, names, sizes, contents: Arc::default() }
    }

    /// Adds a segment.
    pub fn insert(&mut self, segment: Segment) {
        self.remove(segment.id);
        self.touch();
        let size = self.sizes.entry(segment.content.partition.clone()).or_default();
        *size += 1;
        self.names.insert(segment.content.name.clone(), segment.id);
        self.segments.insert(segment.id, CatalogSegment::new(segment));
    }

    /// Takes a segment out.
    pub fn remove(&mut self, id: SegmentId) -> Option<CatalogSegment> {
        let segment = self.segments.remove(&id)?;
        self.touch();
        self.names.remove(&segment.segment.content.name);
        let partition = &segment.segment.content.partition;
        if let Some(size) = self.sizes.get_mut(partition) {
            *size -= 1;
            if *size == 0 {
                self.sizes.remove(partition);
            }
        }
        Some(segment)
    }

    /// As long as this is the same value, its segments are the same.
    pub(crate) fn contents(&self) -> &Arc<()> {
        &self.contents
    }

    fn touch(&mut self) {
        // Nobody can compare with a value that nobody kept.
        if Arc::strong_count(&self.contents) > 1 {
            self.contents = Arc::default();
        }
    }

    /// Its partitions, ascending: those that have a segment.
    pub fn partitions(&self) -> impl Iterator<Item = &PartitionName> {
        self.sizes.keys()
    }

    /// The segment of this name.
    pub fn by_name(&self, name: &str) -> Option<&CatalogSegment> {
        self.segments.get(self.names.get(name)?)
    }

    /// Its shards, in order.
    pub fn shards(&self) -> impl Iterator<Item = ShardName> {
        (0..self.collection.options.shards.max(1)).map(shard_name)
    }
}

/// A segment whose statistics are shared with the feed.
#[derive(Clone, Debug)]
pub struct CatalogSegment {
    /// What it is, with its statistics taken out.
    pub segment: Segment,
    /// Its statistics by column.
    pub statistics: Arc<BTreeMap<String, ColumnStatistics>>,
}

impl CatalogSegment {
    /// Takes the statistics out of a segment. Segments without any share that.
    pub fn new(mut segment: Segment) -> Self {
        static NONE: LazyLock<Arc<BTreeMap<String, ColumnStatistics>>> = LazyLock::new(Arc::default);
        let statistics = mem::take(&mut segment.content.statistics);
        let statistics = if statistics.is_empty() { Arc::clone(&NONE) } else { Arc::new(statistics) };
        Self { segment, statistics }
    }

    /// How it stands in a target.
    pub fn in_target(&self) -> TargetSegment {
        let Segment { id, shard, content, .. } = &self.segment;
        TargetSegment { id: *id, partition: content.partition.clone(), shard: shard.clone() }
    }

    /// The segment as the catalog has it.
    pub fn whole(&self) -> Segment {
        let mut segment = self.segment.clone();
        segment.content.statistics = BTreeMap::clone(&self.statistics);
        segment
    }
}

/// State of a node's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Not heard since this coordinator became active, and its lease may still run. Silence is not absence.
    Awaited,
    /// Its lease runs.
    Live,
    /// It said that it stops. It serves to the end what it has, and takes nothing new.
    Stopping,
    /// Its lease ended without a word.
    Lost,
    /// It signed off.
    Gone,
}

/// What is known of one incarnation of a node.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Number of this name and incarnation.
    pub id: NodeId,
    /// Its process start.
    pub incarnation: Incarnation,
    /// Where its worker listens, as URL.
    pub address: String,
    /// State of its session.
    pub state: SessionState,
    /// Bytes that it has for segments; `None`: it does not say.
    pub memory: Option<u64>,
    /// Whether it said at least once all that it holds.
    pub reported: bool,
}

/// A node's word about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentReport {
    /// It is being fetched or verified.
    Fetching,
    /// It can be queried.
    Held,
    /// The last try to load it failed.
    Failed,
}
