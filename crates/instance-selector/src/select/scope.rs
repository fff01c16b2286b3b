//! Who may be chosen at all in one request.

use pointsman_ids::GroupNumber;

use super::requested::Requested;
use crate::{
    Candidate, NodeIndex, NodeSet, Nodes, Request, States, groups::Groups, node_set::Bits,
    segment::SegmentState,
};

/// The states, nodes and request of one selection, and who of the nodes is usable in it.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) states: &'a States,
    pub(crate) nodes: &'a Nodes,
    pub(crate) request: &'a Request<'a>,
    pub(crate) requested: Requested<'a>,
    /// Routable, and not failed in this query.
    usable: NodeSet,
    /// Every candidate of the states is usable.
    everybody: bool,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(states: &'a States, nodes: &'a Nodes, request: &'a Request<'a>) -> Self {
        let usable = nodes.routable().without(request.without);
        let everybody =
            request.group.is_none() && states.groups.are_whole() && states.listed_nodes.is_subset(&usable);
        let requested = Requested::new(request.segments, states.len());
        Self { states, nodes, request, requested, usable, everybody }
    }

    /// For each node by place, room for about as many segments as it will serve: its share, were the requested segments
    /// spread evenly over all who may serve some, and half of that again.
    pub(super) fn shares(&self) -> impl Iterator<Item = usize> {
        let may = self.states.listed_nodes.len().max(1);
        let share = self.requested.len() / may * 3 / 2;
        self.states.listed.iter().map(move |listed| share.min(*listed as usize))
    }

    /// Whether every candidate of the states is usable, so that nobody has to be asked.
    pub(crate) fn is_everybody_usable(&self) -> bool {
        self.everybody
    }

    /// The candidates of a segment inside the request's resource group that are not out for their assignment group.
    pub(crate) fn candidates(&self, state: &'a SegmentState) -> impl Iterator<Item = Candidate> + Clone {
        let out = self.out(state);
        let kept = move |candidate: &Candidate| !out.contains(&candidate.node());
        state.candidates().iter().copied().filter(move |candidate| self.is_in(candidate) && kept(candidate))
    }

    /// The candidates that fail-open may try, as far as the states and the membership tell: those that are enabled.
    pub(crate) fn fail_open_candidates(
        &self,
        state: &'a SegmentState,
    ) -> impl Iterator<Item = Candidate> + Clone {
        let may = |node| self.nodes.is_enabled(node) && !self.request.without.contains(node);
        self.candidates(state).filter(move |candidate| may(candidate.node()))
    }

    /// Whether a candidate belongs to the request's resource group.
    pub(crate) fn is_in(&self, candidate: &Candidate) -> bool {
        self.request.group.is_none_or(|group| group == candidate.group())
    }

    /// The nodes that are out for the assignment group of a segment.
    pub(crate) fn out(&self, state: &SegmentState) -> &'a [NodeIndex] {
        if self.states.groups.are_whole() { &[] } else { self.states.groups.out(state.group()) }
    }

    /// The state at a position.
    pub(crate) fn state(&self, segment: u32) -> Option<&'a SegmentState> {
        self.states.segments.get(segment as usize).filter(|state| state.exists())
    }
}

/// Tells the usable candidates of segments, in order.
pub(super) trait Usable: Copy {
    /// Those of one segment. `kept` is room for a choice among the candidates, so that no segment allocates.
    fn of<'s>(self, state: &'s SegmentState, kept: &'s mut Vec<Candidate>) -> &'s [Candidate];
}

/// Every candidate is usable.
#[derive(Clone, Copy)]
pub(super) struct Everybody;

impl Usable for Everybody {
    #[inline]
    fn of<'s>(self, state: &'s SegmentState, _: &'s mut Vec<Candidate>) -> &'s [Candidate] {
        state.candidates()
    }
}

/// Some candidates are not usable.
#[derive(Clone, Copy)]
pub(super) struct Sieve<'a> {
    usable: Bits<'a>,
    group: Option<GroupNumber>,
    /// Where some nodes are out for their assignment group.
    broken: Option<&'a Groups>,
}

impl<'a> Sieve<'a> {
    pub(super) fn new(scope: &'a Scope<'a>) -> Self {
        let groups = &scope.states.groups;
        let broken = Some(groups).filter(|groups| !groups.are_whole());
        Self { usable: scope.usable.bits(), group: scope.request.group, broken }
    }
}

impl Usable for Sieve<'_> {
    #[inline]
    fn of<'s>(self, state: &'s SegmentState, kept: &'s mut Vec<Candidate>) -> &'s [Candidate] {
        let (candidates, out) =
            (state.candidates(), self.broken.map_or(&[][..], |groups| groups.out(state.group())));
        let usable = |candidate: &Candidate| {
            self.usable.contains(candidate.node())
                && self.group.is_none_or(|group| group == candidate.group())
                && !out.contains(&candidate.node())
        };
        // Few nodes are out at a time, so most segments have all of theirs.
        if candidates.iter().all(usable) {
            return candidates;
        }
        kept.clear();
        kept.extend(candidates.iter().copied().filter(usable));
        kept
    }
}
