//! Placement: which node of a replica should hold which segment.
//!
//! What is placed and fine stays. What has no place, or whose node is lost, leaves or failed to load it, goes to the
//! writable node of the replica with the least load. The former holder keeps its copy until the new one has it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use pointsman_ids::{CollectionId, NodeName, ReplicaId, SegmentId};

use crate::{Replica, SegmentReport, SessionState, Stores};

/// The node of each replica that should hold a segment. A segment without an entry has no place yet.
pub type Placement = BTreeMap<ReplicaId, BTreeMap<SegmentId, NodeName>>;

/// The nodes of a replica that should hold a segment: the one that placement wants it on, and those that still hold it
/// until that one has it.
pub type Copies = BTreeMap<SegmentId, BTreeSet<NodeName>>;

/// How much the rows of other collections weigh against those of the collection that is placed.
const OTHER_ROWS: u128 = 10;

/// Whether every node of the replica was heard or is known to be away. Until then nothing of it is moved or released:
/// silence is not absence.
pub fn settled(stores: &Stores, replica: &Replica) -> bool {
    replica.nodes.iter().chain(&replica.ro_nodes).all(|node| match stores.session(node.as_str()) {
        SessionState::Awaited => false,
        SessionState::Live | SessionState::Stopping => {
            stores.observed.get(node).is_some_and(|observation| observation.reported)
        }
        SessionState::Lost | SessionState::Gone => true,
    })
}

/// Places the segments of all loaded collections. `frozen`: nothing that has a place is moved, whatever became of its
/// node.
pub fn place(stores: &Stores, frozen: bool) -> Placement {
    let mut placement = Placement::new();
    for replica in stores.replicas.values() {
        let former = stores.placement.get(&replica.id);
        if !settled(stores, replica) {
            placement.insert(replica.id, former.cloned().unwrap_or_default());
            continue;
        }
        let wanted = stores.wanted(replica.collection);
        let mut kept = BTreeMap::new();
        let mut homeless = Vec::new();
        for segment in wanted {
            match home(stores, replica, former.and_then(|places| places.get(&segment)), segment, frozen) {
                Some(node) => drop(kept.insert(segment, node)),
                None => homeless.push(segment),
            }
        }
        placement.insert(replica.id, kept);
        settle(stores, replica, homeless, former, &mut placement);
    }
    placement
}

/// Where a segment stays without being moved, if anywhere.
fn home(
    stores: &Stores,
    replica: &Replica,
    former: Option<&NodeName>,
    segment: SegmentId,
    frozen: bool,
) -> Option<NodeName> {
    match former {
        Some(node) if frozen => Some(node.clone()),
        Some(node) => stays(stores, replica, node, segment).then(|| node.clone()),
        // Nothing was decided in this coordinator's time: what nodes hold already is as good a place as any.
        None => adopted(stores, replica, segment),
    }
}

fn stays(stores: &Stores, replica: &Replica, node: &NodeName, segment: SegmentId) -> bool {
    let there = matches!(stores.session(node.as_str()), SessionState::Live | SessionState::Awaited);
    replica.nodes.contains(node) && there && !stores.failed(node.as_str(), segment)
}

fn adopted(stores: &Stores, replica: &Replica, segment: SegmentId) -> Option<NodeName> {
    let reporting = |wanted: SegmentReport| {
        let says = move |node: &&NodeName| stores.report(node.as_str(), segment) == Some(&wanted);
        replica.nodes.iter().filter(|node| stores.session(node.as_str()) == SessionState::Live).find(says)
    };
    reporting(SegmentReport::Held).or_else(|| reporting(SegmentReport::Fetching)).cloned()
}

