//! What a node stands on.

use std::{sync::Arc, time::Duration};

use pointsman_clock::{Clock, SystemClock};
use pointsman_telemetry::{MetricsError, MetricsHandle, init_metrics};
use rand::RngCore;
use tokio::net::TcpListener;

/// Everything outside a node that it works with.
#[derive(Debug)]
pub struct Deps {
    /// Where it reads time.
    pub clock: Arc<dyn Clock>,
    /// Root of all its randomness.
    pub seed: u64,
    /// Where the worker listens; `None`: `node.grpc_listen` is bound.
    pub grpc: Option<TcpListener>,
    /// Where health and metrics listen; `None`: `node.http_listen` is bound.
    pub http: Option<TcpListener>,
    /// What `/metrics` shows; `None`: nothing.
    pub metrics: Option<MetricsHandle>,
    /// `AWS_*` pairs for object stores in S3.
    pub object_store_options: Vec<(String, String)>,
    /// How patient it is.
    pub pace: Pace,
}

impl Deps {
    /// The machine's clock, network, randomness and environment, and this process's metrics. Needs a tokio runtime;
    /// once per process.
    ///
    /// # Errors
    /// When metrics were started before.
    pub fn open() -> Result<Self, MetricsError> {
        Ok(Self { metrics: Some(init_metrics()?), ..Self::without_metrics() })
    }

    /// The same without metrics, for several nodes in one process.
    pub fn without_metrics() -> Self {
        Self {
            clock: Arc::new(SystemClock::default()),
            seed: rand::rng().next_u64(),
            grpc: None,
            http: None,
            metrics: None,
            object_store_options: pointsman_settings::object_store_environment(),
            pace: Pace::default(),
        }
    }
}

/// How often a node tries again and how long it waits. Tests shorten it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Pause after all coordinators were tried without success; doubled up to `reconnect_max`.
    pub reconnect: Duration,
    /// The longest such pause.
    pub reconnect_max: Duration,
    /// Pause after a refusal that only an operator can end: a name in use, an unknown resource group.
    pub refused: Duration,
    /// How long changes are gathered before they are reported together.
    pub coalesce: Duration,
    /// Pause after the first failed fetch of a segment; doubled with each further one up to `fetch_retry_max`.
    pub fetch_retry: Duration,
    /// The longest such pause.
    pub fetch_retry_max: Duration,
    /// How long a segment that is not wanted any more is still served, so that queries which were routed before end
    /// well.
    pub drop_after: Duration,
    /// How often the files of held segments are looked at from outside: there, as long and as old as they were.
    pub presence_check: Duration,
    /// How often the checksum of the held segment that was verified longest ago is computed again.
    pub scrub: Duration,
    /// How long a node that drains waits for brokers to hear of it before it counts its running queries.
    pub settle: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            reconnect: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(3),
            refused: Duration::from_secs(10),
            coalesce: Duration::from_millis(20),
            fetch_retry: Duration::from_millis(500),
            fetch_retry_max: Duration::from_secs(30),
            drop_after: Duration::from_secs(5),
            presence_check: Duration::from_secs(5),
            scrub: Duration::from_secs(30),
            settle: Duration::from_millis(500),
        }
    }
}
