//! What a coordinator stands on.

use std::{sync::Arc, time::Duration};

use pointsman_clock::{Clock, SystemClock};
use pointsman_metastore::{Error, OpenOptions, SharedMetastore};
use pointsman_settings::CoordinatorSettings;
use pointsman_telemetry::{MetricsHandle, init_metrics};
use tokio::net::TcpListener;

use crate::{Objects, RunError};

/// Everything outside a coordinator that it works with.
#[derive(Debug)]
pub struct Deps {
    /// Where it reads time.
    pub clock: Arc<dyn Clock>,
    /// What survives it.
    pub metastore: SharedMetastore,
    /// Where segments lie.
    pub objects: Objects,
    /// Where gRPC listens; `None`: `coordinator.grpc_listen` is bound.
    pub grpc: Option<TcpListener>,
    /// Where HTTP listens; `None`: `coordinator.http_listen` is bound.
    pub http: Option<TcpListener>,
    /// What `/metrics` shows; `None`: nothing.
    pub metrics: Option<MetricsHandle>,
}

/// How long a start waits for a metastore that cannot be reached.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two tries.
const START_PAUSE: Duration = Duration::from_millis(500);

impl Deps {
    /// What the settings name: the machine's clock, the metastore, the object store, this process's metrics. Waits a
    /// while for a metastore that cannot be reached yet.
    ///
    /// # Errors
    /// `Unreachable` after 30 s, `Metastore` at once when the metastore cannot be used, `Objects`, `Metrics`.
    pub async fn open(settings: &CoordinatorSettings) -> Result<Self, RunError> {
        let objects = Objects::open(&settings.objects, pointsman_settings::object_store_environment())?;
        Ok(Self {
            clock: Arc::new(SystemClock::default()),
            metastore: metastore(settings).await?,
            objects,
            grpc: None,
            http: None,
            metrics: Some(init_metrics()?),
        })
    }
}

async fn metastore(settings: &CoordinatorSettings) -> Result<SharedMetastore, RunError> {
    let give_up = tokio::time::Instant::now() + START_PATIENCE;
    let remote = settings.metastore.expose().starts_with("postgres");
    let timeout = settings.metastore_timeout;
    let options = OpenOptions { acquire: timeout, statement: timeout, ..OpenOptions::default() };
    loop {
        match pointsman_metastore::open(settings.metastore.expose(), options).await {
            Ok(metastore) => return Ok(metastore),
            // A file that cannot be opened now cannot be opened later either; a server may still be starting.
            Err(source @ (Error::Unavailable(_) | Error::Open { .. })) if remote => {
                let url = settings.metastore.to_string();
                // A wrong password or an absent database stays so until somebody acts.
                if !source.is_passing() || tokio::time::Instant::now() >= give_up {
                    return Err(RunError::Unreachable { url, source });
                }
                tracing::warn!(url, error = pointsman_telemetry::chain(&source), "waiting for the metastore");
            }
            Err(other) => return Err(other.into()),
        }
        tokio::time::sleep(START_PAUSE).await;
    }
}
