//! Fail-open: an excluded node rather than missing data, for all unavailable segments of a request or for none.

use pointsman_ids::catalog::SelectorKind;

use super::{
    Scope, Watch,
    chooser::{Balanced, Chooser, OneReplica, ReplicaGroups},
    draft::Draft,
};
use crate::{Candidate, segment::SegmentState};

/// How far fail-open came in a request. The gates stand in the order in which they are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailOpenGate {
    /// Nothing was unavailable.
    #[default]
    NotNeeded,
    /// No unavailable segment has a candidate that is enabled.
    NoCandidates,
    /// Fail-open is off.
    Off,
    /// The collection never fails open.
    FailClosed,
    /// The request runs in several stages, and the switch for these is off.
    MultiStage,
    /// The collection's replica groups are strict, and the switch for these is off.
    Strict,
    /// This segment, the first of its kind, has no candidate to try, so none is tried for any.
    NotForAll(u32),
    /// Every unavailable segment was picked on an excluded node.
    Passed,
}

impl FailOpenGate {
    /// Whether some unavailable segment had fail-open candidates.
    pub fn is_eligible(self) -> bool {
        !matches!(self, Self::NotNeeded | Self::NoCandidates)
    }
}

/// How far fail-open comes with the unavailable segments of a draft.
pub(super) fn gate(scope: &Scope<'_>, draft: &Draft) -> FailOpenGate {
    let mut unavailable = draft.unavailable().iter().copied();
    let states = unavailable.clone().filter_map(|segment| scope.state(segment));
    let (rules, request) = (&scope.states.rules, scope.request);
    let switches = request.fail_open;
    if unavailable.clone().next().is_none() {
        FailOpenGate::NotNeeded
    } else if !states.clone().any(|state| scope.fail_open_candidates(state).next().is_some()) {
        FailOpenGate::NoCandidates
    } else if !switches.enabled {
        FailOpenGate::Off
    } else if rules.fail_closed {
        FailOpenGate::FailClosed
    } else if request.multi_stage && !switches.multi_stage {
        FailOpenGate::MultiStage
    } else if rules.selector == SelectorKind::StrictReplicaGroup && !switches.strict {
        FailOpenGate::Strict
    } else {
        let to_try = |segment| scope.state(segment).and_then(|state| to_try(scope, state).next());
        unavailable
            .find(|segment| to_try(*segment).is_none())
            .map_or(FailOpenGate::Passed, FailOpenGate::NotForAll)
    }
}

/// Picks an excluded node for every unavailable segment; each has one to try. Returns the segments.
pub(super) fn pick<W: Watch>(scope: &Scope<'_>, groups: u64, draft: &mut Draft, watch: &mut W) -> Vec<u32> {
    let turn = scope.request.turn();
    match scope.states.rules.selector {
        SelectorKind::Balanced => pick_each(scope, Balanced::new(turn), draft, watch),
        // One index for every segment: an assignment group has the same candidates in each, so one node takes it whole.
        SelectorKind::StrictReplicaGroup => pick_each(scope, OneReplica::new(turn), draft, watch),
        _ => pick_each(scope, ReplicaGroups::new(turn, groups), draft, watch),
    }
    draft.none_unavailable()
}

fn pick_each<C: Chooser, W: Watch>(scope: &Scope<'_>, mut chooser: C, draft: &mut Draft, watch: &mut W) {
    let mut candidates = Vec::new();
    for segment in draft.unavailable().to_vec() {
        candidates.clear();
        candidates.extend(scope.state(segment).into_iter().flat_map(|state| to_try(scope, state)));
        if candidates.is_empty() {
            continue;
        }
        if W::LOOKS {
            watch.picked(segment, chooser.rule());
        }
        draft.takes(segment, candidates[chooser.choose(&candidates)]);
    }
}

/// The fail-open candidates that the unhealthy set lists, in order.
fn to_try<'a>(scope: &Scope<'a>, state: &'a SegmentState) -> impl Iterator<Item = Candidate> {
    scope.fail_open_candidates(state).filter(|candidate| scope.nodes.is_unhealthy(candidate.node()))
}
