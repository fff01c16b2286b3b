//! The outcome of a selection.

use pointsman_ids::{GroupNumber, UnavailableCause};

use crate::{FailOpenGate, NodeIndex};

/// Who answers for what. Every requested segment is in exactly one of: a part, its optional segments,
/// [`optional_skipped`](Self::optional_skipped), [`new`](Self::new), [`unknown`](Self::unknown),
/// [`unavailable`](Self::unavailable), [`dropped`](Self::dropped). Lists keep the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The nodes that are asked, by place, ascending.
    pub parts: Vec<Part>,
    /// Optional segments whose node serves nothing in this request: nobody is contacted for them alone.
    pub optional_skipped: Vec<u32>,
    /// New segments that nobody routable should serve: they are nowhere yet, and nothing is missing without them.
    pub new: Vec<u32>,
    /// Segments that the states do not know: catalog and routing are two snapshots, and one may lag.
    pub unknown: Vec<u32>,
    /// Segments that nobody can answer for, and why.
    pub unavailable: Vec<(u32, UnavailableCause)>,
    /// Segments whose usable candidates all stand outside every replica group.
    pub dropped: Vec<u32>,
    /// Served segments that were picked by fail-open.
    pub fail_open: Vec<u32>,
    /// Whether some unavailable segment had fail-open candidates, whatever became of it.
    pub fail_open_eligible: bool,
    /// How far fail-open came.
    pub fail_open_gate: FailOpenGate,
    /// Number of picks by pool of the candidate, ascending; optional ones, sent or not, and fail-open picks included.
    /// None with `multi_stage_replica_group`.
    pub pools: Vec<(GroupNumber, u64)>,
}

/// A node with what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The node.
    pub node: NodeIndex,
    /// Segments that it answers for, in the order of the request; at least one.
    pub segments: Vec<u32>,
    /// Segments that it may skip: it should serve them and has not loaded them yet.
    pub optional: Vec<u32>,
}

impl Selection {
    /// Number of segments that a node answers for.
    pub fn served(&self) -> usize {
        self.parts.iter().map(|part| part.segments.len()).sum()
    }

    /// Whether nobody is asked.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}
