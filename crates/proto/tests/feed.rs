//! Snapshots and deltas of the routing feed come back from the wire as they went, or are refused by name.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_ids::{
    CollectionId, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, SegmentId,
    catalog::{Column, ColumnStatistics, RoutingOptions, Sampler},
    feed::{
        CollectionEntry, CopyEntry, CopyState, Delta, GroupEntry, LeaderDrops, LeaderEntry, LoadState,
        NodeEntry, ReplicaEntry, SegmentEntry, Snapshot,
    },
    request::{Metric, VectorIndex},
};
use pointsman_proto::{broker::v1 as pb, collection_digest, snapshot_in_columns};
use proptest::prelude::*;
use prost::Message;

fn segment(name: &str, observed: Option<CopyState>) -> Arc<SegmentEntry> {
    let copy = |node, assigned| CopyEntry { node: NodeId(node), replica: 0, assigned, observed };
    Arc::new(SegmentEntry {
        id: SegmentId(7),
        name: name.parse().unwrap(),
        partition: 0,
        shard: 0,
        rows: 3,
        bytes: 100,
        created_at: 5,
        promoted: true,
        statistics: Arc::default(),
        copies: vec![copy(1, Some(CopyState::Online)), copy(2, None)],
    })
}

fn collection(name: &str, segments: Vec<Arc<SegmentEntry>>) -> CollectionEntry {
    CollectionEntry {
        name: name.parse().unwrap(),
        id: CollectionId(1),
        version: FeedVersion(4),
        routing: RoutingOptions {
            samplers: vec![Sampler { name: "few".into(), first_n: 3 }],
            replica_groups: BTreeMap::from([(0, vec![vec!["n1".parse().unwrap()]])]),
            ..RoutingOptions::default()
        },
        query_timeout: Some(Duration::from_secs(3)),
        key: Some("l_orderkey".into()),
        vector_indexes: vec![VectorIndex { column: "v".into(), metric: Metric::Cosine }],
        clusters: vec!["local".parse().unwrap(), "west".parse().unwrap()],
        columns: vec![Column { name: "x".into(), data_type: "Int64".into(), nullable: true }],
        partitions: vec!["default".parse().unwrap()],
        shards: vec!["shard-0".parse().unwrap()],
        load: LoadState::Serving,
        finished_groups: vec![GroupNumber(1)],
        replicas: vec![ReplicaEntry { id: ReplicaId(1), group: GroupNumber(1) }],
        segments: segments.into_iter().collect(),
        leaders: vec![vec![LeaderEntry { node: NodeId(1), serviceable: true, group: GroupNumber(1) }]],
    }
}

fn node(name: &str, pool: GroupNumber) -> NodeEntry {
    NodeEntry {
        name: name.parse().unwrap(),
        id: NodeId(1),
        address: "http://127.0.0.1:1".into(),
        incarnation: Incarnation(1),
        switched_on: true,
        enabled: true,
        lost: false,
        pool,
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        cluster: "local".parse().unwrap(),
        version: FeedVersion(4),
        nodes: vec![node("n1", GroupNumber(1)), node("n2", GroupNumber::NONE)],
        groups: vec![GroupEntry { number: GroupNumber(1), name: "east".parse().unwrap() }],
        collections: vec![Arc::new(collection("t", vec![segment("a", None), segment("b", None)]))],
        config: BTreeMap::from([("broker.fail_open.enabled".to_owned(), "true".to_owned())]),
    }
}

/// A later snapshot in which the wanted kinds of things have changed.
fn changed(kinds: [bool; 10]) -> Snapshot {
    let [nodes, gone, groups, config, new, dropped, head, segments, copies, leaders] = kinds;
    let mut after = Snapshot { version: FeedVersion(9), ..snapshot() };
    if nodes {
        after.nodes[0].lost = true;
    }
    if gone {
        after.nodes.remove(1);
    }
    if groups {
        after.groups.clear();
    }
    if config {
        after.config.clear();
    }
    let entry = Arc::make_mut(&mut after.collections[0]);
    if head {
        entry.load = LoadState::Loading { percent: 40 };
    }
    if segments {
        entry.segments.set(0, segment("aa", Some(CopyState::Error)));
    }
    if copies {
        entry.segments.set(1, segment("b", Some(CopyState::Consuming)));
    }
    if leaders {
        entry.leaders[0].clear();
    }
    if dropped {
        after.collections.clear();
    }
    if new {
        after.collections.insert(0, Arc::new(collection("n", vec![segment("z", Some(CopyState::Offline))])));
    }
    after
}

