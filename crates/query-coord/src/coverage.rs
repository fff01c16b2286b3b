//! Which replica holds what.

use std::collections::BTreeMap;

use pointsman_ids::{CollectionId, SegmentId, ShardName};

use crate::{Replica, Stores, Target};

impl Stores {
    /// Whether a known node that the replica contains reports the segment as held.
    pub fn replica_holds(&self, replica: &Replica, segment: SegmentId) -> bool {
        let mut nodes = replica.nodes.iter().chain(&replica.ro_nodes);
        nodes.any(|node| self.holds(node.as_str(), segment) && self.is_known(node.as_str()))
    }

    /// Whether a node that the replica contains is present and reports the segment as held, also one that is disabled:
    /// it keeps its data.
    pub fn replica_carries(&self, replica: &Replica, segment: SegmentId) -> bool {
        let mut nodes = replica.nodes.iter().chain(&replica.ro_nodes);
        nodes.any(|node| self.holds(node.as_str(), segment) && self.is_present(node.as_str()))
    }

    /// Segments of a target by shard, both ascending. Every shard of the collection is there, also without segments.
    pub fn by_shard(&self, target: &Target) -> BTreeMap<ShardName, Vec<SegmentId>> {
        let store = self.collections.get(&target.collection);
        let mut shards: BTreeMap<ShardName, Vec<SegmentId>> =
            store.into_iter().flat_map(|store| store.shards()).map(|shard| (shard, Vec::new())).collect();
        for id in &target.segments {
            if let Some(segment) = self.segment(target.collection, *id) {
                shards.entry(segment.segment.shard.clone()).or_default().push(*id);
            }
        }
        shards
    }
}

/// Whether a replica holds all of these segments on known nodes. Of none it holds all.
pub fn holds_all(stores: &Stores, replica: &Replica, segments: &[SegmentId]) -> bool {
    segments.iter().all(|segment| stores.replica_holds(replica, *segment))
}

/// Whether some query-visible replica of the collection, in `group` if it is named, holds all of these segments.
pub fn serves_shard(
    stores: &Stores,
    collection: CollectionId,
    group: Option<&str>,
    segments: &[SegmentId],
) -> bool {
    let in_group = |replica: &&Replica| group.is_none_or(|group| replica.group.as_str() == group);
    let mut visible = stores.replicas_of(collection).filter(|replica| replica.query_visible).filter(in_group);
    visible.any(|replica| holds_all(stores, replica, segments))
}
