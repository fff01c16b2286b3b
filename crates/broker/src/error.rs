//! Why a broker stopped.

use std::net::SocketAddr;

/// Why [`run`](crate::run()) ended without having been told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A setting that is only understood here makes no sense.
    #[error(transparent)]
    Settings(pointsman_ids::Error),
    /// The engine or the routing could not be started.
    #[error("the broker could not be started")]
    Start(#[source] pointsman_ids::Error),
    /// An address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Threads for queries could not be started.
    #[error("threads for queries cannot be started")]
    Threads(#[source] std::io::Error),
    /// A server broke off.
    #[error("a server ended")]
    Serve(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Metrics could not be started.
    #[error(transparent)]
    Metrics(#[from] pointsman_telemetry::MetricsError),
}
