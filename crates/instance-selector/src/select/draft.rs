//! A selection in the making.

use std::collections::BTreeMap;

use pointsman_ids::GroupNumber;

use super::{Scope, cause};
use crate::{
    Candidate, NodeIndex, Segments, Selection, request::first_places, segment::SegmentState,
    selection::PartEnd,
};

/// The picks so far. Every requested segment has one, in the order of the request, if only of nobody: fail-open fills in
/// what is missing, and the parts keep that order.
pub(super) struct Draft {
    picks: Vec<Pick>,
    tally: Tally,
}

/// A requested segment and who takes it.
#[derive(Clone, Copy)]
struct Pick {
    segment: u32,
    /// The place of the node, or [`Tally::nobody`].
    slot: u32,
}

/// What the picks amount to.
pub(super) struct Tally {
    /// Number of picks before the one that is being made.
    made: usize,
    /// Served segments by place of the node, and a place more for those that nobody serves, which stays 0.
    served: Vec<u32>,
    /// Optional picks, in the order of the request.
    optional: Vec<(u32, NodeIndex)>,
    /// Places of the picks of unavailable segments.
    unavailable: Vec<usize>,
    new: Vec<u32>,
    unknown: Vec<u32>,
    dropped: Vec<u32>,
}

impl Tally {
    /// The slot of segments that nobody serves.
    pub(super) fn nobody(&self) -> u32 {
        NodeIndex::at(self.served.len() - 1).0
    }

    /// Number of the pick that is being made.
    pub(super) fn place(&self) -> usize {
        self.made
    }

    /// A candidate takes the segment.
    #[inline]
    pub(super) fn takes(&mut self, segment: u32, candidate: Candidate) -> u32 {
        let node = candidate.node();
        if !candidate.is_online() {
            self.optional.push((segment, node));
            return self.nobody();
        }
        self.served[node.usize()] += 1;
        node.0
    }

    /// Nobody can take the segment.
    #[cold]
    pub(super) fn misses(&mut self, segment: u32, state: &SegmentState) -> u32 {
        if state.is_new() {
            self.new.push(segment)
        } else {
            self.unavailable.push(self.made)
        }
        self.nobody()
    }

    /// All who could take the segment stand outside every replica group.
    pub(super) fn drops(&mut self, segment: u32) -> u32 {
        self.dropped.push(segment);
        self.nobody()
    }
}

impl Draft {
    /// No picks yet.
    pub(super) fn new(scope: &Scope<'_>) -> Self {
        let tally = Tally {
            made: 0,
            served: vec![0; scope.states.listed.len() + 1],
            optional: Vec::new(),
            unavailable: Vec::new(),
            new: Vec::new(),
            unknown: Vec::new(),
            dropped: Vec::new(),
        };
        Self { picks: Vec::new(), tally }
    }

    /// Asks `decide` for the slot of every requested segment that exists, in the order of the request.
    pub(super) fn visit(
        &mut self,
        scope: &Scope<'_>,
        mut decide: impl FnMut(u32, &SegmentState, &mut Tally) -> u32,
    ) {
        let (tally, segments) = (&mut self.tally, &scope.states.segments);
        let nobody = tally.nobody();
        let mut unknown = Vec::new();
        let mut pick = |segment: u32, state: &SegmentState| {
            let slot = if state.exists() { decide(segment, state, tally) } else { nobody };
            tally.made += 1;
            Pick { segment, slot }
        };
        match scope.request.segments {
            Segments::All => {
                self.picks.reserve(segments.len());
                let mut first = 0;
                for leaf in segments.leaves() {
                    self.picks.extend((first..).zip(leaf).map(|(segment, state)| pick(segment, state)));
                    first += NodeIndex::at(leaf.len()).0;
                }
            }
            Segments::These(list) => {
                let mut focus = segments.focus();
                let list = first_places(list, segments.len());
                let absent = SegmentState::ABSENT;
                self.picks.extend(list.iter().map(|segment| {
                    let state = focus.get(*segment as usize).unwrap_or(&absent);
                    if !state.exists() {
                        unknown.push(*segment);
                    }
                    pick(*segment, state)
                }));
            }
        }
        self.tally.unknown = unknown;
    }

