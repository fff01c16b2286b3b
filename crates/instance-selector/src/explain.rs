//! How a selection came about: the candidates of a segment, what ruled each out, and the rule that picked.

use std::collections::BTreeMap;

use pointsman_ids::{Error, GroupNumber, UnavailableCause, feed::CopyState};

use crate::{
    Candidate, CopyInput, FailOpenGate, NodeIndex, Nodes, Request, Rule, Selection, Standing, States,
    segment::SegmentState,
    select::{Scope, Watch, select_watched},
};

/// Makes a selection, exactly as [`select`](crate::select) does, and remembers how it came about.
pub fn explain<'a>(states: &'a States, nodes: &'a Nodes, request: &'a Request<'a>) -> Explained<'a> {
    let mut rules = Rules::default();
    let selection = select_watched(states, nodes, request, &mut rules);
    let fates = selection.as_ref().map(fates).unwrap_or_default();
    Explained { scope: Scope::new(states, nodes, request), selection, rules: rules.0, fates }
}

/// A selection that remembers how it came about.
#[derive(Debug)]
pub struct Explained<'a> {
    scope: Scope<'a>,
    selection: Result<Selection, Error>,
    rules: BTreeMap<u32, Rule>,
    fates: BTreeMap<u32, Fate>,
}

/// How one segment fared in a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Its position.
    pub segment: u32,
    /// Whether it is new; `None`: it is not part of the universe.
    pub new: Option<bool>,
    /// Its candidates by node name, and then other nodes that hold it or are assigned to it.
    pub nodes: Vec<NodeVerdict>,
    /// The rule that made the pick, among the usable nodes, or among those that fail-open tries; `None`: no pick.
    pub rule: Option<Rule>,
    /// What became of it.
    pub fate: Fate,
    /// How far fail-open came in the request.
    pub fail_open: FailOpenGate,
}

/// What a node is to a segment in one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeVerdict {
    /// The node.
    pub node: NodeIndex,
    /// The resource group of its replica.
    pub group: GroupNumber,
    /// Its pool when the collection last changed.
    pub pool: GroupNumber,
    /// Its standing in adaptive selection; `None`: that is off.
    pub standing: Option<Standing>,
    /// Whether it can be chosen, or what rules it out.
    pub verdict: Verdict,
}

/// Whether a node can be chosen for a segment, or what rules it out: the first that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can be chosen, and serves.
    Usable,
    /// It can be chosen, but has not loaded the segment yet: optional work.
    Optional,
    /// It is not assigned to the segment, whatever it holds.
    NotAssigned,
    /// It is assigned in a state that serves nothing.
    AssignedWithoutServing,
    /// It should serve the segment and does not; what it reports, `None`: nothing.
    NotLoaded(Option<CopyState>),
    /// Its replica belongs to another resource group than the request asks for.
    OtherResourceGroup,
    /// It lacks an old segment of the assignment group.
    OutForItsGroup,
    /// It is no member of the cluster.
    NotMember,
    /// The cluster lets no query go to it.
    Disabled,
    /// It failed in this query.
    FailedInThisQuery,
    /// The failure detector has taken it out.
    Excluded,
    /// It stands in no replica group.
    OutsideReplicaGroups,
}

/// What became of a requested segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// This node answers for it.
    Served(NodeIndex),
    /// This node is tried by fail-open.
    FailOpen(NodeIndex),
    /// It goes along to this node, which may skip it.
    OptionalSent(NodeIndex),
    /// It would be optional work of a node that serves nothing in this request.
    OptionalSkipped,
    /// It is new, and nobody routable should serve it.
    New,
    /// Nobody can answer for it.
    Unavailable(UnavailableCause),
    /// Its usable candidates stand outside every replica group.
    Dropped,
    /// It is not part of the universe.
    Unknown,
    /// It was not asked for.
    NotRequested,
    /// The whole request failed; [`Explained::selection`] tells why.
    Refused,
}

