//! The coordinator and the nodes, as the scenario says.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, ErrorClass, ErrorCode, NodeId};
use pointsman_shard_client::{
    Connect, Coordinator, Reply, Request, Result, Runtime, ShardError, ShardListing, VirtualRuntime, Visit,
};

use super::scenario::{CoordinatorAnswer, NodeOutcome, Scenario};

/// Everything outside the client.
#[derive(Debug)]
pub(super) struct World {
    runtime: VirtualRuntime,
    coordinator: BTreeMap<CollectionId, Vec<CoordinatorAnswer>>,
    nodes: BTreeMap<NodeId, Vec<NodeOutcome>>,
    /// Calls of the coordinator that have begun.
    calls: AtomicU64,
    progress: Mutex<Progress>,
}

/// How far the lists have been used up.
#[derive(Debug, Default)]
struct Progress {
    answers: BTreeMap<CollectionId, usize>,
    outcomes: BTreeMap<(CollectionId, Arc<str>, NodeId), usize>,
    /// What health checks are told; a node that is not listed is healthy.
    probes: BTreeMap<NodeId, bool>,
}

/// The next of a list whose last item repeats.
fn next<'a, T>(list: &'a [T], used: &mut usize) -> Option<&'a T> {
    let item = list.get(*used).or(list.last());
    *used += 1;
    item
}

impl World {
    pub(super) fn new(scenario: &Scenario, runtime: VirtualRuntime) -> Self {
        let (coordinator, nodes) = (scenario.coordinator.clone(), scenario.nodes.clone());
        Self { runtime, coordinator, nodes, calls: AtomicU64::default(), progress: Mutex::default() }
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn set_probes(&self, probes: BTreeMap<NodeId, bool>) {
        self.progress.lock().probes = probes;
    }

    fn answer(&self, collection: CollectionId) -> Option<&CoordinatorAnswer> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut progress = self.progress.lock();
        next(self.coordinator.get(&collection)?, progress.answers.entry(collection).or_default())
    }

    fn outcome(&self, visit: &Visit) -> NodeOutcome {
        const OK: NodeOutcome = NodeOutcome::Answer { after: std::time::Duration::ZERO, error: None };
        let Some(outcomes) = self.nodes.get(&visit.node) else { return OK };
        let place = (visit.collection, visit.shard.clone(), visit.node);
        next(outcomes, self.progress.lock().outcomes.entry(place).or_default()).copied().unwrap_or(OK)
    }
}

impl Coordinator for World {
    fn shard_leaders(&self, collection: CollectionId) -> BoxFuture<'_, Result<Vec<ShardListing>>> {
        let answer = self.answer(collection);
        Box::pin(async move {
            let Some(answer) = answer else { return Ok(Vec::new()) };
            self.runtime.sleep_until(self.runtime.now() + answer.after).await;
            answer.told.clone().map_err(says_so)
        })
    }
}

/// Connects to every node; whether one can be reached is told by its outcomes.
#[derive(Debug)]
pub(super) struct Network(pub(super) Arc<World>);

/// A connection: to whom, and where.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    node: NodeId,
    address: Arc<str>,
}

impl Connect for Network {
    type Connection = Connection;

    fn connect(&self, node: NodeId, address: Arc<str>) -> BoxFuture<'static, Result<Connection>> {
        Box::pin(async move { Ok(Connection { node, address }) })
    }

    fn check(&self, connection: Connection) -> BoxFuture<'static, Result<bool>> {
        let is_healthy = self.0.progress.lock().probes.get(&connection.node).copied().unwrap_or(true);
        Box::pin(async move { Ok(is_healthy) })
    }
}

/// A try of a request on a node.
#[derive(Clone, Debug)]
pub(super) struct Try {
    pub(super) at: MonoTime,
    pub(super) shard: Arc<str>,
    pub(super) node: NodeId,
    pub(super) address: Arc<str>,
    pub(super) outcome: NodeOutcome,
}

/// A request, and where it went.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) world: Arc<World>,
    /// In their order.
    pub(super) tries: Mutex<Vec<Try>>,
}

impl Request<Connection> for Tracked {
    type Answer = ();

    fn run<'a>(&'a self, connection: Connection, visit: &'a Visit) -> BoxFuture<'a, Result<Reply<()>>> {
        Box::pin(async move {
            let outcome = self.world.outcome(visit);
            let at = self.world.runtime.now();
            let Connection { node, address } = connection;
            self.tries.lock().push(Try { at, shard: visit.shard.clone(), node, address, outcome });
            if let NodeOutcome::Unreachable = outcome {
                return Err(says_so(ErrorCode::NodeNotAvailable));
            }
            let NodeOutcome::Answer { after, error } = outcome else { return std::future::pending().await };
            let runtime = &self.world.runtime;
            runtime.sleep_until(runtime.now() + after).await;
            let Some((code, is_input)) = error else { return Ok(().into()) };
            let class = match is_input {
                Some(true) => ErrorClass::Input,
                Some(false) => ErrorClass::System,
                None => code.class(),
            };
            Err(says_so(code).with_class(class))
        })
    }
}

fn says_so(code: ErrorCode) -> ShardError {
    ShardError::new(code, "the scenario says so")
}