#[test]
fn a_snapshot_comes_back_as_it_went() {
    let sent = snapshot();
    assert_eq!(Snapshot::try_from(pb::Snapshot::from(&sent)).unwrap(), sent);
}

/// A snapshot in which nothing of a segment is like that of another.
fn diverse() -> Snapshot {
    let segments = [(900, 7, 2), (3, u64::MAX, 0), (70_000, 8, 1)].into_iter().zip(["a", "bb", "ccc"]);
    let entry = |((id, created_at, copies), name): ((u64, u64, usize), &str)| {
        let mut entry = SegmentEntry::clone(&segment(name, Some(CopyState::Offline)));
        entry.copies.truncate(copies);
        let nulls = ColumnStatistics { nulls: Some(id), min: None, max: None };
        let statistics = Arc::new(BTreeMap::from_iter((id == 3).then(|| ("x".to_owned(), nulls))));
        Arc::new(SegmentEntry { id: SegmentId(id), created_at, promoted: id != 900, statistics, ..entry })
    };
    let collections = vec![Arc::new(collection("t", segments.map(entry).collect()))];
    Snapshot { collections, ..snapshot() }
}

#[test]
fn columns_come_back_as_they_went() {
    for sent in [snapshot(), diverse(), Snapshot { collections: vec![], ..snapshot() }] {
        let bytes = snapshot_in_columns(&sent).encode_to_vec();
        assert_eq!(Snapshot::try_from(pb::Snapshot::decode(&*bytes).unwrap()).unwrap(), sent);
    }
}

#[test]
fn columns_that_make_no_sense_are_refused() {
    let refused = |change: fn(&mut pb::SegmentColumns)| {
        let mut message = snapshot_in_columns(&diverse());
        change(message.collections[0].segment_columns.as_mut().unwrap());
        Snapshot::try_from(message).unwrap_err().to_string()
    };
    let differ = "collection 't': columns of segments differ in length";
    assert_eq!(refused(|columns| columns.rows.truncate(2)), differ);
    assert_eq!(refused(|columns| columns.ids.push(1)), differ);
    let copies = "collection 't': columns of copies differ in length from what segments have";
    assert_eq!(refused(|columns| columns.copies[0] = u32::MAX), copies);
    assert_eq!(refused(|columns| columns.copy_observed.truncate(1)), copies);
    let ends = "collection 't': names of segments end before their lengths do";
    assert_eq!(refused(|columns| columns.name_lengths[2] = 4), ends);
    let more = "collection 't': columns of segments say more than there are segments";
    assert_eq!(refused(|columns| columns.names.push('x')), more);
    assert_eq!(refused(|columns| columns.before_promotion.push(3)), more);
    assert_eq!(refused(|columns| columns.statistics[0].segment = 7), more);
}

#[test]
fn columns_take_little_room() {
    let name = |at: usize| format!("orders-2026-01-{at:08}");
    let entry = |at: usize| {
        let mut entry = SegmentEntry::clone(&segment(&name(at), Some(CopyState::Online)));
        entry.copies.truncate(1);
        let (id, rows) = (SegmentId(1_000_000 + at as u64), 100_000 + at as u64);
        Arc::new(SegmentEntry { id, rows, bytes: rows * 123, created_at: 1_790_000_000_000_000_000, ..entry })
    };
    let segments: Vec<_> = (0..10_000).map(entry).collect();
    let names: usize = (0..10_000).map(|at| name(at).len()).sum();
    let whole = Snapshot { collections: vec![Arc::new(collection("t", segments))], ..snapshot() };
    let bytes = snapshot_in_columns(&whole).encoded_len() - names;
    assert!(bytes < 10_000 * 20, "{bytes} bytes besides names");
}