impl Explained<'_> {
    /// The selection itself.
    ///
    /// # Errors
    /// Those of [`select`](crate::select).
    pub fn selection(&self) -> Result<&Selection, &Error> {
        self.selection.as_ref()
    }

    /// How a segment fared. `copies` are what the feed says of it now, for a word on nodes that are no candidates; they
    /// may be empty.
    pub fn segment(&self, segment: u32, copies: &[CopyInput]) -> Explanation {
        let state = self.scope.state(segment);
        let fate = match (&self.selection, self.fates.get(&segment)) {
            (Err(_), _) => Fate::Refused,
            (Ok(_), Some(fate)) => *fate,
            (Ok(_), None) => Fate::NotRequested,
        };
        Explanation {
            segment,
            new: state.map(SegmentState::is_new),
            nodes: self.verdicts(state, copies),
            rule: self.rules.get(&segment).copied(),
            fate,
            fail_open: self.selection.as_ref().map(|selection| selection.fail_open_gate).unwrap_or_default(),
        }
    }

    fn verdicts(&self, state: Option<&SegmentState>, copies: &[CopyInput]) -> Vec<NodeVerdict> {
        let candidates = state.map(SegmentState::candidates).unwrap_or_default();
        let is_candidate = |node| candidates.iter().any(|candidate| candidate.node() == node);
        let mut others: Vec<_> = copies.iter().filter(|copy| !is_candidate(copy.node)).collect();
        others.sort_by_key(|copy| (self.scope.nodes.name(copy.node), copy.node));
        others.dedup_by_key(|copy| copy.node);
        let judged = state.into_iter().flat_map(|state| {
            let judge = |candidate: &Candidate| {
                self.node(candidate.node(), candidate.group(), self.judge(state, candidate))
            };
            state.candidates().iter().map(judge).collect::<Vec<_>>()
        });
        let others = others.into_iter().map(|copy| self.node(copy.node, copy.group, no_candidate(copy)));
        judged.chain(others).collect()
    }

    fn node(&self, node: NodeIndex, group: GroupNumber, verdict: Verdict) -> NodeVerdict {
        let standing = self.scope.request.scores.map(|scores| scores.standing(node));
        NodeVerdict { node, group, pool: self.scope.states.pool(node), standing, verdict }
    }

    fn judge(&self, state: &SegmentState, candidate: &Candidate) -> Verdict {
        let Scope { states, nodes, request, .. } = &self.scope;
        let node = candidate.node();
        let placement = states.rules.placement.as_ref();
        if !self.scope.is_in(candidate) {
            Verdict::OtherResourceGroup
        } else if self.scope.out(state).contains(&node) {
            Verdict::OutForItsGroup
        } else if !nodes.is_member(node) {
            Verdict::NotMember
        } else if !nodes.is_enabled(node) {
            Verdict::Disabled
        } else if request.without.contains(node) {
            Verdict::FailedInThisQuery
        } else if nodes.is_unhealthy(node) {
            Verdict::Excluded
        } else if placement.is_some_and(|placement| placement.place(node).is_none()) {
            Verdict::OutsideReplicaGroups
        } else if candidate.is_online() {
            Verdict::Usable
        } else {
            Verdict::Optional
        }
    }
}

/// Why a copy makes no candidate.
fn no_candidate(copy: &CopyInput) -> Verdict {
    match (copy.assigned, copy.should_serve()) {
        (None, _) => Verdict::NotAssigned,
        (Some(_), false) => Verdict::AssignedWithoutServing,
        (Some(_), true) => Verdict::NotLoaded(copy.observed),
    }
}

/// The rule of every pick; that of fail-open replaces that of the normal selection, which made none.
#[derive(Default)]
struct Rules(BTreeMap<u32, Rule>);

impl Watch for Rules {
    const LOOKS: bool = true;

    fn picked(&mut self, segment: u32, rule: Rule) {
        self.0.insert(segment, rule);
    }
}

/// What became of every requested segment.
fn fates(selection: &Selection) -> BTreeMap<u32, Fate> {
    let mut fates = BTreeMap::new();
    for part in &selection.parts {
        fates.extend(part.segments.iter().map(|segment| (*segment, Fate::Served(part.node))));
        fates.extend(part.optional.iter().map(|segment| (*segment, Fate::OptionalSent(part.node))));
    }
    for segment in &selection.fail_open {
        if let Some(Fate::Served(node)) = fates.get(segment).copied() {
            fates.insert(*segment, Fate::FailOpen(node));
        }
    }
    let mut all = |segments: &[u32], fate| fates.extend(segments.iter().map(|segment| (*segment, fate)));
    all(&selection.optional_skipped, Fate::OptionalSkipped);
    all(&selection.new, Fate::New);
    all(&selection.dropped, Fate::Dropped);
    all(&selection.unknown, Fate::Unknown);
    fates.extend(selection.unavailable.iter().map(|(segment, cause)| (*segment, Fate::Unavailable(*cause))));
    fates
}