    /// The unavailable segments with the places of their picks, in the order of the request.
    pub(super) fn unavailable(&self) -> impl Iterator<Item = (usize, u32)> + Clone {
        self.tally.unavailable.iter().map(|place| (*place, self.picks[*place].segment))
    }

    /// A candidate takes the segment at a place that nobody had taken.
    pub(super) fn fill(&mut self, place: usize, candidate: Candidate) {
        let pick = &mut self.picks[place];
        pick.slot = self.tally.takes(pick.segment, candidate);
    }

    /// Nothing is unavailable any more: these are the fail-open picks. Returns their segments.
    pub(super) fn none_unavailable(&mut self) -> Vec<u32> {
        let places = std::mem::take(&mut self.tally.unavailable);
        places.into_iter().map(|place| self.picks[place].segment).collect()
    }

    /// The selection: the picks grouped by node.
    pub(super) fn finish(self, scope: &Scope<'_>) -> Selection {
        let Self { picks, tally } = self;
        let pools = pools(scope, &tally);
        let (mut ends, segments) = group(&picks, &tally.served);
        let is_asked = |node: NodeIndex| tally.served[node.usize()] > 0;
        let (mut sent, optional_skipped): (Vec<_>, Vec<_>) =
            tally.optional.iter().copied().partition(|(_, node)| is_asked(*node));
        // Stable, so that the segments of a node keep their order.
        sent.sort_by_key(|(_, node)| *node);
        for end in &mut ends {
            end.optional = NodeIndex::at(sent.partition_point(|(_, node)| *node <= end.node)).0;
        }
        let unavailable = tally.unavailable.iter().filter_map(|place| {
            let segment = picks[*place].segment;
            Some((segment, cause::cause(scope, scope.state(segment)?)))
        });
        Selection {
            ends,
            segments,
            optional: sent.into_iter().map(|(segment, _)| segment).collect(),
            optional_skipped: optional_skipped.into_iter().map(|(segment, _)| segment).collect(),
            new: tally.new,
            unknown: tally.unknown,
            unavailable: unavailable.collect(),
            dropped: tally.dropped,
            pools,
            ..Selection::default()
        }
    }
}

/// Counts the picks by pool of the candidate.
fn pools(scope: &Scope<'_>, tally: &Tally) -> Vec<(GroupNumber, u64)> {
    let mut pools = BTreeMap::<GroupNumber, u64>::new();
    for (node, served) in (0..).map(NodeIndex).zip(&tally.served).filter(|(_, served)| **served > 0) {
        *pools.entry(scope.states.pool(node)).or_default() += u64::from(*served);
    }
    for (_, node) in &tally.optional {
        *pools.entry(scope.states.pool(*node)).or_default() += 1;
    }
    pools.into_iter().collect()
}

/// Sorts the picks by node, those of nobody last and then away: a counting sort into one buffer.
fn group(picks: &[Pick], served: &[u32]) -> (Vec<PartEnd>, Vec<u32>) {
    let mut ends = Vec::new();
    let mut next = Vec::with_capacity(served.len());
    let mut end = 0;
    for (node, served) in (0..).map(NodeIndex).zip(served) {
        next.push(end);
        end += served;
        if *served > 0 {
            ends.push(PartEnd { node, segments: end, optional: 0 });
        }
    }
    let mut segments = vec![0; picks.len()];
    for pick in picks {
        let next = &mut next[pick.slot as usize];
        segments[*next as usize] = pick.segment;
        *next += 1;
    }
    segments.truncate(end as usize);
    (ends, segments)
}
