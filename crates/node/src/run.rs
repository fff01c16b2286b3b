//! Puts a node together and takes it apart.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use pointsman_ids::{Error, Incarnation};
use pointsman_objects::OpenError;
use pointsman_settings::NodeSettings;
use pointsman_telemetry::spawn;
use rand::{SeedableRng, rngs::StdRng};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use url::Url;

use crate::{
    DataDirError, Deps,
    cache::{Cache, Plan, Source},
    data_dir::DataDir,
    drain, http, metrics,
    session::{Identity, Session, Standing},
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
    let objects = match settings.objects.as_str() {
        "" => None,
        root => Some(Source::open(root, &deps.object_store_options)?),
    };
    let grpc = listener(deps.grpc, "grpc_listen", settings.grpc_listen).await?;
    let http = listener(deps.http, "http_listen", settings.http_listen).await?;
    let address = advertised(&settings.advertise, &grpc)?;
    let data_dir = DataDir::open(&settings.data_dir)?;
    let incarnation = data_dir.next_incarnation(deps.clock.wall())?;
    metrics::describe(settings.cache_limit.0);
    tracing::info!(name = settings.name, %incarnation, address, "node starts");

    let (draining, stop) = (CancellationToken::new(), CancellationToken::new());
    // Tasks end when this function does, however it does.
    let _stop = stop.clone().drop_guard();
    let mut rng = StdRng::seed_from_u64(deps.seed);
    let plan = Plan {
        data_dir: data_dir.path(),
        limit: settings.cache_limit.0,
        concurrency: settings.fetch_concurrency,
        pace: deps.pace,
        clock: Arc::clone(&deps.clock),
        rng: StdRng::from_rng(&mut rng),
    };
    let (cache, mut cache_task) = Cache::open(plan, draining.clone(), stop.clone())?;
    let needs_objects = objects.is_none();
    objects.into_iter().for_each(|source| cache.objects(Ok(source)));

    let worker = Worker::new(cache.store(), settings.memory_limit.0).await.map_err(RunError::Worker)?;
    let (health, in_flight) = (worker.health(), worker.in_flight());
    let (standing, standing_seen) = watch::channel(Standing::default());
    let pages = http::Pages {
        observation: cache.observation(),
        standing: standing_seen,
        draining: draining.clone(),
        metrics: deps.metrics,
    };
    let mut worker_task = spawn("worker", worker.serve(grpc, stop.clone()));
    let mut http_task = spawn("http", http::serve(pages, http, stop.clone()));
    health.set_service_status("", ServingStatus::Serving).await;

    let session = Session {
        identity: identity(&settings, incarnation, address, needs_objects, deps.object_store_options),
        cache: cache.clone(),
        pace: deps.pace,
        rng: StdRng::from_rng(&mut rng),
        standing,
        draining: draining.clone(),
        stop: stop.clone(),
        epoch_seen: 0,
    };
    let mut session_task = spawn("session", session.run());

    tokio::select! {
        () = shutdown.cancelled() => {}
        ended = &mut worker_task => return Err(ended_error("worker", ended)),
        ended = &mut http_task => return Err(ended_error("HTTP server", ended)),
        ended = &mut cache_task => return Err(RunError::Ended("segment cache", format!("{ended:?}"))),
        ended = &mut session_task => return Err(RunError::Ended("session", format!("{ended:?}"))),
    }
    tracing::info!(grace = ?settings.grace, "draining");
    health.set_service_status("", ServingStatus::NotServing).await;
    draining.cancel();
    if !drain::drained(&cache, &in_flight, deps.pace.settle, settings.grace).await {
        tracing::warn!(calls = in_flight.count(), "the grace is over; calls that still run are broken off");
    }
    stop.cancel();
    for task in [worker_task.abort_handle(), http_task.abort_handle()] {
        let watched = task.clone();
        spawn("last-calls", async move {
            tokio::time::sleep(LAST_CALLS).await;
            watched.abort();
        });
    }
    let _all_ended = tokio::join!(worker_task, http_task, cache_task, session_task);
    tracing::info!("node has stopped");
    Ok(())
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

fn ended_error<E: std::error::Error>(
    what: &'static str,
    ended: Result<Result<(), E>, tokio::task::JoinError>,
) -> RunError {
    let why = match ended {
        Ok(Ok(())) => "without an error".into(),
        Ok(Err(error)) => pointsman_telemetry::chain(&error),
        Err(error) => error.to_string(),
    };
    RunError::Ended(what, why)
}
