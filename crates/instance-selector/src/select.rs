//! The selectors.

use pointsman_ids::{Error, ErrorCode, GroupNumber, UnavailableCause, catalog::SelectorKind};

use crate::{Candidate, NodeIndex, NodeSet, Nodes, Selection, States};

/// What request ids are taken modulo of, so that turns do not depend on who makes the ids.
const REQUEST_IDS: u64 = 1_000_000_000;

/// A request for segments of one collection.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Positions of the segments, in the order of the request; duplicates are the caller's.
    pub segments: Segments<'a>,
    /// Chooses among equals. Requests with the same id choose alike.
    pub id: u64,
    /// Nodes that failed under this query.
    pub without: NodeSet,
    /// Only copies of replicas in this group.
    pub group: Option<GroupNumber>,
    /// Over how many of a segment's candidates a request of `replica_group` spreads; at least 1.
    pub num_replica_groups: u32,
}

/// The segments of a request.
#[derive(Clone, Copy, Debug)]
pub enum Segments<'a> {
    /// All that there are, in order.
    All(u32),
    /// These.
    These(&'a [u32]),
}

impl<'a> Request<'a> {
    /// A request for every segment.
    pub fn all(states: &States, id: u64) -> Self {
        Self::with(Segments::All(u32::try_from(states.len()).unwrap_or(u32::MAX)), id)
    }

    /// A request for some segments.
    pub fn these(segments: &'a [u32], id: u64) -> Self {
        Self::with(Segments::These(segments), id)
    }

    fn with(segments: Segments<'a>, id: u64) -> Self {
        Self { segments, id, without: NodeSet::default(), group: None, num_replica_groups: 1 }
    }
}

impl Segments<'_> {
    fn len(self) -> usize {
        match self {
            Self::All(count) => count as usize,
            Self::These(segments) => segments.len(),
        }
    }

    fn get(self, at: usize) -> u32 {
        match self {
            Self::All(_) => u32::try_from(at).unwrap_or(u32::MAX),
            Self::These(segments) => segments[at],
        }
    }
}

/// Chooses a node for every requested segment.
///
/// # Errors
/// `parameter_invalid` when `num_replica_groups` is 0; `not_implemented` naming the collection when it asks for a
/// selector that is not built.
pub fn select(states: &States, nodes: &Nodes, request: &Request<'_>) -> Result<Selection, Error> {
    if request.num_replica_groups == 0 {
        let message =
            format!("num_replica_groups is 0 for collection '{}'; it is at least 1", states.collection());
        return Err(Error::new(ErrorCode::ParameterInvalid, message));
    }
    let turn = request.id % REQUEST_IDS;
    match states.selector() {
        SelectorKind::Balanced => Ok(pick_each(states, nodes, request, Balanced { next: turn })),
        SelectorKind::ReplicaGroup => {
            let groups = ReplicaGroups { turn, offset: 0, groups: request.num_replica_groups.into() };
            Ok(pick_each(states, nodes, request, groups))
        }
        SelectorKind::StrictReplicaGroup | SelectorKind::MultiStageReplicaGroup => {
            let selector = states.selector().as_str();
            let message = format!(
                "collection '{}' asks for the selector '{selector}', which is not built; use 'balanced' or 'replica_group'",
                states.collection()
            );
            Err(Error::new(ErrorCode::NotImplemented, message))
        }
    }
}

/// Takes one of `n` usable candidates, `n` above 0, for segment after segment.
trait Turn {
    fn take(&mut self, n: u64) -> u64;
}

/// Every segment takes the next of its candidates.
struct Balanced {
    next: u64,
}

impl Turn for Balanced {
    fn take(&mut self, n: u64) -> u64 {
        let taken = self.next % n;
        self.next += 1;
        taken
    }
}

/// One index into each segment's candidates, or a few in turn.
struct ReplicaGroups {
    turn: u64,
    offset: u64,
    groups: u64,
}

impl Turn for ReplicaGroups {
    fn take(&mut self, n: u64) -> u64 {
        let taken = (self.turn + self.offset) % n;
        self.groups = self.groups.min(n);
        self.offset = (self.offset + 1) % self.groups;
        taken
    }
}

fn pick_each(states: &States, nodes: &Nodes, request: &Request<'_>, mut turn: impl Turn) -> Selection {
    let mut picks: Vec<(u32, NodeIndex)> = Vec::with_capacity(request.segments.len());
    let (mut unavailable, mut unknown) = (Vec::new(), 0);
    for at in 0..request.segments.len() {
        let segment = request.segments.get(at);
        let Some(candidates) = states.candidates(segment) else {
            unknown += 1;
            continue;
        };
        let usable = || candidates.iter().filter(|candidate| is_usable(candidate, nodes, request));
        let chosen = match usable().count() as u64 {
            0 => None,
            n => usable().nth(usize::try_from(turn.take(n)).unwrap_or(0)),
        };
        match chosen {
            Some(candidate) => picks.push((segment, candidate.node)),
            None => unavailable.push((segment, cause(states, nodes, request, segment, candidates))),
        }
    }
    Selection::group(&picks, nodes.len(), unavailable, unknown)
}

fn is_usable(candidate: &Candidate, nodes: &Nodes, request: &Request<'_>) -> bool {
    nodes.is_routable(candidate.node)
        && !request.without.contains(candidate.node)
        && request.group.is_none_or(|group| group == candidate.group)
}

/// Why no candidate of a segment is usable.
fn cause(
    states: &States,
    nodes: &Nodes,
    request: &Request<'_>,
    segment: u32,
    candidates: &[Candidate],
) -> UnavailableCause {
    let in_scope = |candidate: &&Candidate| request.group.is_none_or(|group| group == candidate.group);
    let mut candidates = candidates.iter().filter(in_scope).map(|candidate| candidate.node).peekable();
    if states.is_unassigned(segment) {
        UnavailableCause::NoReplicaAssigned
    } else if candidates.peek().is_none() {
        UnavailableCause::NotLoaded
    } else if candidates.clone().any(|node| request.without.contains(node)) {
        UnavailableCause::RetriesUsedUp
    } else if candidates.any(|node| nodes.is_enabled(node)) {
        UnavailableCause::AllExcluded
    } else {
        UnavailableCause::AllDisabled
    }
}
