//! A small world to decide about: nodes, groups, one or more loaded collections.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::{
    CollectionId, CollectionName, Error, ErrorCode, GroupName, GroupNumber, Incarnation, NodeId, NodeName,
    ReplicaId, SegmentId, ShardName, TargetVersion,
    catalog::{Checksum, Collection, CollectionOptions, Column, NewSegment, Segment, shard_name},
};
use pointsman_query_coord::{
    CatalogSegment, CollectionStore, GroupConfig, GroupWait, Hosted, Lead, LeaderReport, LeaderView,
    LoadKind, LoadRecord, LoadStatus, NextStep, NodeRecord, Observation, PartitionLoad, Replica,
    ResourceGroup, SegmentReport, SessionState, Stores, Target, copies_on, lead_wishes, next_step, place,
    plan_leads, replica_nodes, wish,
};

/// Nothing waits for its group for longer than a minute, and it is second 100.
pub const WAIT: GroupWait = GroupWait { now: 100_000_000_000, at_most: Duration::from_secs(60) };

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
            let record = NodeRecord {
                name: member.clone(),
                incarnation: Incarnation(1),
                id,
                switched_on: true,
                labels: BTreeMap::new(),
            };
            stores.nodes.insert(member.clone(), record);
            stores.observed.insert(member.clone(), seen(id));
        }
        let name = group(name);
        let made = ResourceGroup {
            number: GroupNumber(number),
            name: name.clone(),
            config: GroupConfig { limits: 100, ..GroupConfig::default() },
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
        memory: None,
        reported: true,
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
            waits_for_group_since: None,
        })
        .collect();
    let partition = PartitionLoad { status: LoadStatus::Loading, percent: 0, created_at: 1, updated_at: 1 };
    let record = LoadRecord {
        collection: COLLECTION,
        replicas: u32::try_from(replicas.len()).unwrap(),
        kind: LoadKind::Collection,
        status: LoadStatus::Loading,
        percent: 0,
        created_at: 1,
        updated_at: 1,
        recoveries: 0,
        replicas_chosen: true,
        partitions: [("default".parse().unwrap(), partition)].into(),
    };
    stores.loads.insert(record);
    stores.replicas = replicas.into_iter().collect();
    divide(stores);
    let next = whole_target(stores, 1);
    stores.targets.set_next(next);
}

/// Divides the members among the replicas anew.
pub fn divide(stores: &mut Stores) {
    let replicas: Vec<Replica> = stores.replicas_of(COLLECTION).cloned().collect();
    for replica in replica_nodes(stores, COLLECTION, &replicas, WAIT) {
        stores.replicas.insert(replica);
    }
}

pub fn whole_target(stores: &Stores, version: u64) -> Target {
    let store = &stores.collections[&COLLECTION];
    let partitions = stores.loads.get(COLLECTION).unwrap().partitions.keys().cloned();
    let segments = store.segments.values().map(CatalogSegment::in_target);
    Target::new(COLLECTION, TargetVersion(version), store.shards(), partitions, segments)
}

/// Makes the next target current.
pub fn promote(stores: &mut Stores) {
    assert!(stores.targets.next(COLLECTION).is_some());
    stores.targets.promote(COLLECTION);
}

/// Decides leads and placement once.
pub fn decide(stores: &mut Stores) {
    decide_while(stores, false);
}

/// Decides leads and placement once. `frozen`: most members were lost.
pub fn decide_while(stores: &mut Stores, frozen: bool) {
    stores.leads = plan_leads(stores);
    let mut changes = stores.changes();
    place(stores, &changes, frozen);
    changes.extend(&stores.changes());
    wish(stores, &changes);
}

/// Every place of a replica.
pub fn places(stores: &Stores, replica: u64) -> BTreeMap<SegmentId, NodeName> {
    let replica = stores.replicas.get(ReplicaId(replica)).unwrap();
    stores.places(replica).map(|(segment, node)| (segment, node.clone())).collect()
}

/// Every place, by replica.
pub fn all_places(stores: &Stores) -> BTreeMap<ReplicaId, BTreeMap<SegmentId, NodeName>> {
    stores.replicas.iter().map(|replica| (replica.id, places(stores, replica.id.0))).collect()
}

/// Every node reports as held what placement wants of it.
pub fn obey(stores: &mut Stores) {
    for (segment, node) in all_places(stores).into_values().flatten() {
        report(stores, node.as_str(), segment.0, SegmentReport::Held);
    }
}

/// What is to be done about the next target.
pub fn step(stores: &Stores) -> NextStep {
    next_step(stores, COLLECTION, true)
}

/// Who hosts what now.
pub fn hosted(stores: &Stores) -> Hosted {
    let mut now = stores.clone();
    let mut everything = now.changes();
    everything.note_all(COLLECTION);
    let mut hosted = Hosted::default();
    hosted.update(&now, &everything);
    hosted
}

/// Every node that is present leads what it should and says so. It takes the coordinator's word for who hosts what.
pub fn lead(stores: &mut Stores) {
    let wishes = lead_wishes(stores, &hosted(stores), |_| step(stores));
    for name in stores.observed.keys().cloned().collect::<Vec<_>>() {
        if stores.is_present(name.as_str()) {
            lead_on(stores, &name, wishes.get(&name).cloned().unwrap_or_default());
        }
    }
}

