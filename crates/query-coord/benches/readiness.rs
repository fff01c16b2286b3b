//! Load percentages of 1,000,000 segments in 16 shards and 4 replicas, beside their floor: a loop that reads the same
//! arrays once. `percentages` is at most 4 times `floor` of the same group.

use std::{collections::BTreeSet, hint::black_box};

use criterion::{Criterion, criterion_group, criterion_main};
use pointsman_ids::{
    CollectionId, GroupName, NodeId, NodeName, PartitionName, ReplicaId, SegmentId, ShardName, TargetVersion,
    catalog::shard_name,
};
use pointsman_query_coord::{
    Distribution, FailedLoads, KnownNode, KnownNodes, LeaderReport, LeaderView, LoadKind, LoadRecord,
    LoadStatus, PartitionLoad, Registrations, Replica, Replicas, Target, TargetSegment, Targets, Wired,
    answers::{readiness, replica_percentages},
};

const SEGMENTS: u64 = 1_000_000;
const SHARDS: u32 = 16;
const REPLICAS: u64 = 4;
const COLLECTION: CollectionId = CollectionId(1);

/// The stores of one collection.
struct Stores {
    registrations: Registrations,
    replicas: Replicas,
    targets: Targets,
    distribution: Distribution,
    nodes: KnownNodes,
    failed_loads: FailedLoads,
}

/// Which segments the leaders of a shard in one replica list, one list per leader.
type Views = fn(&[SegmentId]) -> Vec<Vec<SegmentId>>;

fn whole(segments: &[SegmentId]) -> Vec<Vec<SegmentId>> {
    vec![segments.to_vec()]
}

/// A fixed scramble, so that gaps follow no pattern.
fn scrambled(id: SegmentId) -> u64 {
    id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

/// One in four is missing.
fn with_gaps(segments: &[SegmentId]) -> Vec<Vec<SegmentId>> {
    vec![segments.iter().copied().filter(|id| !scrambled(*id).is_multiple_of(4)).collect()]
}

/// Each of two leaders lists about half.
fn two_halves(segments: &[SegmentId]) -> Vec<Vec<SegmentId>> {
    let half = |of: u64| segments.iter().copied().filter(|id| scrambled(*id) % 2 == of).collect();
    vec![half(0), half(1)]
}

/// Two nodes per replica, the first of which leads everything where there is one leader per shard.
fn node(replica: u64, at: u64) -> (NodeName, NodeId) {
    let id = replica * 2 + at;
    (NodeName::new(&format!("n{id}")).expect("a lawful name"), NodeId(id))
}

fn target() -> Target {
    let shards: Vec<ShardName> = (0..SHARDS).map(shard_name).collect();
    let partition = PartitionName::new("p").expect("a lawful name");
    let segments = (0..SEGMENTS).map(|id| TargetSegment {
        id: SegmentId(id),
        partition: partition.clone(),
        shard: shards[usize::try_from(id % u64::from(SHARDS)).expect("few shards")].clone(),
    });
    Target::new(COLLECTION, TargetVersion(1), shards.clone(), [], segments)
}

impl Stores {
    fn new(target: Target, views: Views) -> Self {
        let mut distribution = Distribution::default();
        for replica in 0..REPLICAS {
            for shard in &target.shards {
                for (segments, at) in views(&shard.segments).into_iter().zip(0..) {
                    let (node, node_id) = node(replica, at);
                    distribution.insert(LeaderReport {
                        view: LeaderView::new(segments.into_iter().map(|id| (id, node.clone()))),
                        node,
                        node_id,
                        collection: COLLECTION,
                        shard: shard.name.clone(),
                        version: 1,
                        target_version: target.version,
                        serviceable: true,
                    });
                }
            }
        }
        let replica = |id| Replica {
            id: ReplicaId(id),
            collection: COLLECTION,
            group: GroupName::default_group(),
            nodes: BTreeSet::from([node(id, 0).0, node(id, 1).0]),
            ro_nodes: BTreeSet::new(),
            query_visible: true,
            finished: true,
            waits_for_group_since: None,
        };
        let known = |id: u64| {
            let (name, id) = node(id / 2, id % 2);
            (name, KnownNode { id, address: "http://127.0.0.1:1".to_owned(), stopping: false })
        };
        let mut targets = Targets::default();
        targets.set_current(target);
        Self {
            registrations: [record()].into_iter().collect(),
            replicas: (0..REPLICAS).map(replica).collect(),
            targets,
            distribution,
            nodes: (0..REPLICAS * 2).map(known).collect(),
            failed_loads: FailedLoads::default(),
        }
    }

    fn wired(&self) -> Wired<'_> {
        Wired {
            registrations: Some(&self.registrations),
            replicas: Some(&self.replicas),
            groups: None,
            targets: Some(&self.targets),
            distribution: Some(&self.distribution),
            nodes: Some(&self.nodes),
            failed_loads: Some(&self.failed_loads),
        }
    }

    /// The least that percentages do: reads the target and every view once.
    fn floor(&self) -> u64 {
        let current = self.targets.current(COLLECTION).into_iter().flat_map(|target| &target.shards);
        let lists = current.map(|shard| shard.segments.as_slice());
        let views = self.distribution.iter().map(|leader| leader.view.segments());
        let sum = |list: &[SegmentId]| list.iter().fold(0, |sum: u64, id| sum.wrapping_add(id.0));
        lists.chain(views).map(sum).fold(0, u64::wrapping_add)
    }
}

fn record() -> LoadRecord {
    let partition = PartitionLoad { status: LoadStatus::Loaded, percent: 100, created_at: 0, updated_at: 0 };
    LoadRecord {
        collection: COLLECTION,
        replicas: 4,
        kind: LoadKind::Collection,
        status: LoadStatus::Loaded,
        percent: 100,
        created_at: 0,
        updated_at: 0,
        recoveries: 0,
        replicas_chosen: true,
        partitions: [(PartitionName::new("p").expect("a lawful name"), partition)].into_iter().collect(),
    }
}

fn percentages(criterion: &mut Criterion) {
    let target = target();
    let cases: [(&str, Views); 3] =
        [("whole_views", whole), ("views_with_gaps", with_gaps), ("two_leaders_per_shard", two_halves)];
    for (name, views) in cases {
        let stores = Stores::new(target.clone(), views);
        let mut group = criterion.benchmark_group(name);
        group.sample_size(30);
        group.bench_function("floor", |bencher| bencher.iter(|| black_box(black_box(&stores).floor())));
        group.bench_function("percentages", |bencher| {
            bencher.iter(|| black_box(replica_percentages(&black_box(&stores).wired(), COLLECTION, None)));
        });
        group.bench_function("readiness", |bencher| {
            bencher.iter(|| black_box(readiness(&black_box(&stores).wired(), COLLECTION, None)));
        });
        group.finish();
    }
}

criterion_group!(benches, percentages);
criterion_main!(benches);