/// Finds places for segments that have none, largest first, each on the node with the least load. Where no node takes
/// it, it keeps the former place, so that a node that comes back finds itself as it was.
fn settle(
    stores: &Stores,
    replica: &Replica,
    mut homeless: Vec<SegmentId>,
    former: Option<&BTreeMap<SegmentId, NodeName>>,
    placement: &mut Placement,
) {
    let mut loads = Loads::of(stores, replica, placement);
    homeless.sort_by_key(|segment| (Reverse(weight(stores, replica.collection, *segment)), *segment));
    for segment in homeless {
        let was = former.and_then(|places| places.get(&segment));
        let untried = loads.least(|node| !stores.failed(node.as_str(), segment));
        let node = match untried {
            Some(node) => Some(node),
            // Every node failed: the one that has it goes on trying.
            None => was.filter(|node| loads.has(node)).cloned().or_else(|| loads.least(|_| true)),
        };
        let Some(node) = node.or_else(|| was.cloned()) else { continue };
        loads.add(&node, weight(stores, replica.collection, segment));
        placement.entry(replica.id).or_default().insert(segment, node);
    }
}

/// What a segment weighs: its rows, and one more, so that empty ones spread as well.
fn weight(stores: &Stores, collection: CollectionId, segment: SegmentId) -> u128 {
    stores.segment(collection, segment).map_or(1, |segment| u128::from(segment.segment.content.rows) + 1)
}

/// Load of the nodes that take segments of one replica.
struct Loads {
    /// Per node: weight of the collection, ten times, and weight of everything. Equal scores go by the collection's own
    /// weight, then by name.
    nodes: BTreeMap<NodeName, (u128, u128)>,
}

impl Loads {
    fn of(stores: &Stores, replica: &Replica, placement: &Placement) -> Self {
        let takers = replica.nodes.iter().filter(|node| stores.takes_work(node.as_str()));
        let mut loads = Self { nodes: takers.map(|node| (node.clone(), (0, 0))).collect() };
        for other in stores.replicas.values() {
            // Replicas that come later in this round count by where they were.
            let Some(places) = placement.get(&other.id).or_else(|| stores.placement.get(&other.id)) else {
                continue;
            };
            for (segment, node) in places {
                if let Some((own, all)) = loads.nodes.get_mut(node) {
                    let weight = weight(stores, other.collection, *segment);
                    *own += if other.collection == replica.collection { weight } else { 0 };
                    *all += weight;
                }
            }
        }
        loads
    }

    fn least(&self, allowed: impl Fn(&NodeName) -> bool) -> Option<NodeName> {
        let score = |(own, all): (u128, u128)| (own * OTHER_ROWS + all, own);
        let candidates = self.nodes.iter().filter(|(node, _)| allowed(node));
        candidates.min_by_key(|(_, load)| score(**load)).map(|(node, _)| node.clone())
    }

    fn has(&self, node: &NodeName) -> bool {
        self.nodes.contains_key(node)
    }

    fn add(&mut self, node: &NodeName, weight: u128) {
        if let Some((own, all)) = self.nodes.get_mut(node) {
            *own += weight;
            *all += weight;
        }
    }
}

/// The copies of a replica that should be there now: placement's, and until those are reported as held, every other
/// copy that the replica's collection still has on a node of this replica or on one that it is leaving.
pub fn copies(stores: &Stores, replica: &Replica) -> Copies {
    let places = stores.placement.get(&replica.id);
    let mut copies = Copies::new();
    for segment in stores.wanted(replica.collection) {
        let place = places.and_then(|places| places.get(&segment));
        let arrived = place.is_some_and(|node| has_arrived(stores, node, segment));
        let mut nodes: BTreeSet<NodeName> = place.into_iter().cloned().collect();
        if !arrived {
            let holders = replica.nodes.iter().chain(&replica.ro_nodes);
            nodes.extend(holders.filter(|node| keeps(stores, node, segment, place.is_none())).cloned());
        }
        copies.insert(segment, nodes);
    }
    copies
}

fn has_arrived(stores: &Stores, node: &NodeName, segment: SegmentId) -> bool {
    stores.is_known(node.as_str()) && stores.holds(node.as_str(), segment)
}

/// Whether a node that placement does not want keeps its copy for now. What is only being fetched is kept while
/// nothing is decided, since it may yet become the place.
fn keeps(stores: &Stores, node: &NodeName, segment: SegmentId, undecided: bool) -> bool {
    match stores.report(node.as_str(), segment) {
        Some(SegmentReport::Held) => true,
        Some(SegmentReport::Fetching) => undecided,
        Some(SegmentReport::Failed) | None => false,
    }
}
