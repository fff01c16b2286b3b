//! Why a coordinator stopped.

use std::net::SocketAddr;

/// Why [`run`](crate::run) ended without having been told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Another coordinator is active, and this one was told not to wait (`coordinator.stand_by = false`).
    #[error(
        "coordinator '{holder}' is active; stop it first, or set coordinator.stand_by = true to wait for it"
    )]
    OtherActive {
        /// Who holds the lease.
        holder: String,
    },
    /// The lease was lost to another coordinator, and this one was told not to wait.
    #[error("the lease was lost: {why}; another coordinator is active")]
    LeaseLost {
        /// How it was noticed.
        why: String,
    },
    /// The metastore cannot be reached.
    #[error("the metastore {url} cannot be reached")]
    Unreachable {
        /// Its URL, without secrets.
        url: String,
        /// What was tried last.
        #[source]
        source: pointsman_metastore::Error,
    },
    /// The metastore answered, but cannot be used.
    #[error("the metastore cannot be used")]
    Metastore(#[from] pointsman_metastore::Error),
    /// A setting that is only understood here makes no sense.
    #[error(transparent)]
    Settings(#[from] pointsman_ids::Error),
    /// The object store's root makes no sense.
    #[error("coordinator.objects")]
    Objects(#[from] pointsman_objects::OpenError),
    /// An address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A server broke off.
    #[error("a server ended")]
    Serve(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Metrics could not be started.
    #[error(transparent)]
    Metrics(#[from] pointsman_telemetry::MetricsError),
}
