//! The desired state of every node: the whole wish with a version.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::{Epoch, NodeName, SegmentId};
use pointsman_proto::node::v1 as pb;
use pointsman_query_coord::{Stores, copies};

/// How long a copy stays that is not wanted any more, so that queries which were planned before can end.
const LINGER: Duration = Duration::from_secs(5);

/// Desired states by node.
#[derive(Debug)]
pub(crate) struct DesiredStates {
    nodes: BTreeMap<NodeName, Wish>,
    /// The version that was given last.
    version: u64,
}

#[derive(Debug, Default)]
struct Wish {
    version: u64,
    segments: BTreeSet<SegmentId>,
    /// Segments that are wanted no more, with the time until which they stay.
    leaving: BTreeMap<SegmentId, MonoTime>,
}

impl DesiredStates {
    /// Versions of a coordinator's tenure begin above those of every former one.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self { nodes: BTreeMap::new(), version: epoch.0 << 32 }
    }

    /// Computes the wishes anew. Versions grow where something changed.
    pub(crate) fn update(&mut self, stores: &Stores, now: MonoTime) {
        let mut wanted = wanted(stores);
        for node in stores.observed.keys() {
            let wish = self.nodes.entry(node.clone()).or_default();
            let changed = wish.update(node, wanted.remove(node).unwrap_or_default(), stores, now);
            if changed || wish.version == 0 {
                self.version += 1;
                wish.version = self.version;
            }
        }
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

    /// How many segments a node should hold.
    pub(crate) fn count(&self, node: &str) -> usize {
        self.nodes.get(node).map_or(0, |wish| wish.segments.len())
    }

    /// Every segment that some node should hold or may still hold for a while.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentId> {
        self.nodes.values().flat_map(|wish| wish.segments.iter().chain(wish.leaving.keys()).copied())
    }

    /// A node's wish as message.
    pub(crate) fn message(&self, node: &str, stores: &Stores) -> pb::DesiredState {
        let Some(wish) = self.nodes.get(node) else { return pb::DesiredState::default() };
        let ids = wish.segments.iter().chain(wish.leaving.keys());
        let segments = ids.filter_map(|id| segment(stores, *id)).collect();
        pb::DesiredState { version: wish.version, segments }
    }
}

impl Wish {
    /// Takes a new wish; whether it differs from the former, lingering segments included.
    fn update(
        &mut self,
        node: &NodeName,
        wanted: BTreeSet<SegmentId>,
        stores: &Stores,
        now: MonoTime,
    ) -> bool {
        let before: BTreeSet<SegmentId> = self.all().collect();
        for id in self.segments.difference(&wanted) {
            // What is not held yet, or belongs to a collection that was released, goes at once.
            if stores.holds(node.as_str(), *id) && is_loaded(stores, *id) {
                self.leaving.insert(*id, now + LINGER);
            }
        }
        self.leaving.retain(|id, until| now < *until && !wanted.contains(id) && is_loaded(stores, *id));
        self.segments = wanted;
        self.all().ne(before)
    }

    fn all(&self) -> impl Iterator<Item = SegmentId> {
        let mut all = self.segments.clone();
        all.extend(self.leaving.keys());
        all.into_iter()
    }
}

/// What each node should hold for the replicas that it is in.
fn wanted(stores: &Stores) -> BTreeMap<NodeName, BTreeSet<SegmentId>> {
    let mut wanted: BTreeMap<NodeName, BTreeSet<SegmentId>> = BTreeMap::new();
    for replica in stores.replicas.values() {
        for (segment, nodes) in copies(stores, replica) {
            for node in nodes {
                wanted.entry(node).or_default().insert(segment);
            }
        }
    }
    wanted
}

fn is_loaded(stores: &Stores, id: SegmentId) -> bool {
    stores.any_segment(id).is_some_and(|segment| stores.loads.contains_key(&segment.segment.collection))
}

fn segment(stores: &Stores, id: SegmentId) -> Option<pb::DesiredSegment> {
    let found = &stores.any_segment(id)?.segment;
    let store = stores.collections.get(&found.collection)?;
    Some(pb::DesiredSegment {
        segment_id: id.0,
        collection: store.collection.name.to_string(),
        name: found.content.name.to_string(),
        object: found.content.object.clone(),
        bytes: found.content.bytes,
        checksum: found.content.checksum.to_string(),
        rows: found.content.rows,
    })
}
