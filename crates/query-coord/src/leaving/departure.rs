//! How far nodes are that leave.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, NodeName, SegmentId};

use super::{LastCopy, Served, serving::Serving};
use crate::{Replica, SessionState, Stores, copies_on, ready::leader_of, settled};

/// What a node that leaves still has to give away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// What others are taking over.
    pub moves: Vec<Move>,
    /// What no other node of the replica can take over, and no other replica serves.
    pub stuck: Vec<LastCopy>,
    /// How much stays on it because no other node of the replica can take it over, while it is served elsewhere.
    pub kept: usize,
    /// Whether queries need the node until others have taken over.
    pub needed: bool,
}

/// Something that another node takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// What.
    pub what: LastCopy,
    /// The node that takes it over; `None`: not decided yet.
    pub to: Option<NodeName>,
}

/// How far every node is that leaves.
///
/// A node whose process stops goes in any case: it is needed while others take over, until its time for that is over.
/// One that an operator drains is needed until all is taken over that can be, and nothing is stuck. Drains count on
/// later ones, so that of two nodes that hold the only two copies one leaves, and the other waits.
pub fn departures(stores: &Stores, now: MonoTime) -> BTreeMap<NodeName, Departure> {
    let mut departures = BTreeMap::new();
    let staying = stores.staying(now);
    let stops =
        |node: &NodeName| stores.observed.get(node).is_some_and(|seen| seen.state == SessionState::Stopping);
    for node in stores.observed.keys().filter(|node| stops(node)) {
        let mut departure = departure(stores, node, &staying);
        let waits = stores.leaving.stops.get(node).is_some_and(|until| now < *until);
        departure.needed = waits && !departure.moves.is_empty();
        departures.insert(node.clone(), departure);
    }
    let drains = stores.leaving.drains.iter().filter(|(node, _)| !stops(node));
    let mut drains: Vec<(u64, &NodeName)> = drains.map(|(node, since)| (*since, node)).collect();
    drains.sort_unstable();
    for (at, (_, node)) in drains.iter().enumerate() {
        let later = drains.iter().skip(at + 1).map(|(_, later)| *later);
        let mut others = staying.clone();
        others.extend(later.filter(|later| stores.serves_on(later, now)));
        let mut departure = departure(stores, node, &others);
        departure.needed = !departure.moves.is_empty() || !departure.stuck.is_empty();
        departures.insert((*node).clone(), departure);
    }
    departures
}

impl Stores {
    /// Whether a node that is being drained serves on meanwhile.
    fn serves_on(&self, node: &NodeName, now: MonoTime) -> bool {
        let lives = self.observed.get(node).is_some_and(|seen| seen.state == SessionState::Live);
        let counts = self.group_of(node.as_str()).is_some() && self.is_known(node.as_str());
        lives && counts && self.stop_lease(node.as_str(), now).is_none()
    }
}

/// What a node has to give away, if `others` can be counted on.
fn departure(stores: &Stores, node: &NodeName, others: &BTreeSet<&NodeName>) -> Departure {
    let own = || stores.replicas.iter().filter(|replica| replica.contains(node.as_str()));
    let collections: BTreeSet<CollectionId> = own().map(|replica| replica.collection).collect();
    let mut last = BTreeSet::new();
    for serving in collections.into_iter().filter_map(|collection| Serving::of(stores, collection)) {
        last.extend(serving.by(node).filter(|served| !serving.elsewhere(&served.what, others, None)));
    }
    let mut departure = Departure::default();
    for replica in own() {
        let listed = copies_on(stores, replica, node).into_iter();
        for segment in listed.filter(|segment| stores.holds(node.as_str(), *segment)) {
            let (collection, group) = (replica.collection, replica.group.clone());
            let what = LastCopy { collection, group, what: Served::Segment(segment) };
            match taker(stores, replica, node, segment) {
                Taker::Coming(to) => departure.moves.push(Move { what, to }),
                Taker::Nobody if last.contains(&what) => departure.stuck.push(what),
                Taker::Nobody => departure.kept += 1,
            }
        }
    }
    for replica in own() {
        for shard in stores.shards_of_targets(replica.collection) {
            if leader_of(stores, replica, &shard).is_none_or(|leader| leader.node != *node) {
                continue;
            }
            let successor = stores
                .leads
                .get(&(replica.id, shard.clone()))
                .filter(|to| *to != node && stores.takes_work(to.as_str()));
            let (collection, group) = (replica.collection, replica.group.clone());
            let what = LastCopy { collection, group, what: Served::Lead(shard) };
            match successor {
                Some(to) => departure.moves.push(Move { what, to: Some(to.clone()) }),
                None if last.contains(&what) => departure.stuck.push(what),
                None => {}
            }
        }
    }
    departure
}

/// Who takes a segment over.
enum Taker {
    /// This node, or one that is still to be found.
    Coming(Option<NodeName>),
    Nobody,
}

fn taker(stores: &Stores, replica: &Replica, node: &NodeName, segment: SegmentId) -> Taker {
    match stores.place_of(replica, segment) {
        Some(place) if place != node && stores.takes_work(place.as_str()) => {
            Taker::Coming(Some(place.clone()))
        }
        // It has to wait for its turn, or until all were heard.
        _ if takes_any(stores, replica, node) || !settled(stores, replica) => Taker::Coming(None),
        _ => Taker::Nobody,
    }
}

fn takes_any(stores: &Stores, replica: &Replica, node: &NodeName) -> bool {
    replica.nodes.iter().any(|other| other != node && stores.takes_work(other.as_str()))
}
