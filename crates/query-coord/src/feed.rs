//! The content of the routing feed.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{
    CollectionId, FeedVersion, GroupNumber, NodeId, NodeName, PartitionName, SegmentId, ShardName,
    feed::{
        CollectionEntry, CopyEntry, CopyState, GroupEntry, LeaderEntry, LoadState, NodeEntry, ReplicaEntry,
        SegmentEntry,
    },
};

use crate::{CatalogSegment, Copies, Replica, SegmentReport, SessionState, Stores, copies, holds_all};

/// Every member that was heard, by name. A member that this coordinator never heard has no address, and nobody could
/// reach it.
pub fn node_entries(stores: &Stores) -> Vec<NodeEntry> {
    let entry = |(name, seen): (&NodeName, &crate::Observation)| {
        let group = stores.group_of(name.as_str())?;
        let switched_on = stores.nodes.get(name).is_some_and(|record| record.switched_on);
        let stays = !matches!(seen.state, SessionState::Stopping | SessionState::Gone);
        Some(NodeEntry {
            name: name.clone(),
            id: seen.id,
            address: seen.address.clone(),
            incarnation: seen.incarnation,
            switched_on,
            enabled: switched_on && stays,
            lost: seen.state == SessionState::Lost,
            pool: group.number,
        })
    };
    stores.observed.iter().filter_map(entry).collect()
}

/// Every resource group, by number.
pub fn group_entries(stores: &Stores) -> Vec<GroupEntry> {
    let entry = |group: &crate::ResourceGroup| GroupEntry { number: group.number, name: group.name.clone() };
    let mut entries: Vec<GroupEntry> = stores.groups.values().map(entry).collect();
    entries.sort_unstable_by_key(|group| group.number);
    entries
}

/// What brokers are told of a collection, at version 0; `None` when there is none of this number.
pub fn collection_entry(stores: &Stores, id: CollectionId) -> Option<CollectionEntry> {
    let store = stores.collections.get(&id)?;
    let current = stores.current.get(&id);
    let visible: Vec<&Replica> = stores.replicas_of(id).filter(|replica| replica.query_visible).collect();
    let listed = current.into_iter().flat_map(|target| &target.segments);
    let mut segments: Vec<&CatalogSegment> =
        listed.filter_map(|segment| stores.segment(id, *segment)).collect();
    segments.sort_unstable_by(|a, b| a.segment.content.name.cmp(&b.segment.content.name));

    let partitions = indexed(segments.iter().map(|segment| segment.segment.content.partition.clone()));
    let mut shards: Vec<ShardName> = store.shards().collect();
    for segment in &segments {
        if !shards.contains(&segment.segment.shard) {
            shards.push(segment.segment.shard.clone());
        }
    }
    let wanted: Vec<Copies> = visible.iter().map(|replica| copies(stores, replica)).collect();
    let entries = segments.iter().map(|segment| SegmentEntry {
        promoted: true,
        id: segment.segment.id,
        name: segment.segment.content.name.clone(),
        partition: partitions.get(&segment.segment.content.partition).copied().unwrap_or(0),
        shard: position(&shards, &segment.segment.shard),
        rows: segment.segment.content.rows,
        bytes: segment.segment.content.bytes,
        created_at: segment.segment.created_at,
        statistics: Arc::clone(&segment.statistics),
        copies: segment_copies(stores, segment.segment.id, &wanted),
    });
    let segments = entries.map(Arc::new).collect();
    Some(CollectionEntry {
        name: store.collection.name.clone(),
        id,
        version: FeedVersion(0),
        routing: store.collection.options.routing.clone(),
        query_timeout: store.collection.options.query_timeout,
        clusters: store.collection.options.clusters.clone(),
        columns: store.collection.columns.clone(),
        partitions: partitions.into_keys().collect(),
        load: load_state(stores, id),
        finished_groups: finished_groups(stores, id),
        replicas: visible.iter().map(|r| ReplicaEntry { id: r.id, group: number(stores, r) }).collect(),
        segments,
        leaders: leaders(stores, id, &shards, &visible),
        shards,
    })
}

fn load_state(stores: &Stores, id: CollectionId) -> LoadState {
    match stores.loads.get(&id) {
        None => LoadState::NotLoaded,
        Some(_) if stores.current.contains_key(&id) => LoadState::Serving,
        Some(record) => LoadState::Loading { percent: record.percent },
    }
}

fn finished_groups(stores: &Stores, id: CollectionId) -> Vec<GroupNumber> {
    let finished = stores.replicas_of(id).filter(|replica| replica.query_visible && replica.finished);
    let mut groups: Vec<GroupNumber> = finished.map(|replica| number(stores, replica)).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn number(stores: &Stores, replica: &Replica) -> GroupNumber {
    stores.groups.get(&replica.group).map_or(GroupNumber::NONE, |group| group.number)
}

/// Distinct names with their places, ascending.
fn indexed(names: impl Iterator<Item = PartitionName>) -> BTreeMap<PartitionName, u32> {
    let mut index: BTreeMap<PartitionName, u32> = names.map(|name| (name, 0)).collect();
    for (place, at) in index.values_mut().zip(0..) {
        *place = at;
    }
    index
}

fn position(shards: &[ShardName], shard: &ShardName) -> u32 {
    let at = shards.iter().position(|name| name == shard).unwrap_or_default();
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Copies of a segment, by replica and then by node id.
fn segment_copies(stores: &Stores, segment: SegmentId, wanted: &[Copies]) -> Vec<CopyEntry> {
    let mut entries = Vec::new();
    for (replica, copies) in (0..).zip(wanted) {
        let nodes = copies.get(&segment).into_iter().flatten();
        let mut of_replica: Vec<CopyEntry> =
            nodes.filter_map(|node| copy(stores, node, segment, replica)).collect();
        of_replica.sort_unstable_by_key(|copy| copy.node);
        entries.extend(of_replica);
    }
    entries
}

fn copy(stores: &Stores, node: &NodeName, segment: SegmentId, replica: u32) -> Option<CopyEntry> {
    let seen = stores.observed.get(node)?;
    let observed = seen.segments.get(&segment).map(|report| match report {
        SegmentReport::Held => CopyState::Online,
        SegmentReport::Fetching => CopyState::Offline,
        SegmentReport::Failed => CopyState::Error,
    });
    Some(CopyEntry { node: seen.id, replica, assigned: Some(CopyState::Online), observed })
}

/// Per shard its leaders, in replica order. Only leaders on known nodes are listed.
fn leaders(
    stores: &Stores,
    id: CollectionId,
    shards: &[ShardName],
    visible: &[&Replica],
) -> Vec<Vec<LeaderEntry>> {
    let Some(current) = stores.current.get(&id) else { return vec![Vec::new(); shards.len()] };
    let by_shard = stores.by_shard(current);
    let leader = |shard: &ShardName, replica: &Replica| {
        let node = stores.leads.get(&(replica.id, shard.clone()))?;
        let node: NodeId = stores.observed.get(node).filter(|_| stores.is_known(node.as_str()))?.id;
        let segments = by_shard.get(shard).map_or(&[][..], Vec::as_slice);
        let serviceable = holds_all(stores, replica, segments);
        Some(LeaderEntry { node, serviceable, group: number(stores, replica) })
    };
    shards.iter().map(|shard| visible.iter().filter_map(|replica| leader(shard, replica)).collect()).collect()
}
