//! A selection in the making.

use std::{collections::BTreeMap, iter};

use imbl::Vector;
use pointsman_ids::GroupNumber;

use super::{Scope, cause, requested::Requested};
use crate::{Candidate, NodeIndex, Part, Selection, segment::SegmentState};

/// The picks so far. All lists keep the order of the request: segments go straight to the list of their node, so nothing
/// has to be grouped in the end.
pub(super) struct Draft {
    /// What each node serves, by its place. Fail-open tries only nodes that could not be chosen before it, so its picks
    /// are the only ones in their lists.
    served: Vec<Vec<u32>>,
    optional: Vec<(u32, NodeIndex)>,
    unavailable: Vec<u32>,
    new: Vec<u32>,
    unknown: Vec<u32>,
    dropped: Vec<u32>,
}

/// Decides who takes which segment.
pub(super) trait Decide {
    /// Tells the draft what becomes of each of the next segments.
    fn pick<'s>(&mut self, segments: impl Iterator<Item = (u32, &'s SegmentState)>, draft: &mut Draft);
}

impl Draft {
    /// No picks yet.
    pub(super) fn new(scope: &Scope<'_>) -> Self {
        Self {
            served: scope.shares().map(Vec::with_capacity).collect(),
            optional: Vec::new(),
            unavailable: Vec::new(),
            new: Vec::new(),
            unknown: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Has the picks of all requested segments decided, in the order of the request.
    pub(super) fn visit(&mut self, scope: &Scope<'_>, decide: &mut impl Decide) {
        let segments = &scope.states.segments;
        match &scope.requested {
            Requested::All(_) => {
                let mut first = 0;
                for leaf in segments.leaves() {
                    decide.pick((NodeIndex::at(first).0..).zip(leaf), self);
                    first += leaf.len();
                }
            }
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
        while let Some(first) = rest.first().copied() {
            let at = first as usize;
            if at >= segments.len() {
                self.unknown.push(first);
                rest = &rest[1..];
                continue;
            }
            let (range, leaf) = focus.chunk_at(at);
            let most = rest.len().min(range.end - at);
            if ascends && rest[most - 1] as usize == at + most - 1 {
                // Without gaps.
                let start = at - range.start;
                decide.pick((first..).zip(&leaf[start..start + most]), self);
                rest = &rest[most..];
                continue;
            }
            let within = |segment: &&u32| range.contains(&(**segment as usize));
            let (run, behind) = rest.split_at(rest.iter().take_while(within).count());
            decide.pick(run.iter().map(|at| (*at, &leaf[*at as usize - range.start])), self);
            rest = behind;
        }
    }

    /// A candidate takes a segment.
    #[inline]
    pub(super) fn takes(&mut self, segment: u32, candidate: Candidate) {
        match self.served.get_mut(candidate.slot() as usize) {
            Some(served) => served.push(segment),
            None => self.takes_optional(segment, candidate),
        }
    }

    #[cold]
    fn takes_optional(&mut self, segment: u32, candidate: Candidate) {
        self.optional.push((segment, candidate.node()));
    }

    /// Nobody can take a segment.
    #[cold]
    pub(super) fn misses(&mut self, segment: u32, state: &SegmentState) {
        if !state.exists() {
            self.unknown.push(segment);
        } else if state.is_new() {
            self.new.push(segment);
        } else {
            self.unavailable.push(segment);
        }
    }

    /// All who could take a segment stand outside every replica group.
    pub(super) fn drops(&mut self, segment: u32) {
        self.dropped.push(segment);
    }

    /// The unavailable segments.
    pub(super) fn unavailable(&self) -> &[u32] {
        &self.unavailable
    }

    /// Nothing is unavailable any more. Returns what was.
    pub(super) fn none_unavailable(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.unavailable)
    }

    /// The selection.
    pub(super) fn finish(self, scope: &Scope<'_>) -> Selection {
        let pools = pools(scope, &self);
        let is_asked = |node: NodeIndex| self.served.get(node.usize()).is_some_and(|list| !list.is_empty());
        let (mut sent, skipped): (Vec<_>, Vec<_>) =
            self.optional.into_iter().partition(|(_, node)| is_asked(*node));
        // Stable, so that the segments of a node keep their order.
        sent.sort_by_key(|(_, node)| *node);
        let mut sent = sent.into_iter().peekable();
        let asked = self.served.iter().filter(|segments| !segments.is_empty()).count();
        let served = (0..).map(NodeIndex).zip(self.served).filter(|(_, segments)| !segments.is_empty());
        let part = |(node, segments)| {
            let of_node = iter::from_fn(|| sent.next_if(|(_, of)| *of == node));
            Part { node, segments, optional: of_node.map(|(segment, _)| segment).collect() }
        };
        let mut parts = Vec::with_capacity(asked);
        parts.extend(served.map(part));
        let cause = |segment| Some((segment, cause::cause(scope, scope.state(segment)?)));
        Selection {
            parts,
            optional_skipped: skipped.into_iter().map(|(segment, _)| segment).collect(),
            new: self.new,
            unknown: if scope.requested.is_named() { self.unknown } else { Vec::new() },
            unavailable: self.unavailable.into_iter().filter_map(cause).collect(),
            dropped: self.dropped,
            pools,
            ..Selection::default()
        }
    }
}

/// Counts the picks by pool of the candidate.
fn pools(scope: &Scope<'_>, draft: &Draft) -> Vec<(GroupNumber, u64)> {
    let mut pools = BTreeMap::<GroupNumber, u64>::new();
    for (node, served) in (0..).map(NodeIndex).zip(&draft.served).filter(|(_, served)| !served.is_empty()) {
        *pools.entry(scope.states.pool(node)).or_default() += served.len() as u64;
    }
    for (_, node) in &draft.optional {
        *pools.entry(scope.states.pool(*node)).or_default() += 1;
    }
    pools.into_iter().collect()
}
