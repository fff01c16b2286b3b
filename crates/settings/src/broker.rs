//! Settings of the broker.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Bytes, SettingsError, load};

/// Section `[broker]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrokerSettings {
    /// Stable name of the broker.
    pub name: String,
    /// Name of the local cluster.
    pub cluster: String,
    /// Addresses of coordinators, as URLs; the active one is found among them.
    pub coordinators: Vec<String>,
    /// Where the query surface listens.
    pub http_listen: SocketAddr,
    /// Where gRPC listens.
    pub grpc_listen: SocketAddr,
    /// Folder of the stored routing snapshot.
    pub data_dir: PathBuf,
    /// The oldest stored snapshot that the broker starts from.
    #[serde(with = "humantime_serde")]
    pub max_snapshot_age: Duration,
    /// Queries.
    pub query: QuerySettings,
    /// Connections to nodes.
    pub channel: ChannelSettings,
    /// The failure detector.
    pub failure_detector: FailureDetectorSettings,
}

/// Section `[broker.query]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuerySettings {
    /// Deadline of a query that names none.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// How often a query is run at most, the first time included.
    pub max_attempts: u32,
    /// Queries that run at once; others wait.
    pub max_concurrent: usize,
    /// Queries that may wait for a place; others are refused.
    pub max_waiting: usize,
    /// Memory that queries may take in the broker together.
    pub memory_limit: Bytes,
    /// Rows of one answer.
    pub max_result_rows: usize,
    /// Bytes of one answer, in memory.
    pub max_result_bytes: Bytes,
}

/// Section `[broker.channel]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelSettings {
    /// Deadline of connecting to a node.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// Pause between pings on a connection.
    #[serde(with = "humantime_serde")]
    pub keep_alive_time: Duration,
    /// How long a ping may go unanswered.
    #[serde(with = "humantime_serde")]
    pub keep_alive_timeout: Duration,
}

/// Kind of the failure detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetectorKind {
    /// Connections and answers tell.
    Connection,
    /// Nobody is ever excluded.
    None,
}

/// Section `[broker.failure_detector]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailureDetectorSettings {
    /// What tells that a node is ill.
    pub kind: DetectorKind,
    /// First wait before an excluded node is probed; at least 1 ms.
    #[serde(with = "humantime_serde")]
    pub initial_delay: Duration,
    /// What the wait is multiplied with after each probe; above 0.
    pub factor: f64,
    /// Probes before a node is taken back without one; negative: without end.
    pub max_retries: i64,
    /// The longest wait; 0: no limit.
    #[serde(with = "humantime_serde")]
    pub max_delay: Duration,
    /// Deadline of a probe.
    #[serde(with = "humantime_serde")]
    pub probe_timeout: Duration,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self {
            name: "broker-1".into(),
            cluster: "local".into(),
            coordinators: vec!["http://127.0.0.1:8190".into()],
            http_listen: SocketAddr::from(([127, 0, 0, 1], 8099)),
            grpc_listen: SocketAddr::from(([127, 0, 0, 1], 8090)),
            data_dir: "pointsman-data/broker".into(),
            max_snapshot_age: Duration::from_secs(24 * 3600),
            query: QuerySettings::default(),
            channel: ChannelSettings::default(),
            failure_detector: FailureDetectorSettings::default(),
        }
    }
}

impl Default for QuerySettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            max_attempts: 3,
            max_concurrent: 32,
            max_waiting: 256,
            memory_limit: Bytes::mib(2048),
            max_result_rows: 1_000_000,
            max_result_bytes: Bytes::mib(256),
        }
    }
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            keep_alive_time: Duration::from_secs(2),
            keep_alive_timeout: Duration::from_secs(1),
        }
    }
}

impl Default for FailureDetectorSettings {
    fn default() -> Self {
        Self {
            kind: DetectorKind::Connection,
            initial_delay: Duration::from_secs(5),
            factor: 2.0,
            max_retries: 10,
            max_delay: Duration::from_secs(60),
            probe_timeout: Duration::from_secs(2),
        }
    }
}

impl BrokerSettings {
    /// Reads `[broker]` of a TOML text, overlaid by variables.
    ///
    /// # Errors
    /// Names the key that is unknown, does not parse or is out of range.
    pub fn load(
        toml: &str,
        env: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Result<Self, SettingsError> {
        let settings: Self = load::section("broker", toml, env)?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        load::check_name("broker.name", &self.name)?;
        load::check_name("broker.cluster", &self.cluster)?;
        let detector = &self.failure_detector;
        load::check_duration("broker.failure_detector.initial_delay", detector.initial_delay)?;
        load::check_duration("broker.failure_detector.probe_timeout", detector.probe_timeout)?;
        if !detector.max_delay.is_zero() {
            load::check_duration("broker.failure_detector.max_delay", detector.max_delay)?;
        }
        if !(detector.factor.is_finite() && detector.factor > 0.0) {
            let key = "broker.failure_detector.factor";
            return Err(SettingsError::range(key, detector.factor, "must be finite and above 0"));
        }
        load::check_duration("broker.query.timeout", self.query.timeout)?;
        load::check_duration("broker.channel.connect_timeout", self.channel.connect_timeout)?;
        load::check_duration("broker.channel.keep_alive_time", self.channel.keep_alive_time)?;
        load::check_duration("broker.channel.keep_alive_timeout", self.channel.keep_alive_timeout)?;
        if self.query.max_attempts == 0 {
            return Err(SettingsError::range("broker.query.max_attempts", 0, "must be at least 1"));
        }
        if self.query.max_concurrent == 0 {
            return Err(SettingsError::range("broker.query.max_concurrent", 0, "must be at least 1"));
        }
        load::check_limit("broker.query.memory_limit", self.query.memory_limit)?;
        load::check_listeners("broker.http_listen", self.http_listen, self.grpc_listen)?;
        load::check_coordinators("broker.coordinators", &self.coordinators)
    }
}
