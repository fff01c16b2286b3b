//! The gRPC and HTTP surfaces.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use pointsman_proto::coordinator::v1::{
    catalog_server::CatalogServer, cluster_config_server::ClusterConfigServer, cluster_server::ClusterServer,
    query_coord_server::QueryCoordServer, resource_groups_server::ResourceGroupsServer,
};
use pointsman_telemetry::MetricsHandle;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};

use crate::{
    RunError, catalog::CatalogService, cluster::ClusterService, config::ConfigService, groups::GroupService,
    loads::LoadService, session_service::SessionService, shared::Shared, to_the_end::ToTheEnd,
    watch::FeedService,
};

/// Largest message that is taken or sent: a push of 100,000 segments.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;
/// Largest snapshot: millions of segments. Brokers take as much.
pub(crate) const MAX_SNAPSHOT: usize = 1 << 30;
/// How often a silent connection is asked whether it lives, and how long it may take to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Calls in flight on one connection.
const MAX_STREAMS: u32 = 1024;
/// Calls that run at once, over all connections and those whose callers are gone.
const MAX_CALLS: usize = 4096;

/// Binds an address, unless that was done already.
pub(crate) async fn listen(given: Option<TcpListener>, address: SocketAddr) -> Result<TcpListener, RunError> {
    match given {
        Some(listener) => Ok(listener),
        None => TcpListener::bind(address).await.map_err(|source| RunError::Listen { address, source }),
    }
}

macro_rules! sized {
    ($server:expr) => {
        $server.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE)
    };
}

/// Serves gRPC until told to stop.
pub(crate) async fn grpc(
    shared: Arc<Shared>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("", tonic_health::ServingStatus::Serving).await;
    let share = || Arc::clone(&shared);
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .http2_max_pending_accept_reset_streams(Some(100_000))
        .http2_max_local_error_reset_streams(None)
        .max_concurrent_streams(MAX_STREAMS)
        .layer(ToTheEnd::with_places(MAX_CALLS))
        .add_service(health_service)
        .add_service(sized!(CatalogServer::new(CatalogService(share()))))
        .add_service(sized!(QueryCoordServer::new(LoadService(share()))))
        .add_service(sized!(ResourceGroupsServer::new(GroupService(share()))))
        .add_service(sized!(ClusterServer::new(ClusterService(share()))))
        .add_service(sized!(ClusterConfigServer::new(ConfigService(share()))))
        .add_service(SessionService(share()))
        .add_service(FeedService(share()));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let served = server.serve_with_incoming_shutdown(incoming, shutdown.cancelled_owned()).await;
    served.map_err(|error| RunError::Serve(error.into()))
}

#[derive(Clone, Debug)]
struct Http {
    shared: Arc<Shared>,
    metrics: Option<MetricsHandle>,
}

/// Serves HTTP until told to stop: `/health` (the process lives), `/ready` (it is active), `/metrics`.
pub(crate) async fn http(
    shared: Arc<Shared>,
    metrics: Option<MetricsHandle>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let routes = Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics_text))
        .with_state(Http { shared, metrics });
    let served = axum::serve(listener, routes).with_graceful_shutdown(shutdown.cancelled_owned()).await;
    served.map_err(|error| RunError::Serve(error.into()))
}

async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

async fn metrics_text(State(http): State<Http>) -> String {
    http.metrics.map(|metrics| metrics.render()).unwrap_or_default()
}

async fn ready(State(http): State<Http>) -> (StatusCode, Json<Value>) {
    match http.shared.tenure() {
        // Another one may be active by now.
        Some(tenure) if !tenure.may_write() => {
            let about =
                json!({"status": "the lease has run out and cannot be renewed", "epoch": tenure.epoch().0});
            (StatusCode::SERVICE_UNAVAILABLE, Json(about))
        }
        Some(tenure) => {
            let feed = tenure.feed.borrow().as_ref().map(|feed| feed.version.0);
            (
                StatusCode::OK,
                Json(json!({"status": "active", "epoch": tenure.epoch().0, "feed_version": feed})),
            )
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "standing by"}))),
    }
}
