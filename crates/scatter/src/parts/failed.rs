//! What comes of a part that fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_ids::{Error, NodeKey};

use super::{Failure, Lacking, Next, Part, PartNumber, PartState, Parts, Place, RouteAgain, scan::State};
use crate::Decision;

/// What a failed part sets in motion.
#[derive(Debug, Default)]
struct Moves {
    /// Its segments that may be asked for again.
    again: Vec<Place>,
    /// Its segments whose tries are used up.
    lost: Vec<Place>,
    /// Other parts, which hold segments of the same groups.
    along: BTreeSet<PartNumber>,
}

impl Parts {
    /// A part failed. Its rows do not count; what was sent to other nodes goes on.
    pub fn failed(&mut self, number: PartNumber, failure: Failure, now: Duration) -> Next {
        let Some(part) = self.parts.get_mut(&number).filter(|part| part.state == PartState::Running) else {
            return Next::Ignored;
        };
        part.error = Some(failure.error().clone());
        self.attempts.begin_failure();
        let (node, places, passed_on) = (part.node.clone(), part.places.clone(), part.passed_on);
        self.remember(&node, &places, &failure);
        let moves = self.moves(number, &places);
        let cannot_move = moves.along.iter().any(|number| self.is_passed_on(*number))
            || (self.moves_alone && !moves.along.is_empty());
        if passed_on || cannot_move {
            return self.start_over(failure.error().clone(), now);
        }
        let may =
            !moves.again.is_empty() && !self.attempts.remaining(now).is_zero() && self.attempts.take(1, now);
        let moves = if may { moves } else { Moves { lost: places, ..Moves::default() } };
        self.carry_out(number, moves)
    }

    /// The attempt as a whole failed: rows that cannot be taken back are lost. These nodes are to blame, those of upper
    /// stages, which no part names, among them; without any, the routing lagged. The query starts over, or gives up.
    pub fn broke(
        &mut self,
        nodes: impl IntoIterator<Item = (NodeKey, Error)>,
        error: Error,
        now: Duration,
    ) -> Decision {
        self.attempts.begin_failure();
        for (node, error) in nodes {
            self.attempts.note(node, error);
        }
        match self.start_over(error, now) {
            Next::GiveUp(error) => Decision::GiveUp(error),
            _ => Decision::Again,
        }
    }

    /// The query runs again from its beginning, if it may. What a segment was asked for so far counts: it is never
    /// asked for more often than the limit says.
    fn start_over(&mut self, error: Error, now: Duration) -> Next {
        let asked = self.scans.iter().flat_map(|scan| &scan.segments).map(|segment| segment.attempts);
        self.attempts.advance_to(asked.max().unwrap_or_default());
        let decision =
            if self.answer_began { Decision::GiveUp(error) } else { self.attempts.again(error, 1, now) };
        match decision {
            Decision::Again => {
                self.parts.clear();
                self.scans.clear();
                self.lacks.clear();
                Next::StartOver
            }
            Decision::GiveUp(error) => {
                self.give_up();
                Next::GiveUp(error)
            }
        }
    }

    /// There will be no rows: what was asked for is lost, whoever has answered.
    fn give_up(&mut self) {
        let failed = self.parts.values_mut().filter(|part| part.state == PartState::Running);
        failed.for_each(|part| part.state = PartState::Failed);
        for segment in self.scans.iter_mut().flat_map(|scan| &mut scan.segments) {
            if segment.is_asked_or_answered() || segment.state == State::Waiting {
                segment.state = State::Lost;
            }
        }
    }

    /// Keeps the node away from what it must not be asked for again.
    fn remember(&mut self, node: &NodeKey, places: &[Place], failure: &Failure) {
        match failure {
            Failure::Node(error) => {
                self.attempts.note(node.clone(), error.clone());
            }
            Failure::NotLoaded { lacking, .. } => {
                let of_part = |place: &Place| places.binary_search(place).is_ok();
                let lacking: BTreeSet<Place> = match lacking {
                    Lacking::These(these) if !these.is_empty() && these.iter().all(of_part) => these.clone(),
                    _ => places.iter().copied().collect(),
                };
                for place in self.with_groups(lacking) {
                    self.lacks.entry(place).or_default().insert(node.clone());
                }
            }
        }
    }

    /// The places with all that are in a group with one of them.
    fn with_groups(&self, places: BTreeSet<Place>) -> BTreeSet<Place> {
        let groups: BTreeSet<(usize, u32)> =
            places.iter().filter_map(|place| self.group_of(*place)).collect();
        let grouped = groups.into_iter().flat_map(|(scan, group)| self.places_of_group(scan, group));
        grouped.chain(places.iter().copied()).collect()
    }

