//! A selection in the making.

use std::collections::BTreeMap;

use imbl::Vector;
use pointsman_ids::GroupNumber;

use super::{Scope, cause, requested::Requested};
use crate::{Candidate, NodeIndex, Selection, segment::SegmentState, selection::PartEnd};

/// The picks so far. Every requested segment has its slot, in the order of the request: the place of the node that takes
/// it, or a place behind all nodes for nobody. So fail-open fills in what is missing, and the parts keep that order.
pub(super) struct Draft {
    slots: Vec<u32>,
    tally: Tally,
}

/// What the picks amount to. Segments go by their place in the request.
pub(super) struct Tally {
    /// Served segments by slot; that of nobody stays 0.
    served: Vec<u32>,
    optional: Vec<(usize, NodeIndex)>,
    unavailable: Vec<usize>,
    new: Vec<usize>,
    unknown: Vec<usize>,
    dropped: Vec<usize>,
}

/// Decides who takes which segment.
pub(super) trait Decide {
    /// Adds the slots of the next segments to the draft, by [`Draft::extend`].
    fn pick<'s>(&mut self, states: impl ExactSizeIterator<Item = &'s SegmentState>, draft: &mut Draft);
}

impl Tally {
    /// The slot of segments that nobody serves.
    pub(super) fn nobody(&self) -> u32 {
        NodeIndex::at(self.served.len() - 1).0
    }

    /// A candidate takes the segment at a place.
    #[inline]
    pub(super) fn takes(&mut self, place: usize, candidate: Candidate) -> u32 {
        let slot = candidate.slot();
        match self.served.get_mut(slot as usize) {
            Some(served) => {
                *served += 1;
                slot
            }
            None => self.takes_optional(place, candidate),
        }
    }

    #[cold]
    fn takes_optional(&mut self, place: usize, candidate: Candidate) -> u32 {
        self.optional.push((place, candidate.node()));
        self.nobody()
    }

    /// Nobody can take the segment at a place.
    #[cold]
    pub(super) fn misses(&mut self, place: usize, state: &SegmentState) -> u32 {
        if !state.exists() {
            self.unknown.push(place);
        } else if state.is_new() {
            self.new.push(place);
        } else {
            self.unavailable.push(place);
        }
        self.nobody()
    }

    /// All who could take the segment at a place stand outside every replica group.
    pub(super) fn drops(&mut self, place: usize) -> u32 {
        self.dropped.push(place);
        self.nobody()
    }
}

impl Draft {
    /// No picks yet.
    pub(super) fn new(scope: &Scope<'_>) -> Self {
        let tally = Tally {
            served: vec![0; scope.states.listed.len() + 1],
            optional: Vec::new(),
            unavailable: Vec::new(),
            new: Vec::new(),
            unknown: Vec::new(),
            dropped: Vec::new(),
        };
        Self { slots: Vec::with_capacity(scope.requested.len()), tally }
    }

    /// Has the picks of all requested segments decided, in the order of the request.
    pub(super) fn visit(&mut self, scope: &Scope<'_>, decide: &mut impl Decide) {
        let segments = &scope.states.segments;
        match &scope.requested {
            Requested::All(_) => segments.leaves().for_each(|leaf| decide.pick(leaf.iter(), self)),
            Requested::These { list, ascends } => self.visit_list(segments, list, *ascends, decide),
        }
    }

