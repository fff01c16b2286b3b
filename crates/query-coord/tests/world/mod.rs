//! A small world to decide about: nodes, groups, one or more loaded collections.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{
    CollectionId, CollectionName, Error, ErrorCode, GroupName, GroupNumber, Incarnation, NodeId, NodeName,
    ReplicaId, SegmentId, TargetVersion,
    catalog::{Checksum, Collection, CollectionOptions, Column, NewSegment, Segment, shard_name},
};
use pointsman_query_coord::{
    CatalogSegment, CollectionStore, Failure, LoadRecord, LoadStatus, NodeRecord, Observation, Replica,
    ResourceGroup, SegmentReport, SessionState, Stores, Target, copies, place, plan_leads, replica_nodes,
};

pub const COLLECTION: CollectionId = CollectionId(1);

pub fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

/// A world in which every node of `groups` lives and has reported nothing.
pub fn world(groups: &[(&str, &[&str])]) -> Stores {
    let mut stores = Stores::default();
    for (number, (name, members)) in (1..).zip(groups) {
        let members: BTreeSet<NodeName> = members.iter().map(|name| node(name)).collect();
        for member in &members {
            let id = NodeId(stores.nodes.len() as u64 + 1);
            let record =
                NodeRecord { name: member.clone(), incarnation: Incarnation(1), id, switched_on: true };
            stores.nodes.insert(member.clone(), record);
            stores.observed.insert(member.clone(), seen(id));
        }
        let name = group(name);
        let made = ResourceGroup {
            number: GroupNumber(number),
            name: name.clone(),
            requests: 0,
            limits: 100,
            members,
        };
        stores.groups.insert(name, made);
    }
    stores
}

fn seen(id: NodeId) -> Observation {
    Observation {
        id,
        incarnation: Incarnation(1),
        address: format!("http://127.0.0.1:{id}"),
        state: SessionState::Live,
        reported: true,
        segments: BTreeMap::new(),
    }
}

/// Creates collection 1 with segments of these rows over `shards` shards; segment i (from 1) is in shard i mod shards.
pub fn collection(stores: &mut Stores, shards: u32, rows: &[u64]) {
    let name = CollectionName::new("t").unwrap();
    let options = CollectionOptions { shards, ..CollectionOptions::default() };
    let columns = vec![Column { name: "x".into(), data_type: "Int64".into(), nullable: false }];
    let collection = Collection { id: COLLECTION, name: name.clone(), columns, options, created_at: 1 };
    let mut store = CollectionStore::new(collection);
    for (id, rows) in (1..).zip(rows) {
        store.insert(segment(id, shards, *rows));
    }
    stores.names.insert(name, COLLECTION);
    stores.collections.insert(COLLECTION, store);
}

pub fn segment(id: u64, shards: u32, rows: u64) -> Segment {
    let shard = shard_name(u32::try_from(id).unwrap() % shards);
    let content = NewSegment {
        name: format!("s{id:05}").parse().unwrap(),
        partition: "default".parse().unwrap(),
        shard: Some(shard.clone()),
        object: format!("t/s{id}.parquet"),
        rows,
        bytes: rows * 10,
        checksum: Checksum([7; 32]),
        statistics: BTreeMap::new(),
    };
    Segment { id: SegmentId(id), collection: COLLECTION, shard, created_at: 1, content }
}

/// Loads collection 1 with these replicas per group.
pub fn load(stores: &mut Stores, groups: &[(&str, usize)]) {
    let names = groups.iter().flat_map(|(name, number)| std::iter::repeat_n(group(name), *number));
    let replicas: Vec<Replica> = (1..)
        .zip(names)
        .map(|(id, group)| Replica {
            id: ReplicaId(id),
            collection: COLLECTION,
            group,
            nodes: BTreeSet::new(),
            ro_nodes: BTreeSet::new(),
            query_visible: true,
            finished: false,
        })
        .collect();
    let record = LoadRecord {
        collection: COLLECTION,
        replicas: u32::try_from(replicas.len()).unwrap(),
        status: LoadStatus::Loading,
        percent: 0,
        created_at: 1,
        updated_at: 1,
    };
    stores.loads.insert(COLLECTION, record);
    stores.replicas = replicas.into_iter().map(|replica| (replica.id, replica)).collect();
    divide(stores);
    stores.next.insert(COLLECTION, whole_target(stores, 1));
}

/// Divides the members among the replicas anew.
pub fn divide(stores: &mut Stores) {
    let replicas: Vec<Replica> = stores.replicas.values().cloned().collect();
    for replica in replica_nodes(stores, COLLECTION, &replicas) {
        stores.replicas.insert(replica.id, replica);
    }
}

pub fn whole_target(stores: &Stores, version: u64) -> Target {
    let segments = stores.collections[&COLLECTION].segments.keys().copied().collect();
    Target { collection: COLLECTION, version: TargetVersion(version), segments }
}

/// Makes the next target current.
pub fn promote(stores: &mut Stores) {
    let next = stores.next.remove(&COLLECTION).unwrap();
    stores.current.insert(COLLECTION, next);
}

/// Decides placement and leads once.
pub fn decide(stores: &mut Stores) {
    stores.placement = place(stores, false);
    stores.leads = plan_leads(stores);
}

/// Every node reports as held what placement wants of it.
pub fn obey(stores: &mut Stores) {
    for places in stores.placement.clone().into_values() {
        for (segment, node) in places {
            report(stores, node.as_str(), segment.0, SegmentReport::Held);
        }
    }
}

/// Every node drops what it should not hold.
pub fn tidy(stores: &mut Stores) {
    let mut wanted = BTreeSet::new();
    for replica in stores.replicas.values() {
        let copies = copies(stores, replica);
        wanted.extend(
            copies.into_iter().flat_map(|(segment, nodes)| nodes.into_iter().map(move |n| (n, segment))),
        );
    }
    for (name, seen) in &mut stores.observed {
        seen.segments.retain(|segment, _| wanted.contains(&(name.clone(), *segment)));
    }
}

pub fn report(stores: &mut Stores, node: &str, segment: u64, report: SegmentReport) {
    stores.observed.get_mut(node).unwrap().segments.insert(SegmentId(segment), report);
}

pub fn fail(stores: &mut Stores, name: &str, segment: u64) {
    report(stores, name, segment, SegmentReport::Failed);
    let failure = Failure { tries: 1, error: Error::new(ErrorCode::SegmentLoadFailed, "checksum differs") };
    stores.failures.entry(SegmentId(segment)).or_default().insert(node(name), failure);
}

pub fn set(stores: &mut Stores, node: &str, state: SessionState) {
    stores.observed.get_mut(node).unwrap().state = state;
}

pub fn drop_segment(stores: &mut Stores, id: u64) {
    let dropped: CatalogSegment =
        stores.collections.get_mut(&COLLECTION).unwrap().remove(SegmentId(id)).unwrap();
    stores.dropped.insert(SegmentId(id), dropped);
}

/// How many segments placement puts on each writable node of a replica.
pub fn counts(stores: &Stores, replica: u64) -> BTreeMap<NodeName, usize> {
    let replica = &stores.replicas[&ReplicaId(replica)];
    let mut counts: BTreeMap<NodeName, usize> = replica.nodes.iter().map(|node| (node.clone(), 0)).collect();
    for node in stores.placement[&replica.id].values() {
        *counts.entry(node.clone()).or_default() += 1;
    }
    counts
}

/// The place of a segment in a replica.
pub fn place_of(stores: &Stores, replica: u64, segment: u64) -> &str {
    stores.placement[&ReplicaId(replica)][&SegmentId(segment)].as_str()
}
