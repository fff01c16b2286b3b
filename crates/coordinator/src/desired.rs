//! The desired state of every node: which segments it should hold, with a version. A session is told all of it once, and
//! then what changed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::{Epoch, NodeName, SegmentId};
use pointsman_proto::node::v1 as pb;
use pointsman_query_coord::{NodeIndex, Stores, Wish};

/// How long a copy stays that is not wanted any more, so that queries which were planned before can end.
const LINGER: Duration = Duration::from_secs(5);

/// Changes that are remembered of one node, in segments. Who missed more is told everything.
const REMEMBERED: usize = 10_000;

/// Desired states by node.
#[derive(Debug)]
pub(crate) struct DesiredStates {
    nodes: BTreeMap<NodeName, NodeWish>,
    /// The version that was given last.
    version: u64,
}

/// What one node should hold, besides what the rows of segments say.
#[derive(Debug, Default)]
struct NodeWish {
    version: u64,
    /// How many segments it should hold.
    count: usize,
    /// Segments that are wanted no more, with the time until which they stay.
    leaving: BTreeMap<SegmentId, MonoTime>,
    /// What changed of late: versions, each with the one before and the segments that changed.
    steps: VecDeque<Step>,
    /// How many segments the steps name.
    remembered: usize,
}

#[derive(Debug)]
struct Step {
    before: u64,
    segments: BTreeSet<SegmentId>,
}

impl DesiredStates {
    /// Versions of a coordinator's tenure begin above those of every former one.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self { nodes: BTreeMap::new(), version: epoch.0 << 32 }
    }

    /// Takes in what nodes are to be told otherwise, and lets copies go whose time is over. Versions grow where something
    /// changed.
    pub(crate) fn update(&mut self, stores: &Stores, wishes: &[Wish], now: MonoTime) {
        let mut changed: BTreeMap<&NodeName, BTreeSet<SegmentId>> = BTreeMap::new();
        for wish in wishes {
            let Some(name) = stores.whereabouts.name(wish.node) else { continue };
            if self.node(name).take(stores, wish, now) {
                changed.entry(name).or_default().insert(wish.segment);
            }
        }
        for name in stores.observed.keys() {
            let fresh = !self.nodes.contains_key(name);
            let gone = self.node(name).let_go(stores, now);
            if fresh || !gone.is_empty() {
                changed.entry(name).or_default().extend(gone);
            }
        }
        for (name, segments) in changed {
            self.version += 1;
            let version = self.version;
            self.node(name).step(version, segments);
        }
    }

    fn node(&mut self, name: &NodeName) -> &mut NodeWish {
        self.nodes.entry(name.clone()).or_default()
    }

    /// Forgets a node. Should it come back, its wish has a new version.
    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.nodes.remove(node);
    }

    /// The version of a node's wish; 0: there is none.
    pub(crate) fn version(&self, node: &str) -> u64 {
        self.nodes.get(node).map_or(0, |wish| wish.version)
    }

    /// Whether some copy stays for a while although it is not wanted any more.
    pub(crate) fn is_lingering(&self) -> bool {
        self.nodes.values().any(|wish| !wish.leaving.is_empty())
    }

    /// How many copies stay on a node for a while although they are not wanted any more.
    pub(crate) fn lingering(&self, node: &str) -> usize {
        self.nodes.get(node).map_or(0, |wish| wish.leaving.len())
    }

    /// How many segments a node should hold.
    pub(crate) fn count(&self, node: &str) -> usize {
        self.nodes.get(node).map_or(0, |wish| wish.count)
    }

    /// Whether some copy of the segment stays for a while.
    pub(crate) fn is_leaving(&self, segment: SegmentId) -> bool {
        self.nodes.values().any(|wish| wish.leaving.contains_key(&segment))
    }

    /// What a node has to be told that was told the wish of version `told`, 0: nothing. All of it if it missed too much.
    pub(crate) fn message(&self, node: &str, told: u64, stores: &Stores) -> pb::DesiredState {
        let Some(wish) = self.nodes.get(node) else { return pb::DesiredState::default() };
        let index = stores.whereabouts.index(node);
        let wanted = |id: &SegmentId| wish.leaving.contains_key(id) || is_wished(stores, index, *id);
        let mut message = pb::DesiredState { version: wish.version, ..Default::default() };
        if let Some(segments) = wish.since(told) {
            message.before = Some(told);
            message.segments =
                segments.iter().filter(|id| wanted(id)).filter_map(|id| segment(stores, *id)).collect();
            message.removed = segments.iter().filter(|id| !wanted(id)).map(|id| id.0).collect();
        } else {
            let on = index.into_iter().flat_map(|index| stores.whereabouts.on(index));
            message.segments = on.filter(wanted).filter_map(|id| segment(stores, id)).collect();
        }
        message
    }
}

