//! What states are made of: the assignment and the observation of segments.

use std::time::Duration;

use pointsman_ids::{GroupNumber, feed::CopyState};

use crate::NodeIndex;

/// A segment as the feed describes it.
#[derive(Clone, Copy, Debug)]
pub struct SegmentInput<'a> {
    /// It belongs to a current target: it is old from the start, and unavailable if nobody is assigned.
    pub promoted: bool,
    /// Time since its creation. It counts when states are built; what a change brings is as old as the sight of it.
    pub age: Duration,
    /// Its copies, wanted or there, in any order. Of several on one node the first that is loaded counts, else the
    /// first that should be.
    pub copies: &'a [CopyInput],
}

impl SegmentInput<'_> {
    /// Whether the segment is part of the universe: some node should serve it, or a current target holds it.
    pub fn exists(&self) -> bool {
        self.promoted || self.copies.iter().any(CopyInput::should_serve)
    }
}

/// One node's copy of a segment, wanted or there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyInput {
    /// The node, by its place in the table of the [`Nodes`](crate::Nodes) that come along.
    pub node: NodeIndex,
    /// The resource group of the replica; [`GroupNumber::NONE`] if there is none.
    pub group: GroupNumber,
    /// The coordinator's word; `None`: not assigned.
    pub assigned: Option<CopyState>,
    /// The node's word; `None`: nothing reported.
    pub observed: Option<CopyState>,
}

impl CopyInput {
    /// Whether the node should serve the segment.
    pub fn should_serve(&self) -> bool {
        self.assigned.is_some_and(CopyState::serves)
    }

    /// Whether the node should serve the segment and does.
    pub fn is_loaded(&self) -> bool {
        self.should_serve() && self.observed.is_some_and(CopyState::serves)
    }
}

/// One step of a change. Positions are those at the moment of the step: steps apply in order.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// The segment at `at` is described anew.
    Set {
        /// Its position.
        at: u32,
        /// What is said of it now.
        segment: SegmentInput<'a>,
    },
    /// A segment comes in before the one at `at`, or behind the last.
    Insert {
        /// Its position from now on.
        at: u32,
        /// What is said of it.
        segment: SegmentInput<'a>,
    },
    /// The segment at `at` goes.
    Remove {
        /// Its position until now.
        at: u32,
    },
}
