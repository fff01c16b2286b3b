//! One segment's row.

use pointsman_ids::{CollectionId, SegmentId};
use smallvec::SmallVec;

use crate::{CatalogSegment, SegmentReport};

/// A node's place in lists; stands for its name in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(u32);

impl NodeIndex {
    /// The lowest there is.
    pub(crate) const FIRST: Self = Self(0);

    /// The index of the node at a place; more nodes than fit in 24 bits share the last one, and there are never so many.
    pub(super) fn new(at: usize) -> Self {
        Self(u32::try_from(at).unwrap_or(u32::MAX).min(Slot::MOST_NODES))
    }

    /// As a place in a list.
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// What one node has to do with one segment, in four bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    const MOST_NODES: u32 = (1 << 24) - 1;
    const REPORT: u32 = 0b11;
    const PLACED: u32 = 0b100;
    const WISHED: u32 = 0b1000;

    pub(super) fn new(node: NodeIndex) -> Self {
        Self(node.0 << 8)
    }

    /// The node.
    pub fn node(self) -> NodeIndex {
        NodeIndex(self.0 >> 8)
    }

    /// What the node reports of the segment; `None`: nothing.
    pub fn report(self) -> Option<SegmentReport> {
        match self.0 & Self::REPORT {
            1 => Some(SegmentReport::Fetching),
            2 => Some(SegmentReport::Held),
            3 => Some(SegmentReport::Failed),
            _ => None,
        }
    }

    /// Whether the node reports that it holds the segment.
    pub fn holds(self) -> bool {
        self.report() == Some(SegmentReport::Held)
    }

    /// Whether placement wants the segment on the node.
    pub fn is_placed(self) -> bool {
        self.0 & Self::PLACED > 0
    }

    /// Whether the node is told to hold the segment.
    pub fn is_wished(self) -> bool {
        self.0 & Self::WISHED > 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 & 0xff == 0
    }

    pub(super) fn set_report(&mut self, report: Option<SegmentReport>) {
        let bits = match report {
            None => 0,
            Some(SegmentReport::Fetching) => 1,
            Some(SegmentReport::Held) => 2,
            Some(SegmentReport::Failed) => 3,
        };
        self.0 = self.0 & !Self::REPORT | bits;
    }

    pub(super) fn set_placed(&mut self, placed: bool) {
        self.0 = self.0 & !Self::PLACED | if placed { Self::PLACED } else { 0 };
    }

    pub(super) fn set_wished(&mut self, wished: bool) {
        self.0 = self.0 & !Self::WISHED | if wished { Self::WISHED } else { 0 };
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (placed, wished) = (self.is_placed(), self.is_wished());
        write!(f, "{}: {:?}, placed {placed}, wished {wished}", self.node().0, self.report())
    }
}

/// How targets of its collection list a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// In the current one.
    pub(super) current: bool,
    /// In the current or the next one.
    pub(super) wanted: bool,
}

/// All that is known of where a segment is and should be.
#[derive(Clone, Debug, Default)]
pub struct Row {
    collection: CollectionId,
    weight: u64,
    pub(super) listed: Listed,
    /// By node.
    slots: SmallVec<[Slot; 4]>,
}

impl Row {
    /// Says what the segment is.
    pub(super) fn describe(&mut self, collection: CollectionId, segment: Option<&CatalogSegment>) {
        self.collection = collection;
        self.weight = segment.map_or(1, CatalogSegment::weight);
    }

    /// Whether a target lists the segment or did, so that it is known what it is.
    pub fn is_described(&self) -> bool {
        self.weight > 0
    }

    /// The collection of a segment that a target lists or listed.
    pub fn collection(&self) -> CollectionId {
        self.collection
    }

    /// What the segment weighs on a node: its rows. One without rows counts as one row, so that such spread as well.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Whether a target of its collection lists it: then each replica should have it.
    pub fn is_wanted(&self) -> bool {
        self.listed.wanted
    }

    /// Whether the current target lists it.
    pub fn is_current(&self) -> bool {
        self.listed.current
    }

    /// What nodes have to do with it, in the order in which the nodes were first heard of.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().copied()
    }

    /// What a node has to do with it; `None`: nothing.
    pub fn slot(&self, node: NodeIndex) -> Option<Slot> {
        let at = self.slots.binary_search_by_key(&node, |slot| slot.node()).ok()?;
        self.slots.get(at).copied()
    }

    pub(super) fn set_slot(&mut self, slot: Slot) {
        match self.slots.binary_search_by_key(&slot.node(), |known| known.node()) {
            Ok(at) if slot.is_empty() => drop(self.slots.remove(at)),
            Ok(at) => self.slots[at] = slot,
            Err(at) if !slot.is_empty() => self.slots.insert(at, slot),
            Err(_) => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && !self.is_wanted()
    }
}

impl CatalogSegment {
    /// What it weighs on a node: its rows, and one at least.
    pub fn weight(&self) -> u64 {
        self.segment.content.rows.max(1)
    }

    /// Its number.
    pub fn id(&self) -> SegmentId {
        self.segment.id
    }
}
