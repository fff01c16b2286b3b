//! Which replica holds what.

use pointsman_ids::{NodeName, SegmentId};

use crate::{Replica, Row, Stores};

impl Stores {
    /// Whether a known node that the replica contains reports the segment as held.
    pub fn replica_holds(&self, replica: &Replica, segment: SegmentId) -> bool {
        self.holders(segment).any(|node| replica.contains(node.as_str()) && self.is_known(node.as_str()))
    }

    /// Whether a node that the replica contains is present and reports the segment as held, also one that is disabled:
    /// it keeps its data.
    pub fn replica_carries(&self, replica: &Replica, segment: SegmentId) -> bool {
        self.holders(segment).any(|node| replica.contains(node.as_str()) && self.is_present(node.as_str()))
    }

    /// Nodes that report a segment as held.
    pub(crate) fn holders(&self, segment: SegmentId) -> impl Iterator<Item = &NodeName> {
        let slots = self.whereabouts.row(segment).into_iter().flat_map(Row::slots);
        slots.filter(|slot| slot.holds()).filter_map(|slot| self.whereabouts.name(slot.node()))
    }
}
