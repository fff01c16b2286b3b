//! The stores that decisions read.

use std::{collections::BTreeMap, mem, sync::Arc};

use pointsman_ids::{
    CollectionId, CollectionName, Error, GroupName, Incarnation, NodeId, NodeName, ReplicaId, SegmentId,
    SegmentName, ShardName,
    catalog::{Collection, ColumnStatistics, Segment, shard_name},
};

use crate::{Leads, LoadRecord, NodeRecord, Placement, Replica, ResourceGroup, Target};

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
    pub loads: BTreeMap<CollectionId, LoadRecord>,
    /// Replicas of all loads.
    pub replicas: BTreeMap<ReplicaId, Replica>,
    /// What is served.
    pub current: BTreeMap<CollectionId, Target>,
    /// What is being loaded to be served next. Absent: nothing new.
    pub next: BTreeMap<CollectionId, Target>,
    /// Sessions and reports of nodes that were heard since this coordinator became active.
    pub observed: BTreeMap<NodeName, Observation>,
    /// Loads of segments that failed, by segment and node, until the node holds the segment or starts anew.
    pub failures: BTreeMap<SegmentId, BTreeMap<NodeName, Failure>>,
    /// Whether nodes that were not heard yet are still waited for. False: their lease is over as well.
    pub awaiting: bool,
    /// Which node of a replica should hold a segment.
    pub placement: Placement,
    /// Which node of a replica leads a shard.
    pub leads: Leads,
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

    /// A segment of any collection, dropped ones included.
    pub fn any_segment(&self, id: SegmentId) -> Option<&CatalogSegment> {
        let live = self.collections.values().find_map(|store| store.segments.get(&id));
        live.or_else(|| self.dropped.get(&id))
    }

    /// Replicas of a collection, in the order of their creation.
    pub fn replicas_of(&self, collection: CollectionId) -> impl Iterator<Item = &Replica> {
        self.replicas.values().filter(move |replica| replica.collection == collection)
    }

    /// The newest target: next, else current.
    pub fn next_first(&self, collection: CollectionId) -> Option<&Target> {
        self.next.get(&collection).or_else(|| self.current.get(&collection))
    }

    /// State of a node's session.
    pub fn session(&self, node: &str) -> SessionState {
        match self.observed.get(node) {
            Some(observation) => observation.state,
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
        self.report(node, segment) == Some(&SegmentReport::Held)
    }

    /// What a node reported of a segment.
    pub fn report(&self, node: &str, segment: SegmentId) -> Option<&SegmentReport> {
        self.observed.get(node)?.segments.get(&segment)
    }

    /// Whether a node failed to load a segment and has not managed to since.
    pub fn failed(&self, node: &str, segment: SegmentId) -> bool {
        self.failures.get(&segment).is_some_and(|nodes| nodes.contains_key(node))
    }

    fn switched_on(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|record| record.switched_on)
    }
}

/// A collection with its segments.
#[derive(Clone, Debug)]
pub struct CollectionStore {
    /// What it is.
    pub collection: Collection,
    /// Its segments that are not dropped.
    pub segments: BTreeMap<SegmentId, CatalogSegment>,
    /// Their numbers by name.
    pub names: BTreeMap<SegmentName, SegmentId>,
}

impl CollectionStore {
    /// A collection without segments.
    pub fn new(collection: Collection) -> Self {
        Self { collection, segments: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// Adds a segment.
    pub fn insert(&mut self, segment: Segment) {
        self.names.insert(segment.content.name.clone(), segment.id);
        self.segments.insert(segment.id, CatalogSegment::new(segment));
    }

    /// Takes a segment out.
    pub fn remove(&mut self, id: SegmentId) -> Option<CatalogSegment> {
        let segment = self.segments.remove(&id)?;
        self.names.remove(&segment.segment.content.name);
        Some(segment)
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
    /// Takes the statistics out of a segment.
    pub fn new(mut segment: Segment) -> Self {
        let statistics = Arc::new(mem::take(&mut segment.content.statistics));
        Self { segment, statistics }
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
    /// Whether it said at least once all that it holds.
    pub reported: bool,
    /// What it reports.
    pub segments: BTreeMap<SegmentId, SegmentReport>,
}

/// A node's word about a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentReport {
    /// It is being fetched or verified.
    Fetching,
    /// It can be queried.
    Held,
    /// The last try to load it failed.
    Failed,
}

/// A load of a segment that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How often it was tried.
    pub tries: u32,
    /// What went wrong last.
    pub error: Error,
}
