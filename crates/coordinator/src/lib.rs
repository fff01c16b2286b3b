//! The coordinator: keeps the catalog, decides what is loaded where, and tells nodes what to hold and brokers where to
//! route.
//!
//! One coordinator of a cluster is active: it holds the lease in the metastore. Its knowledge is in memory, read from the
//! metastore when the lease is taken and completed by what nodes report; a reconciler looks at all of it again and again
//! and brings about the difference. Decisions are made in `pointsman-query-coord`; this crate is their surroundings.
//!
//! A coordinator that has just become active tells brokers operators' switches at once, and of a collection nothing
//! until every node that serves it has reported or its lease is over, so that nobody loses copies from view that are
//! only not reported yet. Brokers say what they hold, and get what differs.
//!
//! ```
//! use std::sync::Arc;
//! use pointsman_clock::SystemClock;
//! use pointsman_coordinator::{Deps, Objects, run};
//! use pointsman_metastore::{OpenOptions, open};
//! use pointsman_settings::CoordinatorSettings;
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let objects = folder.path().join("objects");
//! let metastore = format!("sqlite:{}", folder.path().join("meta.db").display());
//! let deps = Deps {
//!     clock: Arc::new(SystemClock::default()),
//!     metastore: open(&metastore, OpenOptions::default()).await?,
//!     objects: Objects::open(&objects.display().to_string(), [("AWS_REGION", "none")])?,
//!     grpc: Some(tokio::net::TcpListener::bind("127.0.0.1:0").await?),
//!     http: Some(tokio::net::TcpListener::bind("127.0.0.1:0").await?),
//!     metrics: None,
//! };
//! let shutdown = CancellationToken::new();
//! shutdown.cancel(); // A real one serves until somebody does this.
//! run(CoordinatorSettings::default(), deps, shutdown).await?;
//! # Ok(())
//! # }
//! ```

mod answers;
mod awaited;
mod backoff;
mod balance;
mod brokers;
mod cadence;
mod catalog;
pub mod cli;
mod cluster;
mod config;
mod copy;
mod deps;
mod desired;
mod doubt;
mod durable;
mod encoded;
mod error;
mod feed;
mod garbage;
mod groups;
mod history;
mod leader_drops;
mod leads;
mod lease;
mod leaving;
mod live;
mod loads;
mod metrics;
mod nodes;
mod objects;
mod reconcile;
mod resume;
mod rules;
mod server;
mod session_service;
mod sessions;
mod shared;
mod state;
mod tasks;
mod tenure;
mod to_the_end;
mod watch;

use std::{sync::Arc, time::Duration};

pub use deps::Deps;
pub use error::RunError;
pub use objects::Objects;
use pointsman_settings::CoordinatorSettings;
use tokio_util::sync::CancellationToken;

/// How long calls in flight may take to end when the process stops.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs a coordinator until told to stop: serves at once, and is active whenever it holds the lease. Gives the lease
/// back when it stops.
///
/// # Errors
/// Why it ended by itself: an address that is taken, a metastore that cannot be used, another active coordinator.
pub async fn run(
    settings: CoordinatorSettings,
    deps: Deps,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let grpc = server::listen(deps.grpc, settings.grpc_listen).await?;
    let http = server::listen(deps.http, settings.http_listen).await?;
    for (surface, listener) in [("gRPC", &grpc), ("HTTP", &http)] {
        let address = listener.local_addr().map_err(|error| RunError::Serve(error.into()))?;
        tracing::info!(%address, "listening for {surface}");
    }
    let shared = Arc::new(shared::Shared::new(settings, deps.clock, deps.metastore, deps.objects)?);
    let stop = CancellationToken::new();
    let grpc = pointsman_telemetry::spawn("grpc", server::grpc(Arc::clone(&shared), grpc, stop.clone()));
    let http = server::http(Arc::clone(&shared), deps.metrics, http, stop.clone());
    let http = pointsman_telemetry::spawn("http", http);
    let mut servers = pointsman_telemetry::spawn("servers", async { tokio::try_join!(grpc, http) });

    let ended = tokio::select! {
        ended = lease::be_active(&shared, &shutdown) => ended,
        ended = &mut servers => return served(ended),
    };
    stop.cancel();
    match tokio::time::timeout(DRAIN, &mut servers).await {
        Ok(served_) => ended.and(served(served_)),
        Err(_) => {
            tracing::warn!("calls were still in flight after 5 s");
            servers.abort();
            ended
        }
    }
}

type Ended = Result<(Result<(), RunError>, Result<(), RunError>), tokio::task::JoinError>;

/// How the servers ended.
fn served(ended: Result<Ended, tokio::task::JoinError>) -> Result<(), RunError> {
    let (grpc, http) = ended.and_then(|ended| ended).map_err(|error| RunError::Serve(error.into()))?;
    grpc.and(http)
}
