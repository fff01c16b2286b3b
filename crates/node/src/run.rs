//! Puts a node together and takes it apart.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use futures::FutureExt;
use pointsman_channels::{ChannelSettings, Channels};
use pointsman_engine::rows::Memory;
use pointsman_ids::{Error, Incarnation};
use pointsman_objects::OpenError;
use pointsman_settings::NodeSettings;
use rand::{SeedableRng, rngs::StdRng};
use tokio::{net::TcpListener, sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::Instrument;
use url::Url;

use crate::{
    DataDirError, Deps, Pace,
    cache::{Cache, Plan, Source},
    data_dir::DataDir,
    drain::{self, Draining},
    http,
    in_flight::InFlight,
    leads::Leads,
    metrics,
    session::{Identity, Session, Standing},
    shards::{Limits, Load, Shards},
    worker::Worker,
};

/// How long tasks may take to end after the node has drained.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// Why a node did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The settings make no sense together, or here.
    #[error("{0}")]
    Settings(String),
    /// The root of the object store was refused.
    #[error("`node.objects` was refused")]
    Objects(#[from] OpenError),
    /// The folder could not be taken.
    #[error("the node's folder cannot be used")]
    DataDir(#[from] DataDirError),
    /// A port could not be listened on.
    #[error("cannot listen on `node.{key}` = {address}")]
    Listen {
        /// The key of the address.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The engine did not start.
    #[error("the worker cannot be started")]
    Worker(#[source] Error),
    /// Metrics did not start.
    #[error("the node's metrics cannot be used")]
    Metrics(#[from] pointsman_telemetry::MetricsError),
    /// A part that should run for ever has ended.
    #[error("the {0} has ended: {1}")]
    Ended(&'static str, String),
}

/// Runs a node until `shutdown` is cancelled, and then until it has drained, which takes `node.grace` at most. Dropped
/// before, it leaves nothing running but what blocks.
///
/// # Errors
/// When it cannot start, or when one of its ports fails.
pub async fn run(settings: NodeSettings, deps: Deps, shutdown: CancellationToken) -> Result<(), RunError> {
    let pace = deps.pace;
    let mut node = Node::start(&settings, deps).await?;
    tokio::select! {
        () = shutdown.cancelled() => {}
        Some(ended) = node.tasks.join_next() => {
            return Err(ended.unwrap_or_else(|error| RunError::Ended("node's task", error.to_string())));
        }
    }
    node.drain(pace, settings.grace).await;
    node.stop().await;
    tracing::info!("node has stopped");
    Ok(())
}

/// A node that runs. Dropped, its tasks end.
struct Node {
    /// Keeps the folder.
    _data_dir: DataDir,
    cache: Cache,
    health: HealthReporter,
    in_flight: InFlight,
    draining: Draining,
    /// The coordinator says that the node may leave.
    leave: CancellationToken,
    standing: watch::Receiver<Standing>,
    stop: CancellationToken,
    /// None of them ends before it is told to. What they give says which one did.
    tasks: JoinSet<RunError>,
}

impl Node {
    async fn start(settings: &NodeSettings, deps: Deps) -> Result<Self, RunError> {
        let objects = match settings.objects.as_str() {
            "" => None,
            root => Some(Source::open(root, &deps.object_store_options)?),
        };
        let data_dir = DataDir::open_patiently(&settings.data_dir).await?;
        let grpc = listener(deps.grpc, "grpc_listen", settings.grpc_listen).await?;
        let http = listener(deps.http, "http_listen", settings.http_listen).await?;
        let address = advertised(&settings.advertise, &grpc)?;
        let incarnation = data_dir.next_incarnation(deps.clock.wall())?;
        metrics::describe(settings.cache_limit.0, settings.vector_memory.0);
        let memory = Memory::new(settings.vector_memory.0);
        tracing::info!(name = settings.name, %incarnation, address, "node starts");

        let (draining, leave, stop) =
            (Draining::default(), CancellationToken::new(), CancellationToken::new());
        let mut rng = StdRng::seed_from_u64(deps.seed);
        let plan = Plan {
            data_dir: data_dir.path(),
            limit: settings.cache_limit.0,
            concurrency: settings.fetch_concurrency,
            builds: builds(settings.index_concurrency),
            memory: memory.clone(),
            pace: deps.pace,
            clock: Arc::clone(&deps.clock),
            rng: StdRng::from_rng(&mut rng),
        };
        let (cache, driver) = Cache::open(plan, draining.begun(), stop.clone())?;
        let needs_objects = objects.is_none();
        objects.into_iter().for_each(|source| cache.objects(Ok(source)));

        let (leads, load) = (Leads::new(), Load::new(shard_limits(settings)));
        let channels = Channels::tcp(ChannelSettings::default());
        let shards = Shards::new(leads.clone(), cache.held(), memory, channels.clone(), load.clone());
        let worker = Worker::new(cache.store(), shards, channels, settings.memory_limit.0);
        let worker = worker.await.map_err(RunError::Worker)?;
        let (health, in_flight) = (worker.health(), worker.in_flight());
        let standing = watch::Sender::new(Standing::default());
        let pages = http::Pages {
            observation: cache.observation(),
            leads: leads.clone(),
            standing: standing.subscribe(),
            draining: draining.begun(),
            load,
            metrics: deps.metrics,
        };
        let heard = standing.subscribe();
        let session = Session {
            identity: identity(settings, incarnation, address, needs_objects, deps.object_store_options),
            cache: cache.clone(),
            leads: leads.clone(),
            pace: deps.pace,
            rng: StdRng::from_rng(&mut rng),
            standing,
            in_flight: in_flight.clone(),
            draining: draining.clone(),
            leave: leave.clone(),
            stop: stop.clone(),
            epoch_seen: 0,
        };
        let mut tasks = JoinSet::new();
        part(&mut tasks, "worker", worker.serve(grpc, stop.clone()));
        part(&mut tasks, "HTTP server", http::serve(pages, http, stop.clone()));
        part(&mut tasks, "segment cache", driver.map(Ok::<(), Infallible>));
        let follow = leads.follow(cache.observation(), stop.clone());
        part(&mut tasks, "shard leads", follow.map(Ok::<(), Infallible>));
        part(&mut tasks, "session", session.run().map(Ok::<(), Infallible>));
        health.set_service_status("", ServingStatus::Serving).await;
        Ok(Self {
            _data_dir: data_dir,
            cache,
            health,
            in_flight,
            draining,
            leave,
            standing: heard,
            stop,
            tasks,
        })
    }

    /// Serves on, takes nothing new, and says so everywhere, until nobody needs this node or the grace is over.
    async fn drain(&self, pace: Pace, grace: Duration) {
        tracing::info!(?grace, "draining");
        let end = self.draining.begin(grace);
        // While others take over what it serves, it is as healthy as before.
        let told = drain::told_to_leave(&self.leave, self.standing.clone(), pace.reconnect_max, end).await;
        self.health.set_service_status("", ServingStatus::NotServing).await;
        let ended = if told {
            tracing::info!("every broker routes without this node");
            drain::quiet(&self.in_flight, end).await
        } else {
            drain::idle(&self.cache, &self.in_flight, pace.settle, end).await
        };
        if !ended {
            let calls = self.in_flight.count();
            tracing::warn!(calls, "the grace is over; calls that still run are broken off");
        }
    }

    /// Ends all tasks, those that do not end by themselves too.
    async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(LAST_CALLS, ended).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

/// How many requests by shard are taken on. Those that compute at once leave threads to queries in SQL.
fn shard_limits(settings: &NodeSettings) -> Limits {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Limits { requests: settings.shard_requests, bytes: settings.shard_request_memory.0, computing: 2 * cores }
}

/// Indexes that are built at once: as many as were set, or half as many as there are cores.
fn builds(setting: usize) -> usize {
    if setting > 0 {
        setting
    } else {
        std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).max(1)
    }
}

/// Runs a part of the node as a task.
fn part<E: std::error::Error + Send>(
    tasks: &mut JoinSet<RunError>,
    name: &'static str,
    work: impl Future<Output = Result<(), E>> + Send + 'static,
) {
    let named = async move {
        match work.await {
            Ok(()) => RunError::Ended(name, "it was not told to".into()),
            Err(error) => RunError::Ended(name, pointsman_telemetry::chain(&error)),
        }
    };
    tasks.spawn(named.instrument(tracing::info_span!("task", name)));
}

async fn listener(
    bound: Option<TcpListener>,
    key: &'static str,
    address: SocketAddr,
) -> Result<TcpListener, RunError> {
    match bound {
        Some(listener) => Ok(listener),
        None => TcpListener::bind(address).await.map_err(|source| RunError::Listen { key, address, source }),
    }
}

/// The address that others are told.
fn advertised(setting: &str, listener: &TcpListener) -> Result<String, RunError> {
    if !setting.is_empty() {
        return match Url::parse(setting) {
            Ok(url) if url.has_host() => Ok(setting.to_owned()),
            _ => Err(RunError::Settings(format!(
                "`node.advertise` = '{setting}' is no URL; write one such as http://10.0.0.7:8290"
            ))),
        };
    }
    let local = listener.local_addr().map_err(|error| RunError::Settings(error.to_string()))?;
    if local.ip().is_unspecified() {
        return Err(RunError::Settings(format!(
            "`node.grpc_listen` = {local} is every address of this machine; say in `node.advertise` which of them \
             others reach, such as http://10.0.0.7:{}",
            local.port()
        )));
    }
    Ok(format!("http://{local}"))
}

fn identity(
    settings: &NodeSettings,
    incarnation: Incarnation,
    address: String,
    needs_objects: bool,
    object_store_options: Vec<(String, String)>,
) -> Identity {
    Identity {
        name: settings.name.clone(),
        incarnation,
        address,
        labels: settings.labels.clone(),
        resource_group: settings.resource_group.clone(),
        cache_bytes: settings.cache_limit.0,
        coordinators: settings.coordinators.clone(),
        needs_objects,
        object_store_options,
    }
}
