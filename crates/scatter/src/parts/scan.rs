//! The segments that a query asks for.

use std::collections::BTreeMap;

use pointsman_ids::{NodeKey, UnavailableCause};

use super::PartNumber;

/// A segment of a query: its scan, and its place in the list that the scan asks for. Places of one scan ascend in the
/// order of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the scan, as [`Parts::add_scan`](super::Parts::add_scan) gave it.
    pub scan: usize,
    /// From 0, in the order of the request.
    pub at: usize,
}

/// What became of a segment so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is to be routed.
    Waiting,
    /// A node is asked for it.
    Asked,
    /// It is in the rows that count.
    Answered,
    /// The last part that it was in failed, and it is not asked for again.
    Lost,
    /// Routing has nobody for it.
    Unroutable(Box<Unroutable>),
}

/// Why routing has nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unroutable {
    pub(super) cause: UnavailableCause,
    pub(super) nodes: Vec<NodeKey>,
}

#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) state: State,
    /// How often it was asked for.
    pub(super) attempts: u32,
    /// The part that it was in last.
    pub(super) last: Option<PartNumber>,
    /// Its last pick was an excluded node, for want of others; if it has none, a pick of an attempt before.
    pub(super) fail_open: bool,
    /// Segments of one group move together; `None`: it moves alone.
    pub(super) group: Option<u32>,
}

impl Segment {
    pub(super) fn is_asked_or_answered(&self) -> bool {
        matches!(self.state, State::Asked | State::Answered)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    pub(super) segments: Vec<Segment>,
    /// Places by group, ascending.
    pub(super) groups: BTreeMap<u32, Vec<usize>>,
}

impl Scan {
    /// Segments with their groups, which were asked for so often already, as parts of the whole query.
    pub(super) fn new(groups: impl IntoIterator<Item = Option<u32>>, attempts: u32) -> Self {
        let mut scan = Self::default();
        for (at, group) in groups.into_iter().enumerate() {
            if let Some(group) = group {
                scan.groups.entry(group).or_default().push(at);
            }
            let segment = Segment { state: State::Waiting, attempts, last: None, fail_open: false, group };
            scan.segments.push(segment);
        }
        scan
    }

    /// The places of a group.
    pub(super) fn group(&self, group: u32) -> &[usize] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }
}
