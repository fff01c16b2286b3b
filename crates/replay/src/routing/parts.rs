//! A cluster's parts of collections, as the coordinator would tell them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_ids::{
    ClusterName, CollectionId, CollectionName, FeedVersion, NodeId, NodeName, SegmentId, SegmentName,
    catalog::RoutingOptions,
    feed::{CollectionEntry, CopyEntry, LoadState, SegmentEntry},
};

use super::scenario::{CollectionChange, Segment};

/// Wall time at the start of every scenario, nanoseconds since the Unix epoch: late enough for segments of any age.
pub(super) const STARTED_AT: u64 = 1 << 62;

/// Numbers that were not used before.
#[derive(Debug, Default)]
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// A cluster's parts of all collections.
#[derive(Debug, Default)]
pub(super) struct Parts(BTreeMap<CollectionName, Part>);

#[derive(Debug)]
struct Part {
    id: CollectionId,
    routing: RoutingOptions,
    segments: Vec<Segment>,
    /// What a manager has heard of the segments; `None`: it has not heard of the part.
    heard: Option<BTreeMap<SegmentName, Heard>>,
}

/// What stays the same of a segment as long as a manager knows it.
#[derive(Clone, Copy, Debug)]
struct Heard {
    id: SegmentId,
    /// Nanoseconds since the Unix epoch.
    created_at: u64,
}

impl Parts {
    pub(super) fn names(&self) -> Vec<CollectionName> {
        self.0.keys().cloned().collect()
    }

    pub(super) fn change(&mut self, name: &CollectionName, change: &CollectionChange, numbers: &mut Numbers) {
        match change {
            CollectionChange::Drop => drop(self.0.remove(name)),
            CollectionChange::Create { routing, segments } => {
                let id = CollectionId(numbers.next());
                let part = Part { id, routing: routing.clone(), segments: segments.clone(), heard: None };
                self.0.insert(name.clone(), part);
            }
            CollectionChange::Assign { replica_groups, segments } => {
                let Some(part) = self.0.get_mut(name) else { return };
                part.segments.clone_from(segments);
                if let Some(replica_groups) = replica_groups {
                    part.routing.replica_groups.clone_from(replica_groups);
                }
            }
        }
    }

    /// A part as a manager hears it now, in a version of its own; `None`: there is none.
    pub(super) fn tell(
        &mut self,
        name: &CollectionName,
        clusters: Vec<ClusterName>,
        id: impl Fn(&NodeName) -> Option<NodeId>,
        numbers: &mut Numbers,
        now: Duration,
    ) -> Option<CollectionEntry> {
        let part = self.0.get_mut(name)?;
        let heard = part.hear(numbers, now);
        let by_name: BTreeMap<_, _> = part.segments.iter().map(|segment| (&segment.name, segment)).collect();
        let entry = |segment: &Segment| {
            let heard = heard.get(&segment.name)?;
            Some(Arc::new(segment_entry(segment, *heard, copies(segment, &id))))
        };
        let segments = by_name.into_values().filter_map(entry).collect();
        part.heard = Some(heard);
        Some(CollectionEntry {
            name: name.clone(),
            id: part.id,
            version: FeedVersion(numbers.next()),
            routing: part.routing.clone(),
            query_timeout: None,
            key: None,
            vector_indexes: Vec::new(),
            clusters,
            columns: Vec::new(),
            partitions: Vec::new(),
            shards: Vec::new(),
            load: LoadState::Serving,
            finished_groups: Vec::new(),
            replicas: Vec::new(),
            segments,
            leaders: Vec::new(),
        })
    }
}

impl Part {
    /// What a manager knows that hears of all segments now. Their ages count where it hears of the part for the first
    /// time; a segment that comes later is created now.
    fn hear(&self, numbers: &mut Numbers, now: Duration) -> BTreeMap<SegmentName, Heard> {
        let wall = STARTED_AT.saturating_add(nanoseconds(now));
        let mut hear = |segment: &Segment| {
            let (age, known) = match &self.heard {
                None => (segment.age, None),
                Some(heard) => (Duration::ZERO, heard.get(&segment.name)),
            };
            let created_at = wall.saturating_sub(nanoseconds(age));
            let heard = known.copied().unwrap_or_else(|| Heard { id: SegmentId(numbers.next()), created_at });
            (segment.name.clone(), heard)
        };
        self.segments.iter().map(&mut hear).collect()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One copy for every node that is assigned or observed, by node id.
fn copies(segment: &Segment, id: impl Fn(&NodeName) -> Option<NodeId>) -> Vec<CopyEntry> {
    let mut copies = BTreeMap::new();
    let copy = |node| CopyEntry { node, replica: 0, assigned: None, observed: None };
    for (node, state) in &segment.assigned {
        if let Some(id) = id(node) {
            copies.entry(id).or_insert_with(|| copy(id)).assigned = Some(*state);
        }
    }
    for (node, state) in &segment.observed {
        if let Some(id) = id(node) {
            copies.entry(id).or_insert_with(|| copy(id)).observed = Some(*state);
        }
    }
    copies.into_values().collect()
}

/// Scenarios have no targets: a segment may be new.
fn segment_entry(segment: &Segment, heard: Heard, copies: Vec<CopyEntry>) -> SegmentEntry {
    SegmentEntry {
        id: heard.id,
        name: segment.name.clone(),
        partition: 0,
        shard: 0,
        rows: 0,
        bytes: 0,
        created_at: heard.created_at,
        promoted: false,
        statistics: Arc::default(),
        copies,
    }
}
