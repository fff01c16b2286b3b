//! What the answer says of the parts.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionName, Error, NodeKey, SegmentName, UnavailableCause};

use super::{Part, PartState, Parts, Place, scan::State};
use crate::{Coverage, UnavailableSegment};

/// Who had not answered when the deadline passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The nodes. A single one is suspicious; of several the fault may be the query's, or ours.
    pub nodes: BTreeSet<NodeKey>,
    /// Whether the rows that have come are an answer. They are not when some of them are of a part that never ended.
    pub rows_count: bool,
}

/// The nodes of the final routing, and those that failed on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesOfParts {
    /// Nodes that are asked in the end; one whose segments were all answered elsewhere is not among them.
    pub asked: BTreeSet<NodeKey>,
    /// Those of them that answered completely.
    pub answered: BTreeSet<NodeKey>,
    /// Nodes that failed or were silent, made good by others or not.
    pub failed: BTreeSet<NodeKey>,
}

impl Parts {
    /// The deadline has passed: what has not been answered is unavailable.
    pub fn time_is_up(&mut self) -> Silence {
        let mut silence = Silence { nodes: BTreeSet::new(), rows_count: true };
        for part in self.parts.values_mut().filter(|part| part.state == PartState::Running) {
            part.state = PartState::Silent;
            silence.rows_count &= !part.passed_on;
            silence.nodes.insert(part.node.clone());
        }
        for segment in self.scans.iter_mut().flat_map(|scan| &mut scan.segments) {
            if matches!(segment.state, State::Waiting | State::Asked) {
                segment.state = State::Lost;
            }
        }
        silence
    }

    /// Every segment that nobody answered for, with the cause, by place. To be asked when the parts are settled: what
    /// is open has not been answered either.
    pub fn unavailable(&self) -> impl Iterator<Item = (Place, UnavailableCause)> {
        self.places().filter_map(|place| Some((place, self.cause(place)?)))
    }

    /// How the last part that a segment was in failed; `None` when it did not, or when nobody was asked.
    pub fn last_failure(&self, place: Place) -> Option<&Error> {
        self.parts.get(&self.get(place)?.last?)?.error.as_ref()
    }

    /// Nodes that failed and left segments that nobody answers for, with how.
    pub fn not_made_good(&self) -> BTreeMap<&NodeKey, &Error> {
        let failed = self.parts.values().filter(|part| part.state == PartState::Failed);
        failed.filter_map(|part| Some((&part.node, part.error.as_ref()?))).collect()
    }

    /// Whom the answer rests on.
    pub fn nodes(&self) -> NodesOfParts {
        let of = |is: &dyn Fn(&Part) -> bool| -> BTreeSet<NodeKey> {
            self.parts.values().filter(|part| is(part)).map(|part| part.node.clone()).collect()
        };
        let asked = of(&|part| part.state != PartState::Discarded);
        let owes = of(&|part| !matches!(part.state, PartState::Discarded | PartState::Ended));
        let silent = of(&|part| part.state == PartState::Silent);
        let failed = self.attempts.failed_nodes().union(&silent).cloned().collect();
        NodesOfParts { answered: asked.difference(&owes).cloned().collect(), asked, failed }
    }

    /// Adds what is known of the segments and nodes to a report. `name` tells the collection and the name of a
    /// segment; it is asked for those that are listed alone. Linear in the segments.
    pub fn cover(&self, coverage: &mut Coverage, name: impl Fn(Place) -> (CollectionName, SegmentName)) {
        for place in self.places() {
            if let Some(cause) = self.cause(place) {
                coverage.add_unavailable(|| {
                    let (collection, segment) = name(place);
                    UnavailableSegment { collection, segment, cause, nodes: self.nodes_concerned(place) }
                });
            } else {
                coverage.add_answered(1);
            }
            if self.get(place).is_some_and(|segment| segment.fail_open) {
                coverage.add_fail_open(|| name(place));
            }
        }
        let nodes = self.nodes();
        coverage.nodes_asked += nodes.asked.len() as u64;
        coverage.nodes_answered += nodes.answered.len() as u64;
        coverage.nodes_failed += nodes.failed.len() as u64;
    }

    /// Why a segment is unavailable; `None` when it was answered. One that is still open is not answered, and would
    /// count as used up.
    fn cause(&self, place: Place) -> Option<UnavailableCause> {
        let segment = self.get(place)?;
        match &segment.state {
            State::Answered => None,
            State::Unroutable(unroutable) => Some(unroutable.cause),
            State::Waiting | State::Asked | State::Lost => {
                let last = segment.last.and_then(|number| self.parts.get(&number));
                let is_silent = last.is_none_or(|part| part.state == PartState::Silent);
                Some(if is_silent { UnavailableCause::NodeSilent } else { UnavailableCause::RetriesUsedUp })
            }
        }
    }

    /// The nodes that failed at a segment or were silent; where none did, those that broke the query which it was lost
    /// with. For one that nobody was asked for, those that routing named.
    pub fn nodes_concerned(&self, place: Place) -> Vec<NodeKey> {
        if let Some(State::Unroutable(unroutable)) = self.get(place).map(|segment| &segment.state) {
            return unroutable.nodes.clone();
        }
        let concerned = |part: &&Part| {
            (part.error.is_some() || part.state == PartState::Silent)
                && part.places.binary_search(&place).is_ok()
        };
        let nodes: BTreeSet<&NodeKey> =
            self.parts.values().filter(concerned).map(|part| &part.node).collect();
        let nodes = if nodes.is_empty() { self.attempts.failed_nodes().iter().collect() } else { nodes };
        nodes.into_iter().cloned().collect()
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        let of_scan = |(scan, segments): (usize, usize)| (0..segments).map(move |at| Place { scan, at });
        self.scans.iter().map(|scan| scan.segments.len()).enumerate().flat_map(of_scan)
    }
}
