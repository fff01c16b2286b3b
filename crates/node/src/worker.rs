//! The worker's port: the engine's service, requests by shard and the standard health service, for brokers and other nodes
//! only.

use std::{sync::Arc, time::Duration};

use pointsman_channels::Channels;
use pointsman_engine::{SegmentStore, WorkerSettings, worker_routes};
use pointsman_ids::{Error, ErrorCode};
use pointsman_program::QueryThreads;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{
    service::Routes,
    transport::{Server, server::TcpIncoming},
};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{computing::Computing, in_flight::InFlight, shards::Shards};

/// A burst of cancelled queries resets many streams at once; with hyper's default the connection would be closed, and
/// innocent queries with it.
const PENDING_RESETS: usize = 100_000;
/// How often an idle peer is asked whether it lives, and how long it may take to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The services of the worker's port, ready to be served.
#[derive(Debug)]
pub(crate) struct Worker {
    routes: Routes,
    health: HealthReporter,
    in_flight: InFlight,
    computing: Computing,
}

impl Worker {
    /// A worker over what the store holds, beside requests by shard. Other nodes are reached through `channels`.
    ///
    /// # Errors
    /// Those of the engine; `service_internal` when the threads for queries cannot be started.
    pub(crate) async fn new(
        store: Arc<dyn SegmentStore>,
        shards: Shards,
        channels: Channels,
        memory_limit: u64,
    ) -> Result<Self, Error> {
        let settings = WorkerSettings { memory_limit, ..WorkerSettings::default() };
        let routes = worker_routes(store, channels, settings)?.add_service(shards.server());
        let computing = QueryThreads::start().map(Computing).map_err(|error| {
            Error::new(ErrorCode::ServiceInternal, format!("threads for queries cannot be started: {error}"))
        })?;
        let (health, service) = tonic_health::server::health_reporter();
        health.set_service_status("", ServingStatus::NotServing).await;
        Ok(Self { routes: routes.add_service(service), health, in_flight: InFlight::default(), computing })
    }

    /// What the health service answers.
    pub(crate) fn health(&self) -> HealthReporter {
        self.health.clone()
    }

    /// The calls that run.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.clone()
    }

    /// Serves until it is told to stop, and then until running calls have ended.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), tonic::transport::Error> {
        // Without TCP_NODELAY every small answer waits for a delayed acknowledgement.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true)).with_keepalive(Some(KEEP_ALIVE));
        Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE))
            .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS))
            .http2_max_local_error_reset_streams(None)
            .layer(self.in_flight)
            .layer(self.computing)
            .add_routes(self.routes)
            .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
            .await
    }
}
