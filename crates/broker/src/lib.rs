//! The broker: SQL in over HTTP, rows out, whatever single node fails meanwhile.
//!
//! [`run()`] wires the parts: `routing` keeps the view of the cluster and the nodes' health, `engine` plans and runs, and
//! this crate reads requests, limits what runs at once, runs a query again when a node fails under it, and writes the
//! answer with its coverage. Nothing on a query's way talks to the coordinator. Which node answers for a segment is
//! decided in lower crates.
//!
//! ```no_run
//! use pointsman_broker::{Deps, run};
//! use pointsman_settings::BrokerSettings;
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> anyhow::Result<()> {
//! let settings = BrokerSettings::load("[broker]\nhttp_listen = '127.0.0.1:8099'", [("", ""); 0])?;
//! let shutdown = CancellationToken::new();
//! run(settings, Deps::open()?, shutdown).await?;
//! # Ok(()) }
//! ```

mod answer;
mod broker;
mod catalogs;
pub mod cli;
mod deps;
mod error;
mod exposition;
mod grpc;
mod http;
mod metrics;
mod query;
mod request;
mod route;
mod rows;
mod run;
mod shards;

pub use deps::Deps;
pub use error::RunError;
pub use run::run;

/// A duration in whole milliseconds.
fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
