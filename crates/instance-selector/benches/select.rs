//! `select` of 10,000 segments with 3 replicas on 30 nodes, beside its floor: a loop that only reads candidate arrays and
//! writes the grouped ids. The names that begin alike belong together: `balanced/select` is at most 3 times
//! `balanced/floor`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench that cannot run ends by panicking; it prints figures"
)]

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
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pointsman_ids::catalog::SelectorKind;
use pointsman_instance_selector::{Edit, Nodes, Request, SegmentInput, States, select};

const SEGMENTS: u32 = 10_000;
const NODES: u32 = 30;

/// How long two threads select in one turn, and how many turns they have, without changes and with them.
const TURN: Duration = Duration::from_millis(200);
const TURNS: usize = 30;

/// The least that a selection does: reads the candidates of every segment and writes its id to the list of a node.
struct Floor {
    candidates: Vec<[u32; 3]>,
    lists: Vec<Vec<u32>>,
}

impl Floor {
    fn new() -> Self {
        let candidates = (0..SEGMENTS).map(|at| cluster::copies(at, NODES).map(|copy| copy.node.0)).collect();
        Self { candidates, lists: vec![Vec::with_capacity(SEGMENTS as usize); NODES as usize] }
    }

    /// Takes the candidate that `turn` tells for each segment.
    fn run(&mut self, mut turn: impl FnMut() -> usize) {
        self.lists.iter_mut().for_each(Vec::clear);
        for (segment, candidates) in (0..).zip(&self.candidates) {
            self.lists[candidates[turn()] as usize].push(segment);
        }
    }
}

fn selectors(criterion: &mut Criterion) {
    let nodes = cluster::nodes(NODES);
    let one_out = nodes.with_unhealthy(|name| name.as_str() == "n0007");
    let list: Vec<u32> = (0..SEGMENTS).collect();
    for (name, selector) in
        [("balanced", SelectorKind::Balanced), ("replica_group", SelectorKind::ReplicaGroup)]
    {
        let states = cluster::states(selector, SEGMENTS, &nodes);
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(SEGMENTS.into()));
        let mut floor = Floor::new();
        group.bench_function("floor", |bencher| {
            let mut next = 0;
            let step = usize::from(selector == SelectorKind::Balanced);
            bencher.iter(|| {
                floor.run(|| {
                    next = if next + step >= 3 { 0 } else { next + step };
                    next
                });
                black_box(&mut floor.lists);
            });
        });
        let mut id = 0;
        let mut run = |name: &str, nodes, request: Request<'_>| {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    id += 1;
                    black_box(select(&states, nodes, &Request { id, ..request }))
                });
            });
        };
        run("select", &nodes, Request::all(0));
        run("select_from_a_list", &nodes, Request::these(&list, 0));
        run("select_with_one_node_out", &one_out, Request::all(0));
        group.finish();
    }
}

/// Two threads that select, without changes and with 100 a second: at least 0.9 of the throughput. Both cases take short
/// turns, so that what else the machine does falls on both.
fn under_change(_: &mut Criterion) {
    let nodes = cluster::nodes(NODES);
    let states = ArcSwap::from_pointee(cluster::states(SelectorKind::Balanced, SEGMENTS, &nodes));
    let (mut still, mut changing) = (vec![], vec![]);
    for _ in 0..TURNS {
        still.push(selected_per_second(&states, &nodes, false));
        changing.push(selected_per_second(&states, &nodes, true));
    }
    for (name, mut rates) in [("still", still), ("under_100_changes_a_second", changing)] {
        rates.sort_unstable_by(f64::total_cmp);
        let median = rates[rates.len() / 2] / 1e6;
        println!("{{\"figure\":\"{name}\",\"value\":{median},\"unit\":\"segments/us\"}}");
    }
}

/// What two threads select in one turn.
fn selected_per_second(states: &ArcSwap<States>, nodes: &Nodes, changes: bool) -> f64 {
    let stop = AtomicBool::new(!changes);
    thread::scope(|scope| {
        scope.spawn(|| swap(states, nodes, &stop));
        let began = Instant::now();
        let select_all = move || {
            let mut requests = 0;
            while began.elapsed() < TURN {
                black_box(select(&states.load(), nodes, &Request::all(requests)).is_ok());
                requests += 1;
            }
            requests
        };
        let readers = [scope.spawn(select_all), scope.spawn(select_all)];
        let requests: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        let took = began.elapsed();
        stop.store(true, Relaxed);
        requests as f64 * f64::from(SEGMENTS) / took.as_secs_f64()
    })
}

/// Changes one segment after the other, 100 times a second.
fn swap(states: &ArcSwap<States>, nodes: &Nodes, stop: &AtomicBool) {
    let tick = Duration::from_millis(10);
    let mut next = Instant::now();
    for at in (0..SEGMENTS).cycle() {
        if stop.load(Relaxed) {
            return;
        }
        let copies = cluster::copies(at + 1, NODES);
        let segment = SegmentInput { promoted: true, age: Duration::ZERO, copies: &copies };
        let changed = states.load().change(nodes, [Edit::Set { at, segment }], Duration::ZERO);
        states.store(Arc::new(changed.expect("the position is there")));
        next += tick;
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
}

criterion_group!(benches, selectors, under_change);
criterion_main!(benches);
