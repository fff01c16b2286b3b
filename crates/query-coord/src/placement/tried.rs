//! Who tries what failed.

use std::cell::Cell;

use pointsman_ids::{SegmentId, TargetVersion};

use super::{Glance, Seats};
use crate::{NodeIndex, Stores};

/// How often nodes of a replica failed to load segments of its collection's newest target.
pub(super) struct Tried<'a> {
    stores: &'a Stores,
    target: Option<TargetVersion>,
    /// Nodes of the replica that may be given something.
    takers: Vec<NodeIndex>,
    /// The segment that was asked for last, with the fewest tries of a taker.
    fewest: Cell<Option<(SegmentId, u32)>>,
}

impl<'a> Tried<'a> {
    pub(super) fn of(
        stores: &'a Stores,
        glance: &Glance,
        seats: &Seats,
        collection: pointsman_ids::CollectionId,
        replica: usize,
    ) -> Self {
        let target = stores.next_first(collection).map(|target| target.version);
        let takers = stores.whereabouts.indexes();
        let takers = takers.filter(|node| seats.is_writable(*node, replica) && glance.takes(*node)).collect();
        Self { stores, target, takers, fewest: Cell::new(None) }
    }

    /// How often a node tried a segment in vain.
    pub(super) fn times(&self, segment: SegmentId, node: NodeIndex) -> u32 {
        let name = self.stores.whereabouts.name(node);
        self.target.zip(name).map_or(0, |(target, name)| self.stores.tries(target, segment, name))
    }

    /// Whether a node is among those that try a segment next: it may be given something, no other one tried the segment
    /// less often, and it may try again.
    pub(super) fn tries_next(&self, segment: SegmentId, node: NodeIndex) -> bool {
        if !self.stores.failures.contains_key(&segment) {
            return true;
        }
        let times = self.times(segment, node);
        times < self.stores.rules.segment_load_tries
            && times == self.fewest(segment)
            && self.takers.contains(&node)
    }

    fn fewest(&self, segment: SegmentId) -> u32 {
        if let Some((_, fewest)) = self.fewest.get().filter(|(known, _)| *known == segment) {
            return fewest;
        }
        let fewest = self.takers.iter().map(|node| self.times(segment, *node)).min().unwrap_or(0);
        self.fewest.set(Some((segment, fewest)));
        fewest
    }
}