    fn visit_list(
        &mut self,
        segments: &Vector<SegmentState>,
        list: &[u32],
        ascends: bool,
        decide: &mut impl Decide,
    ) {
        let mut focus = segments.focus();
        let mut rest = list;
        // Run by run of those that lie in one leaf.
        while let Some(first) = rest.first().map(|first| *first as usize) {
            if first >= segments.len() {
                self.tally.unknown.push(self.slots.len());
                self.slots.push(self.tally.nobody());
                rest = &rest[1..];
                continue;
            }
            let (range, leaf) = focus.chunk_at(first);
            let most = rest.len().min(range.end - first);
            let state = |segment: &u32| &leaf[*segment as usize - range.start];
            if ascends && rest[most - 1] as usize == first + most - 1 {
                // Without gaps.
                let start = first - range.start;
                decide.pick(leaf[start..start + most].iter(), self);
                rest = &rest[most..];
                continue;
            }
            let within = |segment: &&u32| range.contains(&(**segment as usize));
            let (run, behind) = rest.split_at(rest.iter().take_while(within).count());
            decide.pick(run.iter().map(state), self);
            rest = behind;
        }
    }

    /// Adds the slots of the next segments: `slot` tells that of each, by its place in the request and its state.
    #[inline]
    pub(super) fn extend<'s>(
        &mut self,
        states: impl ExactSizeIterator<Item = &'s SegmentState>,
        mut slot: impl FnMut(usize, &SegmentState, &mut Tally) -> u32,
    ) {
        let tally = &mut self.tally;
        let first = self.slots.len();
        // Room first and a plain loop then: what the loop carries from segment to segment stays in registers.
        self.slots.resize(first + states.len(), 0);
        for (offset, (place, state)) in self.slots[first..].iter_mut().zip(states).enumerate() {
            *place = slot(first + offset, state, tally);
        }
    }

    /// The places of unavailable segments.
    pub(super) fn unavailable(&self) -> &[usize] {
        &self.tally.unavailable
    }

    /// A candidate takes the segment at a place that nobody had taken.
    pub(super) fn fill(&mut self, place: usize, candidate: Candidate) {
        self.slots[place] = self.tally.takes(place, candidate);
    }

    /// Nothing is unavailable any more: these are the fail-open picks. Returns their places.
    pub(super) fn none_unavailable(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.tally.unavailable)
    }

    /// The selection: the picks grouped by node.
    pub(super) fn finish(self, scope: &Scope<'_>) -> Selection {
        let Self { slots, tally } = self;
        let pools = pools(scope, &tally);
        let (mut ends, segments) = match &scope.requested {
            Requested::All(all) => group(0..*all, &slots, &tally.served),
            Requested::These { list, .. } => group(list.iter().copied(), &slots, &tally.served),
        };
        let is_asked = |node: NodeIndex| tally.served[node.usize()] > 0;
        let (mut sent, skipped): (Vec<_>, Vec<_>) =
            tally.optional.iter().copied().partition(|(_, node)| is_asked(*node));
        // Stable, so that the segments of a node keep their order.
        sent.sort_by_key(|(_, node)| *node);
        for end in &mut ends {
            end.optional = NodeIndex::at(sent.partition_point(|(_, node)| *node <= end.node)).0;
        }
        let segment = |place: &usize| scope.requested.segment(*place);
        let all = |places: &[usize]| places.iter().map(segment).collect();
        let unavailable = tally.unavailable.iter().map(segment);
        let unknown = if scope.requested.is_named() { all(&tally.unknown) } else { Vec::new() };
        Selection {
            ends,
            segments,
            optional: sent.iter().map(|(place, _)| segment(place)).collect(),
            optional_skipped: skipped.iter().map(|(place, _)| segment(place)).collect(),
            new: all(&tally.new),
            unknown,
            unavailable: unavailable
                .filter_map(|segment| Some((segment, cause::cause(scope, scope.state(segment)?))))
                .collect(),
            dropped: all(&tally.dropped),
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

/// Sorts the requested segments by slot, those of nobody last and then away: a counting sort into one buffer.
fn group(requested: impl Iterator<Item = u32>, slots: &[u32], served: &[u32]) -> (Vec<PartEnd>, Vec<u32>) {
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
    let mut segments = vec![0; slots.len()];
    for (segment, slot) in requested.zip(slots) {
        let next = &mut next[*slot as usize];
        segments[*next as usize] = segment;
        *next += 1;
    }
    segments.truncate(end as usize);
    (ends, segments)
}
