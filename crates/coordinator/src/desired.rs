//! The desired state of every node: which segments it should hold, with a version. A session is told all of it once, and
//! then what changed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, Epoch, NodeName, SegmentId, request::VectorIndex};
use pointsman_proto::node::v1 as pb;
use pointsman_query_coord::{Changes, NodeIndex, Stores, Wish};
use prost::Message as _;

/// How long a copy stays that is not wanted any more, so that queries which were planned before can end.
const LINGER: Duration = Duration::from_secs(5);

/// Changes that are remembered of one node, in segments. Who missed more is told everything.
const REMEMBERED: usize = 10_000;

/// The field of a wish that holds its segments.
const SEGMENTS: u32 = 2;

/// Desired states by node.
#[derive(Debug)]
pub(crate) struct DesiredStates {
    nodes: BTreeMap<NodeName, NodeWish>,
    /// The version that was given last.
    version: u64,
    /// The indexes that nodes know of, by collection; those without any are left out.
    indexes: BTreeMap<CollectionId, Vec<VectorIndex>>,
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
        Self { nodes: BTreeMap::new(), version: epoch.0 << 32, indexes: BTreeMap::new() }
    }

    /// Takes in what nodes are to be told otherwise, and lets copies go whose time is over. Versions grow where something
    /// changed.
    pub(crate) fn update(&mut self, stores: &Stores, changes: &Changes, wishes: &[Wish], now: MonoTime) {
        let mut changed: BTreeMap<&NodeName, BTreeSet<SegmentId>> = BTreeMap::new();
        for (name, segment) in self.reindexed(stores, changes) {
            changed.entry(name).or_default().insert(segment);
        }
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

    /// Segments whose indexes are others than nodes were told, with the nodes that should hold them.
    fn reindexed<'a>(&mut self, stores: &'a Stores, changes: &Changes) -> Vec<(&'a NodeName, SegmentId)> {
        let mut told = Vec::new();
        for (collection, _) in changes.iter() {
            let options = stores.collections.get(&collection).map(|store| &store.collection.options);
            let wanted = options.map(|options| options.vector_indexes.as_slice()).unwrap_or_default();
            let known = self.indexes.get(&collection).map(Vec::as_slice).unwrap_or_default();
            if wanted == known {
                continue;
            }
            if wanted.is_empty() {
                self.indexes.remove(&collection);
            } else {
                self.indexes.insert(collection, wanted.to_vec());
            }
            let targets = [stores.targets.current(collection), stores.targets.next(collection)];
            let segments: BTreeSet<SegmentId> =
                targets.into_iter().flatten().flat_map(|target| target.segments()).collect();
            for row in segments.into_iter().filter_map(|id| Some((id, stores.whereabouts.row(id)?))) {
                let wished = row.1.slots().filter(|slot| slot.is_wished());
                let names = wished.filter_map(|slot| stores.whereabouts.name(slot.node()));
                told.extend(names.map(|name| (name, row.0)));
            }
        }
        told
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

    /// What a node has to be told that was told the wish of version `told`, 0: nothing. All of it if it missed too much. The
    /// message is encoded, and comes with the version that it makes known.
    pub(crate) fn message(&self, node: &str, told: u64, stores: &Stores) -> (u64, Vec<u8>) {
        let Some(wish) = self.nodes.get(node) else { return (0, Vec::new()) };
        let index = stores.whereabouts.index(node);
        let wanted = |id: &SegmentId| wish.leaving.contains_key(id) || is_wished(stores, index, *id);
        let mut message = pb::DesiredState { version: wish.version, ..Default::default() };
        let encoded = if let Some(segments) = wish.since(told) {
            message.before = Some(told);
            message.removed = segments.iter().filter(|id| !wanted(id)).map(|id| id.0).collect();
            encoded(&message, segments.into_iter().filter(wanted), stores)
        } else {
            let on = index.into_iter().flat_map(|index| stores.whereabouts.on(index));
            encoded(&message, on.filter(wanted), stores)
        };
        (wish.version, encoded)
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

/// A message with these segments. There may be many, and the lock is held: none of them is made as a message of its own.
fn encoded(
    message: &pb::DesiredState,
    segments: impl Iterator<Item = SegmentId>,
    stores: &Stores,
) -> Vec<u8> {
    let mut encoded = message.encode_to_vec();
    let mut told = pb::DesiredSegment::default();
    for id in segments {
        if tell(&mut told, id, stores).is_some() {
            prost::encoding::message::encode(SEGMENTS, &told, &mut encoded);
        }
    }
    encoded
}

/// Makes of what was told of another segment what is told of this one; `None`: it is not known.
fn tell(told: &mut pb::DesiredSegment, id: SegmentId, stores: &Stores) -> Option<()> {
    let collection = stores.whereabouts.row(id)?.collection();
    let found = &stores.segment(collection, id)?.segment.content;
    let store = stores.collections.get(&collection)?;
    let put = |field: &mut String, text: &str| {
        field.clear();
        field.push_str(text);
    };
    if told.collection != store.collection.name.as_str() {
        put(&mut told.collection, store.collection.name.as_str());
        told.indexes = store.collection.options.vector_indexes.iter().map(Into::into).collect();
    }
    put(&mut told.name, found.name.as_str());
    put(&mut told.object, &found.object);
    told.checksum.clear();
    write!(told.checksum, "{}", found.checksum).ok()?;
    (told.segment_id, told.rows, told.bytes) = (id.0, found.rows, found.bytes);
    Some(())
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
