//! Settings of the coordinator.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{SecretUrl, SettingsError, load};

/// Brokers say about once per second that they live; a word may be late.
const MIN_BROKER_LEASE: Duration = Duration::from_secs(3);

/// Section `[coordinator]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoordinatorSettings {
    /// Name of this coordinator, unique among those of the cluster.
    pub name: String,
    /// Name of the cluster.
    pub cluster: String,
    /// Where gRPC listens.
    pub grpc_listen: SocketAddr,
    /// Where health, readiness and metrics listen.
    pub http_listen: SocketAddr,
    /// `postgres://...` or `sqlite:path`.
    pub metastore: SecretUrl,
    /// Root of the object store: a folder, or a URL such as `s3://bucket/prefix`.
    pub objects: String,
    /// Resource groups that are created at start when they are missing: name -> nodes that the group wants at least.
    pub resource_groups: BTreeMap<String, u32>,
    /// Whether to wait when another coordinator is active. Without, the program exits with a message.
    pub stand_by: bool,
    /// Lease of the active coordinator.
    #[serde(with = "humantime_serde")]
    pub active_lease_ttl: Duration,
    /// How often that lease is renewed; well below it.
    #[serde(with = "humantime_serde")]
    pub active_lease_renew: Duration,
    /// A node that was silent for so long is lost.
    #[serde(with = "humantime_serde")]
    pub node_lease_ttl: Duration,
    /// The longest pause between a node's reports.
    #[serde(with = "humantime_serde")]
    pub report_interval: Duration,
    /// A broker that neither acknowledged nor said that it lives for so long is not counted any more.
    #[serde(with = "humantime_serde")]
    pub broker_lease_ttl: Duration,
    /// Changes of the routing feed that are kept for brokers that come back, as far as they stay within 64 MiB.
    pub feed_history: usize,
    /// How often progress, promotion and placement look again without being woken.
    #[serde(with = "humantime_serde")]
    pub check_interval: Duration,
    /// Deadline of one statement of the metastore.
    #[serde(with = "humantime_serde")]
    pub metastore_timeout: Duration,
}

impl Default for CoordinatorSettings {
    fn default() -> Self {
        Self {
            name: "coordinator-1".into(),
            cluster: "local".into(),
            grpc_listen: SocketAddr::from(([127, 0, 0, 1], 8190)),
            http_listen: SocketAddr::from(([127, 0, 0, 1], 8191)),
            metastore: SecretUrl::new("sqlite:pointsman-data/meta.db"),
            objects: "pointsman-data/objects".into(),
            resource_groups: BTreeMap::new(),
            stand_by: true,
            active_lease_ttl: Duration::from_secs(3),
            active_lease_renew: Duration::from_secs(1),
            node_lease_ttl: Duration::from_secs(30),
            report_interval: Duration::from_millis(500),
            broker_lease_ttl: Duration::from_secs(10),
            feed_history: 10_000,
            check_interval: Duration::from_millis(500),
            metastore_timeout: Duration::from_secs(5),
        }
    }
}

impl CoordinatorSettings {
    /// Reads `[coordinator]` of a TOML text, overlaid by variables.
    ///
    /// # Errors
    /// Names the key that is unknown, does not parse or is out of range.
    pub fn load(
        toml: &str,
        env: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Result<Self, SettingsError> {
        let settings: Self = load::section("coordinator", toml, env)?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        load::check_name("coordinator.name", &self.name)?;
        load::check_name("coordinator.cluster", &self.cluster)?;
        load::check_listeners("coordinator.http_listen", self.http_listen, self.grpc_listen)?;
        let url = self.metastore.expose();
        if !["postgres://", "postgresql://", "sqlite:"].iter().any(|scheme| url.starts_with(scheme)) {
            let why = "must be postgres://user@host/database or sqlite:path";
            return Err(SettingsError::range("coordinator.metastore", &self.metastore, why));
        }
        for group in self.resource_groups.keys() {
            load::check_name("coordinator.resource_groups", group)?;
        }
        if self.active_lease_renew.is_zero() || self.active_lease_renew * 2 > self.active_lease_ttl {
            let shown = humantime::format_duration(self.active_lease_renew);
            let why = "must be above 0 and at most half of coordinator.active_lease_ttl";
            return Err(SettingsError::range("coordinator.active_lease_renew", shown, why));
        }
        if self.report_interval * 2 > self.node_lease_ttl {
            let shown = humantime::format_duration(self.report_interval);
            let why = "must be at most half of coordinator.node_lease_ttl";
            return Err(SettingsError::range("coordinator.report_interval", shown, why));
        }
        if self.broker_lease_ttl < MIN_BROKER_LEASE {
            let shown = humantime::format_duration(self.broker_lease_ttl);
            return Err(SettingsError::range("coordinator.broker_lease_ttl", shown, "must be at least 3s"));
        }
        load::check_duration("coordinator.report_interval", self.report_interval)?;
        load::check_duration("coordinator.check_interval", self.check_interval)?;
        load::check_duration("coordinator.metastore_timeout", self.metastore_timeout)
    }
}
