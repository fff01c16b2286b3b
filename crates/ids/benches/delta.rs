//! What a change of the feed costs: the copies of 100 segments in a collection of 100,000 and of 1,000,000. Applying it
//! costs as the 100; finding it costs a pass over what is not shared.
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has failed")]

use std::{hint::black_box, sync::Arc};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pointsman_ids::{
    CollectionId, FeedVersion, GroupNumber, NodeId, ReplicaId, SegmentId,
    catalog::RoutingOptions,
    feed::{CollectionEntry, CopyEntry, CopyState, Delta, LoadState, ReplicaEntry, SegmentEntry, Snapshot},
};

/// How many segments change.
const CHANGED: usize = 100;

fn copies(node: u64) -> Vec<CopyEntry> {
    let online = Some(CopyState::Online);
    let copy = |replica: u32| CopyEntry {
        node: NodeId(node + u64::from(replica)),
        replica,
        assigned: online,
        observed: online,
    };
    (0..2).map(copy).collect()
}

fn segment(at: u64) -> Arc<SegmentEntry> {
    Arc::new(SegmentEntry {
        id: SegmentId(at),
        name: format!("orders-2026-01-{at:08}").parse().unwrap(),
        partition: 0,
        shard: 0,
        rows: 1_000_000,
        bytes: 100_000_000,
        created_at: 1,
        promoted: true,
        statistics: Arc::default(),
        copies: copies(at % 97),
    })
}

fn snapshot(segments: u64) -> Snapshot {
    let replica = |id| ReplicaEntry { id: ReplicaId(id), group: GroupNumber(1) };
    let collection = CollectionEntry {
        name: "orders".parse().unwrap(),
        id: CollectionId(1),
        version: FeedVersion(1),
        routing: RoutingOptions::default(),
        query_timeout: None,
        key: None,
        vector_indexes: Vec::new(),
        clusters: vec![],
        columns: vec![],
        partitions: vec!["default".parse().unwrap()],
        shards: vec!["shard-0".parse().unwrap()],
        load: LoadState::Serving,
        finished_groups: vec![],
        replicas: vec![replica(1), replica(2)],
        segments: (0..segments).map(segment).collect(),
        leaders: vec![vec![]],
    };
    Snapshot {
        version: FeedVersion(1),
        collections: vec![Arc::new(collection)],
        ..Snapshot::empty("local".parse().unwrap())
    }
}

/// The next version, in which segments all over the collection have other copies.
fn changed(before: &Snapshot) -> Snapshot {
    let version = FeedVersion(before.version.0 + 1);
    let mut after = Snapshot { version, ..before.clone() };
    let entry = Arc::make_mut(&mut after.collections[0]);
    entry.version = version;
    let step = entry.segments.len() / CHANGED;
    for at in (0..entry.segments.len()).step_by(step) {
        let known = SegmentEntry::clone(&entry.segments[at]);
        entry.segments.set(at, Arc::new(SegmentEntry { copies: copies(200 + version.0), ..known }));
    }
    after
}

fn bench(criterion: &mut Criterion) {
    for segments in [100_000, 1_000_000] {
        let first = snapshot(segments);
        let second = changed(&first);
        let delta = Delta::between(&first, &second);
        let next = Delta::between(&second, &changed(&second));
        let mut group = criterion.benchmark_group("100_copies_of");
        group.sample_size(20);
        group.bench_function(BenchmarkId::new("apply", segments), |b| {
            b.iter(|| black_box(first.apply(&delta)))
        });
        group.bench_function(BenchmarkId::new("between", segments), |b| {
            b.iter(|| black_box(Delta::between(&first, &second)));
        });
        group.bench_function(BenchmarkId::new("then", segments), |b| b.iter(|| black_box(delta.then(&next))));
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
