//! What a change costs in a collection of 1,000,000 segments, for the writer and for those who read meanwhile.
//!
//! Criterion measures the writer: a delta of 100 segments, and an exclusion. After that readers route requests of 1,000
//! segments, first alone and then beside a writer that does nothing but change; the percentiles of their times are
//! printed.

#![expect(clippy::print_stdout, reason = "the figures are what it is for")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has failed")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use criterion::{Criterion, criterion_group, criterion_main};
use pointsman_failure_detector::{Event, Key};
use pointsman_ids::{
    CollectionId, FeedVersion, GroupNumber, Incarnation, NodeId, NodeKey, ReplicaId, SegmentId,
    catalog::RoutingOptions,
    feed::{
        CollectionChange, CollectionDelta, CollectionEntry, CopiesChange, CopyEntry, CopyState, Delta,
        LoadState, NodeEntry, ReplicaEntry, SegmentEntry, Snapshot,
    },
};
use pointsman_routing::{Core, CoreSettings, RouteRequest, RoutingView, Wanted};

const SEGMENTS: usize = 1_000_000;

/// A small collection, in which a change should cost about the same.
const FEW_SEGMENTS: usize = 10_000;

const CHANGED: usize = 100;
const REQUESTED: usize = 1_000;
const NODES: u64 = 1_000;
const REPLICAS: u64 = 3;
const READING: Duration = Duration::from_secs(5);

/// Between two changes: many more of them than a cluster ever sees.
const PAUSE: Duration = Duration::from_millis(5);

/// A cluster with one large collection, at some version of its feed.
struct Cluster {
    core: Core,
    segments: usize,
    version: FeedVersion,
    now: Duration,
}

impl Cluster {
    fn new(segments: usize) -> Self {
        let mut core = Core::new(CoreSettings {
            clusters: vec!["home".parse().unwrap()],
            detector: pointsman_failure_detector::Settings::default(),
            new_segment_window: Duration::from_mins(5),
            fail_open: pointsman_instance_selector::FailOpen::default(),
            adaptive: pointsman_instance_selector::AdaptiveSettings::default(),
            started_at: 0,
        })
        .unwrap();
        let snapshot = snapshot(segments);
        let (version, began) = (snapshot.version, Instant::now());
        core.apply(snapshot, Duration::ZERO).unwrap();
        println!("built from a snapshot of {segments} segments in {:?}", began.elapsed());
        Self { core, segments, version, now: Duration::ZERO }
    }

    /// The next change: some segments, spread over all, move between seen and not seen on one node.
    fn delta(&self) -> Delta {
        let after = FeedVersion(self.version.0 + 1);
        let seen = if after.0.is_multiple_of(2) { Some(CopyState::Online) } else { None };
        let first = usize::try_from(after.0 / 2 * 7).unwrap() % (self.segments / CHANGED);
        let changed = (first..self.segments).step_by(self.segments / CHANGED).map(|at| {
            let mut copies = copies(at as u64);
            copies[0].observed = seen;
            CopiesChange { segment: name(at).parse().unwrap(), copies }
        });
        let name = "t".parse().unwrap();
        let change = CollectionChange { copies: changed.collect(), ..CollectionChange::empty(name, after) };
        Delta {
            collections: vec![CollectionDelta::Changed(change)],
            ..Delta::empty("home".parse().unwrap(), self.version, after)
        }
    }

    fn apply(&mut self, delta: &Delta) {
        self.core.apply_delta(delta, self.now).unwrap();
        self.version = delta.after;
    }

    /// A node falls out, or comes back.
    fn report(&mut self, well: bool) {
        let key = Key::Node(NodeKey { cluster: "home".parse().unwrap(), node: "n7".parse().unwrap() });
        let evidence = "connection reset".to_owned();
        let event =
            if well { Event::Recovered { key } } else { Event::Failed { key, incarnation: None, evidence } };
        self.core.handle(event, self.now);
    }
}

fn name(at: usize) -> String {
    format!("segment-{at:07}")
}

fn copies(at: u64) -> Vec<CopyEntry> {
    let online = Some(CopyState::Online);
    let copy = |replica: u64| CopyEntry {
        node: NodeId((at + replica * 333) % NODES + 1),
        replica: u32::try_from(replica).unwrap(),
        assigned: online,
        observed: online,
    };
    (0..REPLICAS).map(copy).collect()
}

