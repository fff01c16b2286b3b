//! A coordinator and nodes in memory, which do what a test says.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, ErrorCode, NodeId};
use pointsman_shard_client::{
    AllRoutable, CollectionWorkload, Connect, Coordinator, Handle, NodeView, Parts, Policy, Reply, Request,
    Result, Runtime, Settings, ShardClient, ShardError, ShardListing, VirtualRuntime, Visit,
    balancer::balancer,
};

pub(crate) const DOCS: CollectionId = CollectionId(31);

/// More timers than any of these tests needs.
pub(crate) const TIMERS: u64 = 1_000_000;

pub(crate) type Client = ShardClient<Network>;

/// What a request does on a node.
pub(crate) type Behaviour = Arc<dyn Fn(&Visit) -> Outcome + Send + Sync>;

/// What becomes of a request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    After(Duration, Result<(), ShardError>),
    Never,
}

impl Outcome {
    pub(crate) fn ok() -> Self {
        Self::After(Duration::ZERO, Ok(()))
    }

    pub(crate) fn error(code: ErrorCode) -> Self {
        Self::error_after(0, code)
    }

    pub(crate) fn error_after(ms: u64, code: ErrorCode) -> Self {
        Self::After(Duration::from_millis(ms), Err(ShardError::new(code, "the node says so")))
    }
}

pub(crate) struct World {
    pub(crate) runtime: VirtualRuntime,
    /// What the coordinator tells, and after which time.
    pub(crate) told: Mutex<(Duration, Result<Vec<ShardListing>>)>,
    pub(crate) calls: AtomicU64,
    pub(crate) behaviour: Mutex<Behaviour>,
    /// Nodes that take no connections, and whose connections are dead.
    pub(crate) down: Mutex<BTreeSet<NodeId>>,
    pub(crate) unhealthy: Mutex<BTreeSet<NodeId>>,
    /// How long connecting takes, and which of the next connections are refused.
    pub(crate) connecting: Mutex<(Duration, VecDeque<bool>)>,
    pub(crate) opened: Mutex<Vec<Connection>>,
    pub(crate) visits: Mutex<Vec<Visit>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            runtime: VirtualRuntime::default(),
            told: Mutex::new((Duration::ZERO, Ok(Vec::new()))),
            calls: AtomicU64::default(),
            behaviour: Mutex::new(Arc::new(|_| Outcome::ok())),
            down: Mutex::default(),
            unhealthy: Mutex::default(),
            connecting: Mutex::default(),
            opened: Mutex::default(),
            visits: Mutex::default(),
        })
    }

    pub(crate) fn client(self: &Arc<Self>, settings: Settings) -> Client {
        self.client_with(settings, Arc::new(AllRoutable))
    }

    pub(crate) fn client_with(self: &Arc<Self>, settings: Settings, view: Arc<dyn NodeView>) -> Client {
        let parts = Parts {
            coordinator: self.clone(),
            connector: Arc::new(Network(self.clone())),
            balancer: balancer(&settings),
            view,
            runtime: Arc::new(self.runtime.clone()),
        };
        let client = ShardClient::new(settings, parts);
        self.runtime.spawn(Box::pin(client.maintenance()));
        client
    }

    /// The coordinator tells this from now on.
    pub(crate) fn tell(&self, shards: &[(&str, &[(u64, &str)])]) {
        self.told.lock().1 = Ok(shards.iter().map(|(shard, leaders)| listing(shard, leaders)).collect());
    }

    pub(crate) fn behave(&self, behaviour: impl Fn(&Visit) -> Outcome + Send + Sync + 'static) {
        *self.behaviour.lock() = Arc::new(behaviour);
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Visited nodes so far, once.
    pub(crate) fn visited(&self) -> Vec<u64> {
        std::mem::take(&mut *self.visits.lock()).iter().map(|visit| visit.node.0).collect()
    }

    /// Runs to the end.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let mut handle = self.runtime.start(work);
        self.finish(&mut handle)
    }

    pub(crate) fn finish<T>(&self, handle: &mut Handle<T>) -> T {
        self.runtime.finish(handle, TIMERS).unwrap().expect("it waits for something that never happens")
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.runtime.advance(Duration::from_millis(ms), TIMERS).unwrap();
    }

    /// Runs a request on all shards.
    pub(crate) fn execute(self: &Arc<Self>, client: &Client, group: &str) -> Result<Vec<(Arc<str>, u64)>> {
        let (client, workload) = (client.clone(), self.workload(group));
        let answers = self.run(async move { client.execute(&workload, None).await })?;
        Ok(answers.into_iter().map(|answered| (answered.shard, answered.node.0)).collect())
    }

    pub(crate) fn workload(self: &Arc<Self>, group: &str) -> CollectionWorkload<Ask> {
        CollectionWorkload {
            database: "default".into(),
            name: "docs".into(),
            collection: DOCS,
            nq: 1,
            request: Arc::new(Ask::new(self.clone())),
            resource_group: group.into(),
            preferred: None,
            preferred_group: "".into(),
        }
    }
}

pub(crate) fn at(ms: u64) -> MonoTime {
    MonoTime::from_start(Duration::from_millis(ms))
}

/// Settings with which visits are exact.
pub(crate) fn in_turn() -> Settings {
    Settings { policy: Policy::RoundRobin, ..Settings::default() }
}

