//! Settings of the broker.

mod routing;
mod shard_client;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Bytes, SettingsError, load};

pub use routing::{
    AdaptiveKind, AdaptiveSettings, DetectorKind, FailOpenSettings, FailureDetectorSettings,
    RemoteClusterSettings,
};
pub use shard_client::ShardClientSettings;

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
    /// A segment that is being loaded for the first time is new, and so not missed, for so long.
    #[serde(with = "humantime_serde")]
    pub new_segment_window: Duration,
    /// When excluded nodes are asked all the same.
    pub fail_open: FailOpenSettings,
    /// Ranking of nodes.
    pub adaptive: AdaptiveSettings,
    /// Calls to nodes.
    pub node: NodeCallSettings,
    /// Requests by shard.
    pub shard_client: ShardClientSettings,
    /// Other clusters, in the order in which their parts of a collection are merged.
    pub remote_clusters: Vec<RemoteClusterSettings>,
}

/// Section `[broker.query]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuerySettings {
    /// Deadline of a query that names none.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// How often a segment is asked for at most, the first time included.
    pub max_attempts: u32,
    /// Parts that are routed again within 10 s are at most this share of those that were sent, or 10 if that is more.
    pub retry_ratio: f64,
    /// Bytes that one query holds back so that its parts can be routed again one by one.
    pub retry_buffer: Bytes,
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

/// Section `[broker.node]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeCallSettings {
    /// Calls that may be under way to one node. More wait up to 1 s; then their part is routed again.
    pub max_in_flight: usize,
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
            new_segment_window: Duration::from_mins(5),
            fail_open: FailOpenSettings::default(),
            adaptive: AdaptiveSettings::default(),
            node: NodeCallSettings::default(),
            shard_client: ShardClientSettings::default(),
            remote_clusters: vec![],
        }
    }
}

impl Default for QuerySettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            max_attempts: 3,
            retry_ratio: 0.2,
            retry_buffer: Bytes::mib(16),
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

impl Default for NodeCallSettings {
    fn default() -> Self {
        Self { max_in_flight: 256 }
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
        self.failure_detector.check()?;
        self.adaptive.check()?;
        self.shard_client.check()?;
        routing::check_remote(&self.cluster, &self.remote_clusters)?;
        if self.node.max_in_flight == 0 {
            return Err(SettingsError::range("broker.node.max_in_flight", 0, "must be at least 1"));
        }
        load::check_duration("broker.query.timeout", self.query.timeout)?;
        load::check_duration("broker.channel.connect_timeout", self.channel.connect_timeout)?;
        load::check_duration("broker.channel.keep_alive_time", self.channel.keep_alive_time)?;
        load::check_duration("broker.channel.keep_alive_timeout", self.channel.keep_alive_timeout)?;
        if self.query.max_attempts == 0 {
            return Err(SettingsError::range("broker.query.max_attempts", 0, "must be at least 1"));
        }
        if !(self.query.retry_ratio.is_finite() && self.query.retry_ratio >= 0.0) {
            let key = "broker.query.retry_ratio";
            return Err(SettingsError::range(key, self.query.retry_ratio, "must be finite and not negative"));
        }
        if self.query.max_concurrent == 0 {
            return Err(SettingsError::range("broker.query.max_concurrent", 0, "must be at least 1"));
        }
        load::check_limit("broker.query.memory_limit", self.query.memory_limit)?;
        load::check_listeners("broker.http_listen", self.http_listen, self.grpc_listen)?;
        load::check_coordinators("broker.coordinators", &self.coordinators)
    }
}
