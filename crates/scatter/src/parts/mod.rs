//! The parts of one query: who is asked for what, what counts, and what is asked for again.

mod failed;
mod failure;
mod report;
mod scan;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_ids::{Error, ErrorCode, NodeKey, Result, UnavailableCause};

pub use failure::{Failure, Lacking, Next, RouteAgain};
pub use report::{NodesOfParts, Silence};
pub use scan::Place;
use scan::{Scan, Segment, State, Unroutable};

use crate::Attempts;

/// Number of a part. It is never used again in a query, so that news of a part that was given up is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartNumber(u64);

/// A segment that goes along with a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Which.
    pub place: Place,
    /// The node is excluded, and was chosen for want of others.
    pub fail_open: bool,
}

/// A node with its segments.
#[derive(Clone, Debug)]
struct Part {
    node: NodeKey,
    /// Ascending.
    places: Vec<Place>,
    state: PartState,
    /// Some of its rows went on to where they cannot be taken back.
    passed_on: bool,
    /// How it failed, if it did.
    error: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartState {
    Running,
    /// Its stream ended well: its rows count.
    Ended,
    /// It failed, and left segments that nobody answers for.
    Failed,
    /// The deadline passed before it had answered.
    Silent,
    /// It does not count: others have its segments.
    Discarded,
}

/// The parts of one query, over one or more scans.
///
/// Every segment that a scan asks for is answered by exactly one part in the end, or unavailable. A part that fails is
/// thrown away as a whole, and its segments are routed again while tries, time and the budget of all queries last.
/// Segments of one group are never answered by parts of different attempts: they move together, and take along the
/// parts that they are in. Where rows that would have to be thrown away have gone on already, the query starts over;
/// once the client has rows, the failure is the answer.
#[derive(Clone, Debug)]
pub struct Parts {
    attempts: Attempts,
    scans: Vec<Scan>,
    parts: BTreeMap<PartNumber, Part>,
    created: u64,
    /// Nodes that said that they do not hold a segment.
    lacks: BTreeMap<Place, BTreeSet<NodeKey>>,
    moves_alone: bool,
    answer_began: bool,
}

impl Parts {
    /// No scan yet.
    pub fn new(attempts: Attempts) -> Self {
        Self {
            attempts,
            scans: Vec::new(),
            parts: BTreeMap::new(),
            created: 0,
            lacks: BTreeMap::new(),
            moves_alone: false,
            answer_began: false,
        }
    }

    /// For a caller who can throw away the rows of a part that fails, but of no other: where others would have to
    /// move along, the query starts over.
    #[must_use]
    pub fn moving_alone(self) -> Self {
        Self { moves_alone: true, ..self }
    }

    /// The tries of the query as a whole: who failed, and how much time is left.
    pub fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// A scan of segments, given by their groups in the order of the request, and its number, from 0. Those of one
    /// group are to be kept together: an assignment group of consistent replicas, or a placement partition; `None`:
    /// the segment may move alone. What is left out of the query is not to be among them.
    pub fn add_scan(&mut self, groups: impl IntoIterator<Item = Option<u32>>) -> usize {
        self.scans.push(Scan::new(groups, self.attempts.number() - 1));
        self.scans.len() - 1
    }

    /// A node is asked for segments that wait for one.
    ///
    /// # Errors
    /// `service_internal` for a segment that is asked for already, or that no scan has; nothing is counted then.
    pub fn sent(
        &mut self,
        node: NodeKey,
        picks: impl IntoIterator<Item = Pick>,
        now: Duration,
    ) -> Result<PartNumber> {
        let picks: BTreeMap<Place, bool> =
            picks.into_iter().map(|pick| (pick.place, pick.fail_open)).collect();
        let waits = |place: &&Place| self.get(**place).is_some_and(|segment| segment.state == State::Waiting);
        if let Some(place) = picks.keys().find(|place| !waits(place)) {
            let what = format!("{node} would be asked for {place:?}, which does not wait for a node");
            return Err(Error::new(ErrorCode::ServiceInternal, what));
        }
        if picks.values().any(|fail_open| *fail_open) {
            self.attempts.excuse([node.clone()]);
        }
        let number = self.add_part(node, picks.keys().copied().collect());
        for (place, fail_open) in picks {
            if let Some(segment) = self.get_mut(place) {
                segment.attempts += 1;
                (segment.state, segment.last, segment.fail_open) = (State::Asked, Some(number), fail_open);
            }
        }
        self.attempts.sent(1, now);
        Ok(number)
    }

