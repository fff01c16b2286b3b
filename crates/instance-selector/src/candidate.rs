//! A node that may be chosen for a segment.

use std::fmt;

use pointsman_ids::GroupNumber;

use crate::NodeIndex;

/// A node that may be chosen for a segment, in 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The node's place, and in the top bit whether it is *not* online.
    place: u32,
    group: GroupNumber,
}

/// Set in the place of a candidate that has not loaded its segment.
const OPTIONAL: u32 = 1 << 31;

impl Candidate {
    /// A filler for places that nobody reads.
    pub(crate) const NONE: Self = Self { place: u32::MAX, group: GroupNumber::NONE };

    pub(crate) fn new(node: NodeIndex, group: GroupNumber, online: bool) -> Self {
        Self { place: if online { node.0 } else { node.0 | OPTIONAL }, group }
    }

    /// The node's place, or a place beyond every node if the candidate is not online.
    #[inline]
    pub(crate) fn slot(self) -> u32 {
        self.place
    }

    /// The node.
    #[inline]
    pub fn node(self) -> NodeIndex {
        NodeIndex(self.place & !OPTIONAL)
    }

    /// Whether the node has loaded the segment. One that has not is optional work: only new segments have such.
    #[inline]
    pub fn is_online(self) -> bool {
        self.place & OPTIONAL == 0
    }

    /// The resource group of the replica that the copy belongs to, which is not always the node's.
    #[inline]
    pub fn group(self) -> GroupNumber {
        self.group
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("node", &self.node().0)
            .field("group", &self.group.0)
            .field("online", &self.is_online())
            .finish()
    }
}