    fn moves(&self, failed: PartNumber, places: &[Place]) -> Moves {
        let mut moves = Moves::default();
        let mut groups: BTreeMap<(usize, u32), bool> = BTreeMap::new();
        for place in places {
            let may = match self.group_of(*place) {
                None => self.has_tries(*place),
                Some(group) => *groups.entry(group).or_insert_with(|| match self.along(failed, group) {
                    Some(along) => {
                        moves.along.extend(along);
                        true
                    }
                    None => false,
                }),
            };
            if may { moves.again.push(*place) } else { moves.lost.push(*place) }
        }
        moves
    }

    /// The other parts that have to move when a group does: those that hold segments of it, and those that hold
    /// segments of groups which thereby move. `None`: a segment among them has no tries left, so the group stays.
    fn along(&self, failed: PartNumber, group: (usize, u32)) -> Option<BTreeSet<PartNumber>> {
        let (mut along, mut seen, mut open) = (BTreeSet::new(), BTreeSet::from([group]), vec![group]);
        while let Some((scan, group)) = open.pop() {
            for place in self.places_of_group(scan, group) {
                let Some(segment) = self.get(place).filter(|segment| segment.is_asked_or_answered()) else {
                    continue;
                };
                if !self.has_tries(place) {
                    return None;
                }
                let Some(number) = segment.last.filter(|number| *number != failed) else { continue };
                if !along.insert(number) {
                    continue;
                }
                for other in self.parts.get(&number).map_or(&[][..], |part| &part.places) {
                    match self.group_of(*other) {
                        None if !self.has_tries(*other) => return None,
                        Some(group) if seen.insert(group) => open.push(group),
                        _ => {}
                    }
                }
            }
        }
        Some(along)
    }

    fn carry_out(&mut self, failed: PartNumber, moves: Moves) -> Next {
        let mut again = moves.again;
        for number in &moves.along {
            if let Some(part) = self.parts.get_mut(number) {
                part.state = PartState::Discarded;
                again.extend(&part.places);
            }
        }
        let state = if moves.lost.is_empty() { PartState::Discarded } else { PartState::Failed };
        if let Some(part) = self.parts.get_mut(&failed) {
            part.state = state;
        }
        self.set(&again, &State::Waiting);
        self.set(&moves.lost, &State::Lost);
        let discarded = moves.along.into_iter().chain([failed]).collect();
        Next::GoOn { again: self.route_again(again), discarded }
    }

    /// One request per scan and set of nodes that must not be chosen.
    fn route_again(&self, places: Vec<Place>) -> Vec<RouteAgain> {
        let none = BTreeSet::new();
        let mut requests: BTreeMap<(usize, &BTreeSet<NodeKey>), BTreeSet<usize>> = BTreeMap::new();
        for place in places {
            let lacking = self.lacks.get(&place).unwrap_or(&none);
            requests.entry((place.scan, lacking)).or_default().insert(place.at);
        }
        let request = |((scan, lacking), segments): ((usize, &BTreeSet<NodeKey>), BTreeSet<usize>)| {
            let without = self.attempts.failed_nodes().union(lacking).cloned().collect();
            RouteAgain { scan, segments: segments.into_iter().collect(), without }
        };
        requests.into_iter().map(request).collect()
    }

    /// A part counts as failed when one of its segments turns out to have nobody else.
    pub(super) fn settle_failed(&mut self, place: Place) {
        let lost = self.get(place).filter(|segment| segment.state == State::Lost);
        let Some(number) = lost.and_then(|segment| segment.last) else { return };
        if let Some(part) = self.parts.get_mut(&number).filter(|part| part.error.is_some()) {
            part.state = PartState::Failed;
        }
    }

    fn set(&mut self, places: &[Place], state: &State) {
        for place in places {
            if let Some(segment) = self.get_mut(*place) {
                segment.state = state.clone();
            }
        }
    }

    fn has_tries(&self, place: Place) -> bool {
        self.get(place).is_some_and(|segment| segment.attempts < self.attempts.limits().max_attempts)
    }

    fn is_passed_on(&self, number: PartNumber) -> bool {
        self.parts.get(&number).is_some_and(|part: &Part| part.passed_on)
    }

    fn group_of(&self, place: Place) -> Option<(usize, u32)> {
        self.get(place)?.group.map(|group| (place.scan, group))
    }

    fn places_of_group(&self, scan: usize, group: u32) -> impl Iterator<Item = Place> {
        let places = self.scans.get(scan).map_or(&[][..], |scan| scan.group(group));
        places.iter().map(move |at| Place { scan, at: *at })
    }
}