    /// Routing has nobody for a segment that waits: it is unavailable. If it was asked for before, that attempt's
    /// cause and nodes stand.
    pub fn unroutable(&mut self, place: Place, cause: UnavailableCause, nodes: Vec<NodeKey>) {
        if let Some(segment) = self.get_mut(place)
            && segment.state == State::Waiting
        {
            segment.state = match segment.last {
                Some(_) => State::Lost,
                None => State::Unroutable(Box::new(Unroutable { cause, nodes })),
            };
        }
        self.settle_failed(place);
    }

    /// An excluded node was asked for this segment, in vain, in an attempt before this one.
    pub fn tried_open(&mut self, place: Place) {
        if let Some(segment) = self.get_mut(place) {
            segment.fail_open = true;
        }
    }

    /// The part that asks a node for these segments. Where they are only some of what it was asked for, they become a
    /// part of their own; `None`: the node is not asked for any of them.
    pub fn part_of(&mut self, node: &NodeKey, places: &BTreeSet<Place>) -> Option<PartNumber> {
        let is_here = |part: &Part| part.state == PartState::Running && part.node == *node;
        let asked = |place: &&Place| {
            let last = self.get(**place).filter(|segment| segment.state == State::Asked)?.last?;
            self.parts.get(&last).filter(|part| is_here(part))?;
            Some(last)
        };
        let named: Vec<Place> = places.iter().filter(|place| asked(place).is_some()).copied().collect();
        let mut numbers: Vec<PartNumber> = named.iter().filter_map(|place| asked(&place)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if let [number] = numbers.as_slice()
            && self.parts.get(number).is_some_and(|part| part.places.len() == named.len())
        {
            return Some(*number);
        }
        numbers.first()?;
        let passed_on =
            numbers.iter().any(|number| self.parts.get(number).is_some_and(|part| part.passed_on));
        let own = self.add_part(node.clone(), named.clone());
        for number in numbers {
            if let Some(part) = self.parts.get_mut(&number) {
                part.places.retain(|place| named.binary_search(place).is_err());
            }
        }
        self.parts.retain(|_, part| !part.places.is_empty());
        named.iter().for_each(|place| {
            if let Some(segment) = self.get_mut(*place) {
                segment.last = Some(own);
            }
        });
        if passed_on {
            self.passed_on(own);
        }
        Some(own)
    }

    /// A part's stream ended well. Says whether its rows count: those of a part that was given up do not.
    pub fn ended(&mut self, number: PartNumber) -> bool {
        let Some(part) = self.parts.get_mut(&number).filter(|part| part.state == PartState::Running) else {
            return false;
        };
        part.state = PartState::Ended;
        for place in part.places.clone() {
            if let Some(segment) = self.get_mut(place) {
                segment.state = State::Answered;
            }
        }
        true
    }

    /// All parts that run have ended well.
    pub fn all_ended(&mut self) {
        let running = self.parts.iter().filter(|(_, part)| part.state == PartState::Running);
        let running: Vec<PartNumber> = running.map(|(number, _)| *number).collect();
        running.into_iter().for_each(|number| {
            self.ended(number);
        });
    }

    /// Rows of a part went on to where they cannot be taken back: into further stages, or because they did not fit
    /// into the buffer.
    pub fn passed_on(&mut self, number: PartNumber) {
        if let Some(part) = self.parts.get_mut(&number) {
            part.passed_on = true;
        }
    }

    /// The client has got rows: nothing can start over any more.
    pub fn answer_began(&mut self) {
        self.answer_began = true;
    }

    /// Whether every segment is answered or unavailable.
    pub fn is_settled(&self) -> bool {
        let open = |segment: &Segment| matches!(segment.state, State::Waiting | State::Asked);
        !self.scans.iter().flat_map(|scan| &scan.segments).any(open)
    }

    fn add_part(&mut self, node: NodeKey, places: Vec<Place>) -> PartNumber {
        self.created += 1;
        let number = PartNumber(self.created);
        let part = Part { node, places, state: PartState::Running, passed_on: false, error: None };
        self.parts.insert(number, part);
        number
    }

    fn get(&self, place: Place) -> Option<&Segment> {
        self.scans.get(place.scan)?.segments.get(place.at)
    }

    fn get_mut(&mut self, place: Place) -> Option<&mut Segment> {
        self.scans.get_mut(place.scan)?.segments.get_mut(place.at)
    }
}
