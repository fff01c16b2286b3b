//! Changes of large collections: an exclusion among 1,000,000 segments on 1,000 nodes (within 15 ms, the figures of
//! replica health included), and an assignment change of 100 segments, which costs as the 100: compare
//! `change_100_of/1000000` with `change_100_of/10000`.

mod cluster;

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pointsman_ids::catalog::SelectorKind;
use pointsman_instance_selector::{Edit, Nodes, Request, SegmentInput, States, select};

const NODES: u32 = 1_000;

fn exclusion(criterion: &mut Criterion) {
    let nodes = cluster::nodes(NODES);
    let states = cluster::states(SelectorKind::Balanced, 1_000_000, &nodes);
    let mut group = criterion.benchmark_group("exclude_one_of_1000_nodes");
    group.bench_function("nodes", |bencher| {
        bencher.iter(|| black_box(nodes.with_unhealthy(|name| name.as_str() == "n0500")));
    });
    group.sample_size(20);
    group.bench_function("nodes_and_health_of_1000000_segments", |bencher| {
        bencher.iter(|| {
            let nodes = nodes.with_unhealthy(|name| name.as_str() == "n0500");
            black_box(states.health(&nodes))
        });
    });
    group.finish();
}

/// The 99th of 100 latencies of a request for 1,000 segments, with nothing else going on and while nodes are excluded and
/// included without a pause, figures of health included.
fn readers(criterion: &mut Criterion) {
    const REQUESTS: u32 = 2_000;
    let nodes = cluster::nodes(NODES);
    let states = cluster::states(SelectorKind::Balanced, 1_000_000, &nodes);
    let list: Vec<u32> = (0..1_000).map(|at| at * 1_000).collect();
    let published = ArcSwap::from_pointee(nodes.clone());
    let p99 = || {
        let mut latencies: Vec<_> = (0..REQUESTS)
            .map(|id| {
                let start = Instant::now();
                black_box(select(&states, &published.load(), &Request::these(&list, id.into())).is_ok());
                start.elapsed()
            })
            .collect();
        latencies.sort_unstable();
        latencies[latencies.len() * 99 / 100]
    };
    let mut group = criterion.benchmark_group("p99_of_1000_segments");
    group.sample_size(10);
    for (name, excluding) in [("still", false), ("during_exclusions", true)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let stop = AtomicBool::new(!excluding);
                let exclude = || {
                    for out in (0..NODES).cycle().take_while(|_| !stop.load(Relaxed)) {
                        let out = format!("n{out:04}");
                        let nodes = nodes.with_unhealthy(|name| name.as_str() == out);
                        black_box(states.health(&nodes));
                        published.store(Arc::new(nodes));
                    }
                };
                thread::scope(|scope| {
                    scope.spawn(exclude);
                    let sum = (0..iterations).map(|_| p99()).sum();
                    stop.store(true, Relaxed);
                    sum
                })
            });
        });
    }
    group.finish();
}

fn assignment(criterion: &mut Criterion) {
    let nodes = cluster::nodes(NODES);
    for selector in [SelectorKind::Balanced, SelectorKind::StrictReplicaGroup] {
        let mut group = criterion.benchmark_group(format!("change_100_of/{}", selector.as_str()));
        for segments in [10_000, 1_000_000] {
            let states = cluster::states(selector, segments, &nodes);
            group.bench_with_input(BenchmarkId::from_parameter(segments), &states, |bencher, states| {
                bencher.iter(|| black_box(change(states, segments, &nodes)));
            });
        }
        group.finish();
    }
}

/// Moves 100 segments that stand apart from each other.
fn change(states: &States, segments: u32, nodes: &Nodes) -> States {
    let moved: Vec<_> = (0..100).map(|at| (at * (segments / 100), cluster::copies(at + 7, NODES))).collect();
    let edits = moved.iter().map(|(at, copies)| Edit::Set {
        at: *at,
        segment: SegmentInput { promoted: true, age: Duration::ZERO, copies },
    });
    states.change(nodes, edits, Duration::ZERO).expect("the positions are there")
}

fn build(criterion: &mut Criterion) {
    let nodes = cluster::nodes(NODES);
    let mut group = criterion.benchmark_group("build");
    group.sample_size(10);
    group.bench_function("100000_segments", |bencher| {
        bencher.iter(|| cluster::states(SelectorKind::Balanced, 100_000, &nodes));
    });
    group.finish();
}

criterion_group!(benches, exclusion, readers, assignment, build);
criterion_main!(benches);
