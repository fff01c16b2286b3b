//! What a broker stands on.

use std::sync::Arc;

use pointsman_channels::{Connect, TcpConnect};
use pointsman_clock::{Clock, SystemClock};
use pointsman_telemetry::{MetricsError, MetricsHandle, init_metrics};
use rand::RngCore;
use tokio::net::TcpListener;

/// Everything outside a broker that it works with.
#[derive(Debug)]
pub struct Deps {
    /// Where it reads time.
    pub clock: Arc<dyn Clock>,
    /// How it reaches nodes and coordinators.
    pub connect: Arc<dyn Connect>,
    /// Root of all its randomness.
    pub seed: u64,
    /// Where the query surface listens; `None`: `broker.http_listen` is bound.
    pub http: Option<TcpListener>,
    /// Where gRPC listens; `None`: `broker.grpc_listen` is bound.
    pub grpc: Option<TcpListener>,
    /// What `/metrics` shows; `None`: nothing.
    pub metrics: Option<MetricsHandle>,
}

impl Deps {
    /// The machine's clock, network and randomness, and this process's metrics. Needs a tokio runtime; once per process.
    ///
    /// # Errors
    /// When metrics were started before.
    pub fn open() -> Result<Self, MetricsError> {
        Ok(Self { metrics: Some(init_metrics()?), ..Self::without_metrics() })
    }

    /// The same without metrics, for several brokers in one process.
    pub fn without_metrics() -> Self {
        Self {
            clock: Arc::new(SystemClock::default()),
            connect: Arc::new(TcpConnect),
            seed: rand::rng().next_u64(),
            http: None,
            grpc: None,
            metrics: None,
        }
    }
}
