//! Wiring: channels, routing, engine and surfaces of one broker.

use std::{net::SocketAddr, sync::Arc};

use pointsman_channels::{ChannelSettings, Channels};
use pointsman_engine::{Engine, EngineSettings};
use pointsman_failure_detector as failure_detector;
use pointsman_ids::{ClusterName, Error, ErrorCode};
use pointsman_instance_selector::{AdaptiveKind, AdaptiveSettings, FailOpen};
use pointsman_program::QueryThreads;
use pointsman_routing::{ClusterSettings, Routing};
use pointsman_settings::{BrokerSettings, DetectorKind, FailureDetectorSettings, RemoteClusterSettings};
use pointsman_telemetry::spawn;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    Deps, RunError,
    broker::Broker,
    catalogs::Catalogs,
    grpc, http, metrics,
    query::{Admission, Parts, Queries},
    rows::{self, RowRequests},
    shards::{Forgetful, Shards},
};

/// Runs a broker until it is told to stop: then it takes no new connection, lets running queries end for a while, and
/// stores the newest routing snapshot.
///
/// It answers as soon as it has a routing view, from the coordinator or from disk; until then queries find no
/// collection and `/ready` says 503.
///
/// # Errors
/// [`RunError::Settings`] for settings that make no sense, [`RunError::Listen`] for an address that is taken; the
/// others when something it stands on breaks.
pub async fn run(settings: BrokerSettings, deps: Deps, shutdown: CancellationToken) -> Result<(), RunError> {
    let http_listener = listen(deps.http, settings.http_listen, "http").await?;
    let grpc_listener = listen(deps.grpc, settings.grpc_listen, "grpc").await?;
    if deps.metrics.is_some() {
        metrics::describe();
    }
    let channels = Channels::new(channel_settings(&settings), Arc::clone(&deps.connect));
    let coordinator_channels = Channels::new(channel_settings(&settings), deps.connect);
    let forgetful = Forgetful::default();
    let routing_deps = pointsman_routing::Deps {
        clock: Arc::clone(&deps.clock),
        seed: deps.seed,
        channels: channels.clone(),
        coordinator_channels: coordinator_channels.clone(),
        leaders: Some(Arc::new(forgetful.clone())),
    };
    // Routing outlives the surfaces: queries that still run need it.
    let stop_routing = CancellationToken::new();
    let routing = Routing::start(routing_settings(&settings)?, routing_deps, stop_routing.clone()).await;
    let routing = routing.map_err(RunError::Start)?;
    let coordinators = settings.coordinators.iter().map(|text| coordinator(text, "broker.coordinators"));
    let coordinators = coordinators.collect::<Result<_, _>>()?;
    let shards = Shards::new(
        &settings.shard_client,
        routing.clone(),
        channels.clone(),
        coordinator_channels,
        coordinators,
    );
    forgetful.set(shards.client.clone());
    let admission = Arc::new(Admission::new(settings.query.max_concurrent, settings.query.max_waiting));
    let engine = EngineSettings {
        memory_limit: settings.query.memory_limit.0,
        retry_buffer: settings.query.retry_buffer.as_usize(),
        ..EngineSettings::default()
    };
    let engine = Engine::new(engine, channels).map_err(RunError::Start)?;
    let catalogs = Arc::new(Catalogs::new(&routing.view()));
    let parts = Parts {
        max_in_flight: settings.node.max_in_flight,
        clock: deps.clock,
        routing: routing.clone(),
        engine,
        threads: QueryThreads::start().map_err(RunError::Threads)?,
        catalogs: Arc::clone(&catalogs),
        admission: Arc::clone(&admission),
    };
    let rows = RowRequests::new(rows::Parts {
        settings: settings.query.clone(),
        preferred_group: settings.shard_client.preferred_group.clone(),
        clock: Arc::clone(&parts.clock),
        routing: routing.clone(),
        shards: shards.clone(),
        admission,
        threads: parts.threads.clone(),
    });
    let maintaining = {
        let (maintenance, stop) = (shards.client.maintenance(), shutdown.clone());
        spawn("shard client", async move { stop.run_until_cancelled(maintenance).await })
    };
    let broker = Arc::new(Broker {
        name: settings.name.clone(),
        clock: Arc::clone(&parts.clock),
        stored_version: routing.is_ready().then(|| routing.view().snapshot().version),
        routing: routing.clone(),
        rows,
        queries: Queries::new(settings.name, settings.query, parts, deps.seed),
        metrics: deps.metrics,
    });
    let following = {
        let (routing, stop) = (routing.clone(), shutdown.clone());
        spawn("catalog", async move { catalogs.follow(&routing, &stop).await })
    };
    let served = tokio::try_join!(
        http::serve(http_listener, Arc::clone(&broker), shutdown.clone()),
        grpc::serve(grpc_listener, broker, shutdown.clone()),
    );
    // Whatever ended the surfaces, the rest ends with them.
    shutdown.cancel();
    stop_routing.cancel();
    routing.stopped().await;
    following.await.map_err(|error| RunError::Serve(error.into()))?;
    maintaining.await.map_err(|error| RunError::Serve(error.into()))?;
    shards.client.close();
    tracing::info!("stopped");
    served.map(drop)
}