fn lead_on(stores: &mut Stores, name: &NodeName, wishes: BTreeMap<(CollectionId, ShardName), Lead>) {
    let former = std::mem::take(&mut stores.distribution);
    stores.distribution = former.clone();
    stores.distribution.remove_node(name);
    for ((collection, shard), wish) in wishes {
        let names: BTreeMap<NodeId, NodeName> =
            stores.observed.iter().map(|(name, seen)| (seen.id, name.clone())).collect();
        let hosts: BTreeMap<SegmentId, NodeName> =
            wish.hosts.iter().map(|(segment, host)| (*segment, names[host].clone())).collect();
        let before = former.get(name, collection, &shard);
        let view = wish.view.as_ref().map(|target| (target.version, segments_of(target, &shard)));
        let (target_version, whole) = match (view, before) {
            (Some((version, segments)), _) => {
                (version, segments.iter().all(|segment| hosts.contains_key(segment)))
            }
            // It keeps the view that it has, and the coordinator does not say what that lists.
            (None, Some(before)) => (before.target_version, before.serviceable),
            (None, None) => (TargetVersion(0), false),
        };
        stores.distribution.insert(LeaderReport {
            node: name.clone(),
            node_id: stores.observed[name].id,
            collection,
            shard,
            version: before.map_or(1, |before| before.version),
            target_version,
            serviceable: whole,
            view: LeaderView::new(hosts),
        });
    }
}

fn segments_of(target: &Target, shard: &ShardName) -> Vec<SegmentId> {
    target.shard(shard.as_str()).map_or(Vec::new(), |shard| shard.segments.clone())
}

/// Decides, and lets nodes lead and be synced, until nothing changes any more.
pub fn settle(stores: &mut Stores) {
    for _ in 0..4 {
        decide(stores);
        lead(stores);
    }
}

/// What a node says of shard 0.
pub fn leader<'a>(stores: &'a Stores, name: &str) -> Option<&'a LeaderReport> {
    stores.distribution.get(&node(name), COLLECTION, &shard_name(0)).map(AsRef::as_ref)
}

/// Every node drops what it should not hold.
pub fn tidy(stores: &mut Stores) {
    // What was reported since may have changed who should hold what.
    stores.changes();
    let mut wanted = BTreeSet::new();
    for replica in stores.replicas.iter() {
        for node in replica.all_nodes() {
            wanted
                .extend(copies_on(stores, replica, node).into_iter().map(|segment| (node.clone(), segment)));
        }
    }
    let held = stores.observed.keys();
    let held = held.flat_map(|node| stores.reports(node).map(|(segment, _)| (node.clone(), segment)));
    let unwanted: Vec<(NodeName, SegmentId)> = held.filter(|held| !wanted.contains(held)).collect();
    unwanted.iter().for_each(|(node, segment)| unreport(stores, node.as_str(), segment.0));
}

pub fn report(stores: &mut Stores, node: &str, segment: u64, report: SegmentReport) {
    let node = stores.whereabouts.intern(&self::node(node));
    stores.whereabouts.report(node, SegmentId(segment), Some(report));
}

/// A node has nothing of a segment any more.
pub fn unreport(stores: &mut Stores, node: &str, segment: u64) {
    let node = stores.whereabouts.intern(&self::node(node));
    stores.whereabouts.report(node, SegmentId(segment), None);
}

/// A node has nothing of anything any more.
pub fn unreport_all(stores: &mut Stores, node: &str) {
    let node = stores.whereabouts.intern(&self::node(node));
    stores.whereabouts.clear_reports(node);
}

/// Makes a node the place of a segment of a replica.
pub fn put(stores: &mut Stores, replica: u64, segment: u64, name: &str) {
    let of = stores.replicas.get(ReplicaId(replica)).cloned().unwrap();
    if let Some(former) = stores.place_of(&of, SegmentId(segment)).cloned() {
        let former = stores.whereabouts.intern(&former);
        stores.put(SegmentId(segment), former, false);
    }
    let node = stores.whereabouts.intern(&node(name));
    stores.put(SegmentId(segment), node, true);
}

pub fn fail(stores: &mut Stores, name: &str, segment: u64) {
    report(stores, name, segment, SegmentReport::Failed);
    fail_with(stores, name, segment, ErrorCode::SegmentLoadFailed, MonoTime::default());
}

/// A node fails to load a segment.
pub fn fail_with(stores: &mut Stores, name: &str, segment: u64, code: ErrorCode, now: MonoTime) {
    let error = Error::new(code, "checksum differs");
    stores.note_failure(&node(name), SegmentId(segment), error, now);
}

pub fn set(stores: &mut Stores, node: &str, state: SessionState) {
    stores.observed.get_mut(node).unwrap().state = state;
}

/// One more segment in the collection, and in its next target.
pub fn push(stores: &mut Stores, id: u64, rows: u64) {
    stores.collections.get_mut(&COLLECTION).unwrap().insert(segment(id, 1, rows));
    let version = stores.next_first(COLLECTION).map_or(0, |target| target.version.0);
    stores.targets.set_next(whole_target(stores, version));
}

pub fn drop_segment(stores: &mut Stores, id: u64) {
    let dropped: CatalogSegment =
        stores.collections.get_mut(&COLLECTION).unwrap().remove(SegmentId(id)).unwrap();
    stores.dropped.insert(SegmentId(id), dropped);
}

/// How many segments placement puts on each writable node of a replica.
pub fn counts(stores: &Stores, replica: u64) -> BTreeMap<NodeName, usize> {
    let replica = stores.replicas.get(ReplicaId(replica)).unwrap();
    let mut counts: BTreeMap<NodeName, usize> = replica.nodes.iter().map(|node| (node.clone(), 0)).collect();
    for (_, node) in stores.places(replica) {
        *counts.entry(node.clone()).or_default() += 1;
    }
    counts
}

/// The place of a segment in a replica; `-`: it has none.
pub fn place_of(stores: &Stores, replica: u64, segment: u64) -> &str {
    let replica = stores.replicas.get(ReplicaId(replica)).unwrap();
    stores.place_of(replica, SegmentId(segment)).map_or("-", |node| node.as_str())
}
