//! The selectors: (states, nodes, request) to a node for every segment.

mod cause;
mod chooser;
mod draft;
mod fail_open;
mod multi_stage;
mod ranking;
mod scope;

use pointsman_ids::{Result, catalog::SelectorKind};

use crate::{Nodes, Request, Selection, States};

pub use chooser::Rule;
use chooser::{Balanced, Chooser, Fixed, ReplicaGroups};
use draft::Draft;
pub use fail_open::FailOpenGate;
use ranking::Ranked;
pub(crate) use scope::Scope;

/// Chooses a node for every requested segment.
///
/// The same input always gives the same choice. Linear in the requested segments; takes no lock, and allocates per
/// request and not per segment.
///
/// # Errors
/// `parameter_invalid` when `num_replica_groups` is below 1. With `multi_stage_replica_group` also
/// `segments_unavailable`, naming the first segment without a usable candidate, or else the placement partition of which
/// no replica group can take all.
pub fn select(states: &States, nodes: &Nodes, request: &Request<'_>) -> Result<Selection> {
    select_watched(states, nodes, request, &mut ())
}

/// Learns how picks come about.
pub(crate) trait Watch {
    /// Whether anybody looks.
    const LOOKS: bool;

    /// This rule made the pick for a segment.
    fn picked(&mut self, segment: u32, rule: Rule);
}

/// Nobody looks.
impl Watch for () {
    const LOOKS: bool = false;

    fn picked(&mut self, _: u32, _: Rule) {}
}

/// [`select`], watched. There is no other way to a selection, so what is explained is what happens.
pub(crate) fn select_watched<W: Watch>(
    states: &States,
    nodes: &Nodes,
    request: &Request<'_>,
    watch: &mut W,
) -> Result<Selection> {
    let groups = request.groups(states)?;
    let scope = Scope::new(states, nodes, request);
    let mut draft = Draft::new(&scope);
    let turn = request.turn();
    let rules = &*states.rules;
    let fixed = request.fixed_replica.unwrap_or(rules.fixed_replica);
    match rules.selector {
        SelectorKind::MultiStageReplicaGroup => {
            multi_stage::pick(&scope, fixed, &mut draft, watch)?;
            return Ok(Selection { pools: Vec::new(), ..draft.finish(&scope) });
        }
        SelectorKind::Balanced => match (request.scores, fixed) {
            (Some(scores), _) => pick_each(&scope, &mut Ranked::new(&scope, scores), &mut draft, watch),
            (None, true) => pick_each(&scope, &mut Fixed(rules.hash), &mut draft, watch),
            (None, false) => pick_each(&scope, &mut Balanced::new(turn), &mut draft, watch),
        },
        SelectorKind::ReplicaGroup | SelectorKind::StrictReplicaGroup => match (fixed, request.scores) {
            (true, _) => {
                pick_each(&scope, &mut ReplicaGroups::fixed(rules.hash, groups), &mut draft, watch);
            }
            (false, Some(scores)) => pick_each(&scope, &mut Ranked::new(&scope, scores), &mut draft, watch),
            (false, None) => pick_each(&scope, &mut ReplicaGroups::new(turn, groups), &mut draft, watch),
        },
    }
    let gate = fail_open::gate(&scope, &draft);
    let fail_open = match gate {
        FailOpenGate::Passed => fail_open::pick(&scope, groups, &mut draft, watch),
        _ => Vec::new(),
    };
    let fail_open_eligible = gate.is_eligible();
    Ok(Selection { fail_open, fail_open_eligible, fail_open_gate: gate, ..draft.finish(&scope) })
}

/// Segment after segment takes one of its usable candidates.
fn pick_each<C: Chooser, W: Watch>(scope: &Scope<'_>, chooser: &mut C, draft: &mut Draft, watch: &mut W) {
    let mut scratch = Vec::new();
    draft.visit(scope, |segment, state, tally| {
        let usable = scope.usable(state, &mut scratch);
        if usable.is_empty() {
            return tally.misses(segment, state);
        }
        if W::LOOKS {
            watch.picked(segment, chooser.rule());
        }
        tally.takes(segment, usable[chooser.choose(usable)])
    });
}