async fn listen(
    bound: Option<TcpListener>,
    address: SocketAddr,
    surface: &'static str,
) -> Result<TcpListener, RunError> {
    let refuse = |source| RunError::Listen { address, source };
    let listener = match bound {
        Some(listener) => listener,
        None => TcpListener::bind(address).await.map_err(refuse)?,
    };
    let address = listener.local_addr().map_err(refuse)?;
    tracing::info!(surface, %address, "listening");
    if !address.ip().is_loopback() {
        tracing::warn!(surface, %address, "everybody who reaches this address may query: there is no authentication");
    }
    Ok(listener)
}

fn channel_settings(settings: &BrokerSettings) -> ChannelSettings {
    ChannelSettings {
        connect_timeout: settings.channel.connect_timeout,
        keep_alive_time: settings.channel.keep_alive_time,
        keep_alive_timeout: settings.channel.keep_alive_timeout,
        ..ChannelSettings::default()
    }
}

fn routing_settings(settings: &BrokerSettings) -> Result<pointsman_routing::Settings, RunError> {
    let remote = |remote: &RemoteClusterSettings| {
        cluster(&remote.name, &remote.coordinators, "broker.remote_clusters")
    };
    Ok(pointsman_routing::Settings {
        broker: settings.name.clone(),
        local: cluster(&settings.cluster, &settings.coordinators, "broker.coordinators")?,
        remote: settings.remote_clusters.iter().map(remote).collect::<Result<_, _>>()?,
        data_dir: settings.data_dir.clone(),
        max_snapshot_age: settings.max_snapshot_age,
        detector: detector_settings(&settings.failure_detector),
        new_segment_window: settings.new_segment_window,
        fail_open: FailOpen {
            enabled: settings.fail_open.enabled,
            multi_stage: settings.fail_open.multi_stage,
            strict: settings.fail_open.strict,
        },
        adaptive: adaptive_settings(&settings.adaptive),
    })
}

fn cluster(name: &str, coordinators: &[String], key: &str) -> Result<ClusterSettings, RunError> {
    Ok(ClusterSettings {
        name: ClusterName::new(name).map_err(RunError::Settings)?,
        coordinators: coordinators.iter().map(|text| coordinator(text, key)).collect::<Result<_, _>>()?,
    })
}

fn coordinator(text: &str, key: &str) -> Result<Url, RunError> {
    Url::parse(text).map_err(|error| {
        let text = format!("{key} names '{text}', which is not a URL such as http://127.0.0.1:8190: {error}");
        RunError::Settings(Error::new(ErrorCode::ParameterInvalid, text))
    })
}

fn adaptive_settings(settings: &pointsman_settings::AdaptiveSettings) -> AdaptiveSettings {
    AdaptiveSettings {
        kind: match settings.kind {
            pointsman_settings::AdaptiveKind::None => AdaptiveKind::None,
            pointsman_settings::AdaptiveKind::Latency => AdaptiveKind::Latency,
            pointsman_settings::AdaptiveKind::InFlight => AdaptiveKind::InFlight,
            pointsman_settings::AdaptiveKind::Hybrid => AdaptiveKind::Hybrid,
        },
        alpha: settings.alpha,
        decay_window: settings.decay_window,
        warmup: settings.warmup,
        initial: settings.initial,
        trial_samples: settings.trial_samples,
        trial_in_flight: settings.trial_in_flight,
        hybrid_exponent: settings.hybrid_exponent,
        hybrid_floor: settings.hybrid_floor,
    }
}

fn detector_settings(settings: &FailureDetectorSettings) -> failure_detector::Settings {
    failure_detector::Settings {
        kind: match settings.kind {
            DetectorKind::Connection => failure_detector::Kind::Connection,
            DetectorKind::None => failure_detector::Kind::None,
        },
        initial_delay: settings.initial_delay,
        factor: settings.factor,
        max_delay: settings.max_delay,
        max_retries: settings.max_retries,
        probe_timeout: settings.probe_timeout,
        suspicion_limit: settings.suspicion_limit,
        suspicion_window: settings.suspicion_window,
    }
}
