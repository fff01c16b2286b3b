//! A cold coordinator in a process of its own, with a million segments in PostgreSQL, 100 simulated nodes and 10 simulated
//! brokers over real gRPC. Segments have no statistics of columns, and two replicas. Figures are told as lines of JSON.
//!
//! Nodes obey at once and brokers only look at what they get, so that what is measured is the coordinator, beside a
//! database and them on the same machine. The first argument says another number of segments.

#![expect(clippy::print_stdout, reason = "a benchmark tells its figures")]

mod broker;
mod node;
mod store;
mod world;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use pointsman_testkit::{Postgres, resident_bytes};

use crate::{
    broker::{Broker, Told},
    node::Node,
    world::{REPLICAS, World},
};

/// Segments, unless the first argument says another number.
const MANY: u32 = 1_000_000;

const NODES: usize = 100;

const BROKERS: usize = 10;

/// Segments that change at once.
const CHANGED: usize = 100;

/// Changes that are timed.
const CHANGES: usize = 200;

/// Pushes of new segments that are timed.
const PUSHES: u32 = 10;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> anyhow::Result<()> {
    let many = std::env::args().nth(1).and_then(|argument| argument.parse().ok()).unwrap_or(MANY);
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(many))
}

fn tell(figure: &str, value: f64, unit: &str) {
    println!("{}", serde_json::json!({ "figure": figure, "value": value, "unit": unit }));
}

async fn measure(many: u32) -> anyhow::Result<()> {
    let server = Postgres::start()?;
    store::fill(&server.url(), many).await?;
    let world = World::new(&server.url())?;
    let nodes: Vec<Node> = (0..NODES).map(|at| Node::start(at, world.channel())).collect();

    let mut coordinator = world.start()?;
    world.nodes(NODES, PATIENCE).await?;
    let begin = Instant::now();
    world.load(PATIENCE).await?;
    tell("load", begin.elapsed().as_secs_f64(), "s");
    coordinator.stop()?;

    let begin = Instant::now();
    let coordinator = world.start()?;
    let mut brokers: Vec<Broker> = (0..BROKERS).map(|at| Broker::start(at, world.channel())).collect();
    world.active(PATIENCE).await?;
    tell("cold.active", begin.elapsed().as_secs_f64(), "s");
    world.leaders(PATIENCE).await?;
    tell("cold.leaders", begin.elapsed().as_secs_f64(), "s");
    let mut whole = Vec::new();
    for broker in &mut brokers {
        whole.push(broker.whole(PATIENCE).await?);
    }
    tell("cold.serving", begin.elapsed().as_secs_f64(), "s");

    let copies = f64::from(many) * f64::from(REPLICAS);
    tell("memory", resident_bytes(coordinator.pid())? as f64 / copies, "bytes");
    let snapshot = whole.into_iter().next().context("a broker")?;
    let (names, complete) = broker::names_of(&snapshot)?;
    ensure!(complete == copies as usize, "{complete} copies are observed of {copies}");
    tell("snapshot", (snapshot.len() - names) as f64 / copies, "bytes");

    let mut changes = Vec::new();
    for round in 0..CHANGES {
        changes.push(change(&nodes[round / 2 % NODES], &mut brokers, round % 2 == 1).await?);
    }
    tell("change.p50", quantile(&mut changes, 0.5), "ms");
    tell("change.p99", quantile(&mut changes, 0.99), "ms");
    let mut pushes = Vec::new();
    for round in 0..PUSHES {
        pushes.push(push(&world, &mut brokers, many + round * store::FEW).await?);
    }
    tell("push.p50", quantile(&mut pushes, 0.5), "ms");
    tell("push.max", quantile(&mut pushes, 1.0), "ms");
    tell("memory.after", resident_bytes(coordinator.pid())? as f64 / copies, "bytes");
    Ok(())
}

/// Lets a node lose segments, or have them again: milliseconds until the last broker knows.
async fn change(node: &Node, brokers: &mut [Broker], held: bool) -> anyhow::Result<f64> {
    brokers.iter_mut().for_each(Broker::forget);
    let begin = Instant::now();
    let wanted = node.report(CHANGED, held).await?;
    let mut last = begin;
    for broker in brokers {
        last = last.max(broker.knows(&wanted, Told::Copies, PATIENCE).await?);
    }
    Ok((last - begin).as_secs_f64() * 1e3)
}

/// Pushes new segments: milliseconds until the last broker routes them.
async fn push(world: &World, brokers: &mut [Broker], first: u32) -> anyhow::Result<f64> {
    brokers.iter_mut().for_each(Broker::forget);
    let begin = Instant::now();
    let wanted = world.push(first).await?;
    let mut last = begin;
    for broker in brokers {
        last = last.max(broker.knows(&wanted, Told::New, PATIENCE).await?);
    }
    Ok((last - begin).as_secs_f64() * 1e3)
}

/// The value that `share` of them do not exceed.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}
