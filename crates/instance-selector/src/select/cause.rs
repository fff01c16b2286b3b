//! Why nobody can answer for a segment.

use pointsman_ids::UnavailableCause;

use super::Scope;
use crate::segment::SegmentState;

/// Why no candidate of an old segment is usable.
pub(super) fn cause(scope: &Scope<'_>, state: &SegmentState) -> UnavailableCause {
    if state.expected() == 0 {
        return UnavailableCause::NoReplicaAssigned;
    }
    let mut in_scope = state.candidates().iter().filter(|candidate| scope.is_in(candidate)).peekable();
    if in_scope.peek().is_none() {
        return UnavailableCause::NotLoaded;
    }
    let out = scope.out(state);
    let nodes = in_scope.map(|candidate| candidate.node()).filter(|node| !out.contains(node));
    let (mut any, mut failed, mut enabled) = (false, false, false);
    for node in nodes {
        any = true;
        failed |= scope.request.without.contains(node);
        enabled |= scope.nodes.is_enabled(node);
    }
    match (any, failed, enabled) {
        (false, ..) => UnavailableCause::GroupIncomplete,
        (true, true, _) => UnavailableCause::RetriesUsedUp,
        (true, false, true) => UnavailableCause::AllExcluded,
        (true, false, false) => UnavailableCause::AllDisabled,
    }
}