impl NodeWish {
    /// Takes one change; whether the node has to be told of it.
    fn take(&mut self, stores: &Stores, wish: &Wish, now: MonoTime) -> bool {
        if wish.wanted {
            self.count += 1;
            return self.leaving.remove(&wish.segment).is_none();
        }
        self.count = self.count.saturating_sub(1);
        // What is not held yet, or belongs to a collection that was released, goes at once.
        let holds = stores
            .whereabouts
            .row(wish.segment)
            .and_then(|row| row.slot(wish.node))
            .is_some_and(|slot| slot.holds());
        let stays = holds && is_loaded(stores, wish.segment);
        if stays {
            self.leaving.insert(wish.segment, now + LINGER);
        }
        !stays
    }

    /// Copies whose time is over.
    fn let_go(&mut self, stores: &Stores, now: MonoTime) -> Vec<SegmentId> {
        let over = |(id, until): &(&SegmentId, &MonoTime)| now >= **until || !is_loaded(stores, **id);
        let gone: Vec<SegmentId> = self.leaving.iter().filter(over).map(|(id, _)| *id).collect();
        self.leaving.retain(|id, _| gone.binary_search(id).is_err());
        gone
    }

    fn step(&mut self, version: u64, segments: BTreeSet<SegmentId>) {
        self.remembered += segments.len();
        self.steps.push_back(Step { before: self.version, segments });
        self.version = version;
        while self.remembered > REMEMBERED {
            let Some(oldest) = self.steps.pop_front() else { break };
            self.remembered -= oldest.segments.len();
        }
    }

    /// Segments that changed since a version; `None`: that is not known any more, or never was.
    fn since(&self, version: u64) -> Option<BTreeSet<SegmentId>> {
        let first = self.steps.iter().position(|step| step.before == version).filter(|_| version > 0)?;
        Some(self.steps.iter().skip(first).flat_map(|step| step.segments.iter().copied()).collect())
    }
}

fn is_wished(stores: &Stores, node: Option<NodeIndex>, id: SegmentId) -> bool {
    let slot = node.and_then(|node| stores.whereabouts.row(id)?.slot(node));
    slot.is_some_and(|slot| slot.is_wished())
}

fn is_loaded(stores: &Stores, id: SegmentId) -> bool {
    let row = stores.whereabouts.row(id);
    row.is_some_and(|row| row.is_described() && stores.loads.get(row.collection()).is_some())
}

fn segment(stores: &Stores, id: SegmentId) -> Option<pb::DesiredSegment> {
    let collection = stores.whereabouts.row(id)?.collection();
    let found = &stores.segment(collection, id)?.segment;
    let store = stores.collections.get(&collection)?;
    Some(pb::DesiredSegment {
        segment_id: id.0,
        collection: store.collection.name.to_string(),
        name: found.content.name.to_string(),
        object: found.content.object.clone(),
        bytes: found.content.bytes,
        checksum: found.content.checksum.to_string(),
        rows: found.content.rows,
        indexes: store.collection.options.vector_indexes.iter().map(Into::into).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<u64>) -> BTreeSet<SegmentId> {
        range.map(SegmentId).collect()
    }

    #[test]
    fn what_was_missed_is_one_change_as_long_as_it_is_remembered() {
        let mut wish = NodeWish::default();
        wish.step(5, ids(0..2));
        wish.step(8, ids(1..3));
        assert_eq!(wish.since(0), None, "who has nothing is told everything");
        assert_eq!((wish.since(5), wish.since(6)), (Some(ids(1..3)), None));
        wish.step(9, ids(10..10 + REMEMBERED as u64 - 2));
        assert_eq!(
            wish.since(5),
            Some(ids(1..3).into_iter().chain(ids(10..10 + REMEMBERED as u64 - 2)).collect())
        );
        wish.step(10, ids(1..2));
        assert_eq!((wish.since(5), wish.since(9)), (None, Some(ids(1..2))));
        assert!(wish.remembered <= REMEMBERED);
    }
}
