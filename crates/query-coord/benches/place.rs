//! Placement of 100,000 segments over 100 nodes, and of those of one node that is lost: the latter costs what that node
//! had, in a cluster of 10,000 segments over 10 nodes as well as in the large one. So does what 100 reports change.

use std::{collections::BTreeSet, hint::black_box};

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use pointsman_ids::{
    CollectionId, CollectionName, GroupName, Incarnation, NodeId, NodeName, ReplicaId, SegmentId,
    SegmentName, TargetVersion,
    catalog::{Checksum, Collection, CollectionOptions, NewSegment, Segment, shard_name},
    feed::CollectionEntry,
};
use pointsman_query_coord::{
    CatalogSegment, CollectionStore, LoadKind, LoadRecord, LoadStatus, NodeRecord, Observation,
    PartitionLoad, Replica, SegmentReport, SessionState, Stores, Target, collection_change, collection_entry,
    place, wish,
};

/// Segments per node.
const OF_A_NODE: u64 = 1_000;
const SHARDS: u32 = 8;
const COLLECTION: CollectionId = CollectionId(1);

fn name(at: u64) -> NodeName {
    NodeName::new(&format!("n{at:03}")).expect("a lawful name")
}

fn segment(id: u64) -> Segment {
    let shard = shard_name(u32::try_from(id).expect("few segments") % SHARDS);
    // Sizes differ and follow no pattern.
    let rows = 1_000 + (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48);
    let content = NewSegment {
        name: SegmentName::new(&format!("s{id:07}")).expect("a lawful name"),
        partition: "default".parse().expect("a lawful name"),
        shard: Some(shard.clone()),
        object: format!("t/s{id}.parquet"),
        rows,
        bytes: rows * 10,
        checksum: Checksum([7; 32]),
        statistics: [].into(),
    };
    Segment { id: SegmentId(id), collection: COLLECTION, shard, created_at: 1, content }
}

/// A cluster of so many nodes in which a collection is loaded once, and nothing has a place.
fn cluster(nodes: u64) -> Stores {
    let mut stores = Stores::default();
    for at in 1..=nodes {
        let record = NodeRecord {
            name: name(at),
            incarnation: Incarnation(1),
            id: NodeId(at),
            switched_on: true,
            labels: [].into(),
        };
        stores.nodes.insert(name(at), record);
        let observation = Observation {
            id: NodeId(at),
            incarnation: Incarnation(1),
            address: format!("http://127.0.0.1:{at}"),
            state: SessionState::Live,
            memory: None,
            reported: true,
        };
        stores.observed.insert(name(at), observation);
    }
    let table = CollectionName::new("t").expect("a lawful name");
    let options = CollectionOptions { shards: SHARDS, ..CollectionOptions::default() };
    let collection =
        Collection { id: COLLECTION, name: table.clone(), columns: vec![], options, created_at: 1 };
    let mut store = CollectionStore::new(collection);
    (1..=nodes * OF_A_NODE).for_each(|id| store.insert(segment(id)));
    stores.names.insert(table, COLLECTION);
    stores.replicas.insert(Replica {
        id: ReplicaId(1),
        collection: COLLECTION,
        group: GroupName::default_group(),
        nodes: (1..=nodes).map(name).collect(),
        ro_nodes: BTreeSet::new(),
        query_visible: true,
        finished: false,
        waits_for_group_since: None,
    });
    let partition = PartitionLoad { status: LoadStatus::Loading, percent: 0, created_at: 1, updated_at: 1 };
    stores.loads.insert(LoadRecord {
        collection: COLLECTION,
        replicas: 1,
        kind: LoadKind::Collection,
        status: LoadStatus::Loading,
        percent: 0,
        created_at: 1,
        updated_at: 1,
        recoveries: 0,
        replicas_chosen: true,
        partitions: [("default".parse().expect("a lawful name"), partition)].into(),
    });
    let segments = store.segments.values().map(CatalogSegment::in_target);
    let target = Target::new(
        COLLECTION,
        TargetVersion(1),
        store.shards(),
        ["default".parse().expect("a name")],
        segments,
    );
    stores.targets.set_current(target);
    stores.collections.insert(COLLECTION, store);
    stores
}

fn decide(stores: &mut Stores) {
    let changes = stores.changes();
    place(stores, &changes, false);
    let changes = stores.changes();
    black_box(wish(stores, &changes));
}

/// The same, in which every node holds what it should.
fn settled(nodes: u64) -> Stores {
    let mut stores = cluster(nodes);
    decide(&mut stores);
    for node in stores.whereabouts.indexes().collect::<Vec<_>>() {
        for segment in stores.whereabouts.on(node).collect::<Vec<_>>() {
            stores.whereabouts.report(node, segment, Some(SegmentReport::Held));
        }
    }
    decide(&mut stores);
    decide(&mut stores);
    stores
}

/// What brokers are told when 100 segments of one node are there no more.
fn report(stores: &mut Stores, told: &CollectionEntry) -> CollectionEntry {
    let node = stores.whereabouts.index(name(1).as_str()).expect("a node");
    for segment in stores.whereabouts.on(node).take(100).collect::<Vec<_>>() {
        stores.whereabouts.report(node, segment, Some(SegmentReport::Fetching));
    }
    let changes = stores.changes();
    place(stores, &changes, false);
    wish(stores, &changes);
    let change =
        collection_change(stores, told, changes.of(COLLECTION).expect("a change")).expect("a collection");
    assert_eq!(change.copies.len(), 100);
    told.apply(&change).expect("a change that fits")
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("place");
    group.sample_size(10);
    let empty = cluster(100);
    group.bench_function("100000_segments_over_100_nodes", |bencher| {
        bencher.iter_batched_ref(|| empty.clone(), decide, BatchSize::PerIteration);
    });
    for nodes in [10, 100] {
        let settled = settled(nodes);
        let mut lost = settled.clone();
        lost.observed.get_mut(name(1).as_str()).expect("a node").state = SessionState::Lost;
        group.bench_function(BenchmarkId::new("a_lost_node_of", nodes), |bencher| {
            bencher.iter_batched_ref(|| lost.clone(), decide, BatchSize::PerIteration);
        });
        let told = collection_entry(&settled, COLLECTION).expect("no contradiction").expect("a collection");
        group.bench_function(BenchmarkId::new("100_reports_of", nodes), |bencher| {
            bencher.iter_batched_ref(
                || settled.clone(),
                |stores| report(stores, &told),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