proptest! {
    #[test]
    fn a_delta_comes_back_as_it_went(kinds in any::<[bool; 10]>()) {
        let (before, after) = (snapshot(), changed(kinds));
        let mut sent = Delta::between(&before, &after);
        if kinds[0] != kinds[1] {
            sent.switched_off = vec!["n7".parse().unwrap()];
        }
        sent.leader_drops = match (kinds[2], kinds[3]) {
            (true, true) => LeaderDrops::All,
            (drops, _) => LeaderDrops::Of(drops.then_some((CollectionId(7), FeedVersion(3))).into_iter().collect()),
        };
        let bytes = pb::Delta::from(&sent).encode_to_vec();
        let read = Delta::try_from(pb::Delta::decode(&*bytes).unwrap()).unwrap();
        prop_assert_eq!(&read, &sent);
        prop_assert_eq!(before.apply(&read).unwrap(), after);
    }
}

#[test]
fn a_digest_says_whether_two_say_the_same() {
    let digest = |entry: &CollectionEntry| collection_digest(entry);
    let entry = collection("t", vec![segment("a", None)]);
    let told_later = CollectionEntry { version: FeedVersion(99), ..entry.clone() };
    assert_eq!(digest(&entry), digest(&told_later), "the version alone makes no difference");
    let others = [
        CollectionEntry { id: CollectionId(2), ..entry.clone() },
        CollectionEntry { leaders: vec![vec![]], ..entry.clone() },
        collection("t", vec![segment("a", Some(CopyState::Online))]),
        collection("t", vec![]),
    ];
    for other in others {
        assert_ne!(digest(&entry), digest(&other), "{other:?}");
    }
}

/// What one change makes of a lawful snapshot.
fn refused(change: impl FnOnce(&mut pb::Collection)) -> String {
    let mut message = pb::Snapshot::from(&snapshot());
    change(&mut message.collections[0]);
    Snapshot::try_from(message).unwrap_err().to_string()
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let error = refused(|c| c.segments[1].copy_observed.clear());
    assert_eq!(error, "collection 't': the lists of copies of segment 'b' differ in length");
    let error = refused(|c| c.segments[0].shard = 9);
    assert_eq!(error, "collection 't': segment 'a' points at something that is not there");
    assert_eq!(refused(|c| c.segments.swap(0, 1)), "collection 't': segments are out of order");
    let error = refused(|c| c.columns.push(c.columns[0].clone()));
    assert_eq!(error, "collection 't': column 'x' stands twice");
}

/// What one change makes of a lawful delta that changes the copies of a segment and brings a collection.
fn refused_delta(change: impl FnOnce(&mut pb::Delta)) -> String {
    let mut kinds = [false; 10];
    (kinds[4], kinds[8]) = (true, true);
    let mut message = pb::Delta::from(&Delta::between(&snapshot(), &changed(kinds)));
    change(&mut message);
    Delta::try_from(message).unwrap_err().to_string()
}

#[test]
fn a_delta_that_makes_no_sense_is_refused_by_name() {
    let error = refused_delta(|d| d.changed[0].copies[0].copy_nodes.push(3));
    assert_eq!(error, "collection 't': the lists of copies of segment 'b' differ in length");
    let error = refused_delta(|d| d.whole[0].segments[0].partition = 7);
    assert_eq!(error, "collection 'n': segment 'z' points at something that is not there");
    assert_eq!(refused_delta(|d| d.changed.push(d.changed[0].clone())), "a delta names collection 't' twice");
    assert!(refused_delta(|d| d.cluster = "a b".into()).contains("cluster name"));
}

#[test]
fn a_change_of_copies_costs_what_it_changes() {
    let name = |at: usize| format!("orders-2026-01-{at:08}");
    let held = |seen: &dyn Fn(usize) -> bool| {
        let state = |at| Some(if seen(at) { CopyState::Online } else { CopyState::Offline });
        Snapshot {
            collections: vec![Arc::new(collection(
                "t",
                (0..10_000).map(|at| segment(&name(at), state(at))).collect(),
            ))],
            ..snapshot()
        }
    };
    let (before, after) =
        (held(&|_| false), Snapshot { version: FeedVersion(5), ..held(&|at| at % 100 == 7) });
    let delta = pb::Delta::from(&Delta::between(&before, &after)).encoded_len();
    let whole = pb::Snapshot::from(&after).encoded_len();
    assert!(delta < 100 * 64, "{delta} bytes of {whole}");
}