/// Serviceable leaders with their groups.
pub(crate) fn listing(shard: &str, leaders: &[(u64, &str)]) -> ShardListing {
    ShardListing {
        shard: shard.to_owned(),
        node_ids: leaders.iter().map(|(node, _)| *node).collect(),
        node_addrs: leaders.iter().map(|(node, _)| format!("node-{node}:7000")).collect(),
        serviceable: leaders.iter().map(|_| true).collect(),
        resource_groups: leaders.iter().map(|(_, group)| (*group).to_owned()).collect(),
    }
}

impl Coordinator for World {
    fn shard_leaders(&self, _collection: CollectionId) -> BoxFuture<'_, Result<Vec<ShardListing>>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let (after, told) = self.told.lock().clone();
        Box::pin(async move {
            self.runtime.sleep_until(self.runtime.now() + after).await;
            told
        })
    }
}

#[derive(Debug)]
pub(crate) struct Network(Arc<World>);

#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) node: NodeId,
    pub(crate) address: Arc<str>,
    /// Which of all that were opened.
    pub(crate) number: usize,
    pub(crate) dead: Arc<AtomicBool>,
}

impl Connect for Network {
    type Connection = Connection;

    fn connect(&self, node: NodeId, address: Arc<str>) -> BoxFuture<'static, Result<Connection>> {
        let world = self.0.clone();
        let (takes, refused) = {
            let mut connecting = world.connecting.lock();
            (connecting.0, connecting.1.pop_front() == Some(true))
        };
        Box::pin(async move {
            world.runtime.sleep_until(world.runtime.now() + takes).await;
            if refused || world.down.lock().contains(&node) {
                return Err(ShardError::foreign("connection refused"));
            }
            let mut opened = world.opened.lock();
            let connection = Connection { node, address, number: opened.len(), dead: Arc::default() };
            opened.push(connection.clone());
            Ok(connection)
        })
    }

    fn is_closed(&self, connection: &Connection) -> bool {
        connection.dead.load(Ordering::SeqCst)
    }

    fn close(&self, connection: &Connection) {
        connection.dead.store(true, Ordering::SeqCst);
    }

    fn check(&self, connection: Connection) -> BoxFuture<'static, Result<bool>> {
        let is_healthy = !self.0.unhealthy.lock().contains(&connection.node);
        Box::pin(async move { Ok(is_healthy) })
    }
}

/// Asks a node; answers with the number of the connection that it came over.
#[derive(Debug)]
pub(crate) struct Ask {
    world: Arc<World>,
    /// Where it went, and with which error that ended, if nobody drops it; a late answer is none.
    pub(crate) log: Mutex<Vec<(Visit, Option<ErrorCode>)>>,
    /// When each of them began.
    pub(crate) begun: Mutex<Vec<MonoTime>>,
    /// Groups of the visits that came to an end, with their errors and times.
    pub(crate) ended: Mutex<Vec<Ended>>,
}

/// Group, error and time of a visit.
pub(crate) type Ended = (Arc<str>, Option<ErrorCode>, Duration);

impl Ask {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { world, log: Mutex::default(), begun: Mutex::default(), ended: Mutex::default() }
    }
}

impl Request<Connection> for Ask {
    type Answer = usize;

    fn run<'a>(&'a self, connection: Connection, visit: &'a Visit) -> BoxFuture<'a, Result<Reply<usize>>> {
        assert!(!connection.dead.load(Ordering::SeqCst), "a dead connection was handed out");
        assert_eq!((connection.node, &connection.address), (visit.node, &visit.address));
        let world = &self.world;
        world.visits.lock().push(visit.clone());
        let behaviour = world.behaviour.lock().clone();
        let outcome = behaviour(visit);
        let now = world.runtime.now();
        let is_too_late = |after| visit.deadline.is_some_and(|deadline| now + after > deadline);
        let code = match &outcome {
            Outcome::Never => Some(ErrorCode::DeadlineExceeded),
            Outcome::After(after, _) if is_too_late(*after) => Some(ErrorCode::DeadlineExceeded),
            Outcome::After(_, outcome) => outcome.as_ref().err().map(ShardError::code),
        };
        self.log.lock().push((visit.clone(), code));
        self.begun.lock().push(now);
        Box::pin(async move {
            match outcome {
                Outcome::Never => std::future::pending().await,
                Outcome::After(after, outcome) => {
                    world.runtime.sleep_until(world.runtime.now() + after).await;
                    outcome.map(|()| connection.number.into())
                }
            }
        })
    }

    fn ended(&self, visit: &Visit, error: Option<&ShardError>, took: Duration) {
        self.ended.lock().push((visit.leader_group.clone(), error.map(ShardError::code), took));
    }
}

/// What runs at the balancer.
pub(crate) fn executing(client: &Client) -> BTreeMap<u64, i64> {
    let reports = client.balancer().report(client.now());
    let busy = reports.into_iter().filter(|report| report.executing != 0);
    busy.map(|report| (report.node.0, report.executing)).collect()
}

/// Shard to avoided nodes.
pub(crate) fn blacklist(client: &Client) -> BTreeMap<String, Vec<u64>> {
    let listed = client.blacklist(DOCS).into_iter();
    listed.map(|(shard, nodes)| (shard.to_string(), nodes.keys().map(|node| node.0).collect())).collect()
}

/// A counter by its name and one word of its labels.
pub(crate) fn counted(client: &Client, name: &str, words: &[&str]) -> u64 {
    let has = |labels: &[(&str, &str)]| words.iter().all(|word| labels.iter().any(|(_, held)| held == word));
    let samples = client.samples();
    samples
        .iter()
        .filter(|sample| sample.name == name && has(&sample.labels))
        .map(|sample| sample.value)
        .sum()
}