fn snapshot(segments: usize) -> Snapshot {
    let node = |id: u64| NodeEntry {
        name: format!("n{id}").parse().unwrap(),
        id: NodeId(id),
        address: format!("http://n{id}:1"),
        incarnation: Incarnation(1),
        switched_on: true,
        enabled: true,
        lost: false,
        pool: GroupNumber(0),
    };
    let segment = |at: usize| {
        Arc::new(SegmentEntry {
            id: SegmentId(at as u64),
            name: name(at).parse().unwrap(),
            partition: 0,
            shard: 0,
            rows: 1,
            bytes: 1,
            created_at: 0,
            promoted: true,
            statistics: Arc::default(),
            copies: copies(at as u64),
        })
    };
    let replica = |id| ReplicaEntry { id: ReplicaId(id), group: GroupNumber(0) };
    let entry = CollectionEntry {
        name: "t".parse().unwrap(),
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
        finished_groups: vec![GroupNumber(0)],
        replicas: (0..REPLICAS).map(replica).collect(),
        segments: (0..segments).map(segment).collect(),
        leaders: vec![vec![]],
    };
    Snapshot {
        version: FeedVersion(1),
        nodes: (1..=NODES).map(node).collect(),
        collections: vec![Arc::new(entry)],
        ..Snapshot::empty("home".parse().unwrap())
    }
}

fn writer(criterion: &mut Criterion) {
    deltas(criterion, "a delta of 100 in 10,000 segments", &mut Cluster::new(FEW_SEGMENTS));
    let mut cluster = Cluster::new(SEGMENTS);
    deltas(criterion, "a delta of 100 in 1,000,000 segments", &mut cluster);
    let mut well = true;
    criterion.bench_function("an exclusion or inclusion in 1,000,000 segments", |bench| {
        bench.iter(|| {
            well = !well;
            cluster.report(well);
        });
    });
    readers(&mut cluster);
}

/// Only the applying is measured.
fn deltas(criterion: &mut Criterion, name: &str, cluster: &mut Cluster) {
    criterion.bench_function(name, |bench| {
        bench.iter_custom(|times| {
            let mut taken = Duration::ZERO;
            for _ in 0..times {
                let delta = cluster.delta();
                let began = Instant::now();
                cluster.apply(&delta);
                taken += began.elapsed();
            }
            taken
        });
    });
}

/// Times of requests by a reader: alone, beside deltas, beside exclusions.
fn readers(cluster: &mut Cluster) {
    let view = ArcSwap::new(cluster.core.view().clone());
    read("alone", &view, || Duration::from_millis(1));
    read("beside deltas of 100", &view, || {
        let delta = cluster.delta();
        cluster.apply(&delta);
        view.store(cluster.core.view().clone());
        PAUSE
    });
    let mut well = true;
    read("beside exclusions", &view, || {
        well = !well;
        cluster.report(well);
        view.store(cluster.core.view().clone());
        PAUSE
    });
}

/// Routes requests as fast as it goes on a thread of its own, while this one changes, again and again after the pause
/// that the change asks for.
fn read(what: &str, view: &ArcSwap<RoutingView>, mut change: impl FnMut() -> Duration) {
    let stop = AtomicBool::new(false);
    let (mut times, changes) = thread::scope(|scope| {
        let reader = scope.spawn(|| requests(view, &stop));
        let (began, mut changes) = (Instant::now(), 0u64);
        while began.elapsed() < READING {
            let pause = change();
            changes += 1;
            thread::park_timeout(pause);
        }
        stop.store(true, Ordering::Relaxed);
        (reader.join().unwrap(), changes)
    });
    times.sort_unstable();
    let percentile = |hundredths: usize| times[(times.len() - 1) * hundredths / 10_000];
    let [half, most, nearly_all] = [5_000, 9_900, 9_990].map(percentile);
    println!(
        "requests of {REQUESTED} segments {what}: {} requests, {changes} changes, p50 {half:?}, p99 {most:?}, p99.9 {nearly_all:?}",
        times.len()
    );
    // For `cargo xtask bench`.
    let name = what.replace(' ', "_");
    println!(r#"{{"figure":"p99_of_readers_{name}","value":{},"unit":"us"}}"#, most.as_secs_f64() * 1e6);
}

fn requests(view: &ArcSwap<RoutingView>, stop: &AtomicBool) -> Vec<Duration> {
    let segments: Vec<u32> = (0..).step_by(SEGMENTS / REQUESTED).take(REQUESTED).collect();
    let mut times = vec![];
    while !stop.load(Ordering::Relaxed) {
        let request_id = times.len() as u64;
        let request =
            RouteRequest { segments: Wanted::Positions(&segments), ..RouteRequest::all("t", request_id) };
        let began = Instant::now();
        let table = view.load().route(&request).unwrap();
        times.push(began.elapsed());
        drop(table);
    }
    times
}

criterion_group! {
    name = changes;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(5));
    targets = writer
}
criterion_main!(changes);
