//! The selectors: (states, nodes, request) to a node for every segment.

mod cause;
mod chooser;
mod draft;
mod fail_open;
mod multi_stage;
mod ranking;
mod requested;
mod scope;

use pointsman_ids::{Result, catalog::SelectorKind};

use crate::{Candidate, Nodes, Request, Selection, States, segment::SegmentState};

pub use chooser::Rule;
use chooser::{Balanced, Chooser, Fixed, OneReplica, ReplicaGroups};
use draft::{Decide, Draft};
pub use fail_open::FailOpenGate;
use ranking::{Ranked, ranks};
pub(crate) use scope::Scope;
use scope::{Everybody, Sieve, Usable};

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
            (Some(scores), _) => pick_each(&scope, Ranked(&ranks(&scope, scores)), &mut draft, watch),
            (None, true) => pick_each(&scope, Fixed::new(rules.hash), &mut draft, watch),
            (None, false) => pick_each(&scope, Balanced::new(turn), &mut draft, watch),
        },
        SelectorKind::ReplicaGroup | SelectorKind::StrictReplicaGroup => match (fixed, request.scores) {
            (true, _) if groups == 1 => pick_each(&scope, Fixed::new(rules.hash), &mut draft, watch),
            (true, _) => {
                pick_each(&scope, ReplicaGroups::fixed(rules.hash, groups), &mut draft, watch);
            }
            (false, Some(scores)) => pick_each(&scope, Ranked(&ranks(&scope, scores)), &mut draft, watch),
            (false, None) if groups == 1 => pick_each(&scope, OneReplica::new(turn), &mut draft, watch),
            (false, None) => pick_each(&scope, ReplicaGroups::new(turn, groups), &mut draft, watch),
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
fn pick_each<C: Chooser, W: Watch>(scope: &Scope<'_>, chooser: C, draft: &mut Draft, watch: &mut W) {
    let kept = Vec::new();
    if scope.is_everybody_usable() {
        draft.visit(scope, &mut Picker { usable: Everybody, kept, chooser, watch });
    } else {
        draft.visit(scope, &mut Picker { usable: Sieve::new(scope), kept, chooser, watch });
    }
}

struct Picker<'a, U, C, W> {
    usable: U,
    kept: Vec<Candidate>,
    chooser: C,
    watch: &'a mut W,
}

impl<U: Usable, C: Chooser, W: Watch> Decide for Picker<'_, U, C, W> {
    fn pick<'s>(&mut self, segments: impl Iterator<Item = (u32, &'s SegmentState)>, draft: &mut Draft) {
        // Copies on the stack stay in registers over the one loop that a selection consists of.
        let (usable, mut chooser) = (self.usable, self.chooser);
        for (segment, state) in segments {
            let usable = usable.of(state, &mut self.kept);
            if usable.is_empty() {
                draft.misses(segment, state);
                continue;
            }
            if W::LOOKS {
                self.watch.picked(segment, chooser.rule());
            }
            draft.takes(segment, usable[chooser.choose(usable)]);
        }
        self.chooser = chooser;
    }
}
