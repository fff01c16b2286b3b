//! Settings of the coordinator.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{BalanceSettings, Balancer, SecretUrl, SettingsError, load};

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
    /// Most resource groups of the cluster, the default group included.
    pub resource_group_limit: usize,
    /// How often resource groups are compared with what they want, besides on every change of nodes and groups.
    #[serde(with = "humantime_serde")]
    pub resource_group_check_interval: Duration,
    /// Whether nodes move between resource groups by themselves, so that each has what it requests and no more than its
    /// limits.
    pub resource_group_auto_recover: bool,
    /// How long new replicas that wait for their resource group get no node while it misses some.
    #[serde(with = "humantime_serde")]
    pub resource_group_ready_timeout: Duration,
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
    /// Changes of the routing feed that are kept for brokers that come back, as far as they tell of less than a quarter of
    /// all segments.
    pub feed_history: usize,
    /// How long a lease to stop lasts that nobody gives back.
    #[serde(with = "humantime_serde")]
    pub stop_lease_ttl: Duration,
    /// How long a drain may take until it counts as overdue. It goes on all the same.
    #[serde(with = "humantime_serde")]
    pub drain_timeout: Duration,
    /// How often the progress of loads is looked at and written.
    #[serde(with = "humantime_serde")]
    pub progress_interval: Duration,
    /// How often next targets are pulled and promoted, besides whenever something changed.
    #[serde(with = "humantime_serde")]
    pub target_check_interval: Duration,
    /// How often it is looked where segments should be and whether they come, besides whenever something changed.
    #[serde(with = "humantime_serde")]
    pub segment_check_interval: Duration,
    /// How often it is looked who should lead and whether they do, besides whenever something changed.
    #[serde(with = "humantime_serde")]
    pub leader_check_interval: Duration,
    /// How often nodes of replicas are compared with those of their groups, besides whenever something changed.
    #[serde(with = "humantime_serde")]
    pub replica_check_interval: Duration,
    /// How often it is looked whether replicas that queries do not see yet are ready to be seen.
    #[serde(with = "humantime_serde")]
    pub visibility_interval: Duration,
    /// A node that has segments to load and finished none for so long has failed to load them.
    #[serde(with = "humantime_serde")]
    pub segment_task_timeout: Duration,
    /// A node that does not say for so long that it leads what it should is passed over.
    #[serde(with = "humantime_serde")]
    pub leader_task_timeout: Duration,
    /// A failed load that is older is told once more, and then forgotten.
    #[serde(with = "humantime_serde")]
    pub failed_load_ttl: Duration,
    /// A collection whose leaders would be refused is told as not queryable once its load has made no progress for so
    /// long.
    #[serde(with = "humantime_serde")]
    pub unqueryable_after: Duration,
    /// A load that makes no progress for so long ends.
    #[serde(with = "humantime_serde")]
    pub load_timeout: Duration,
    /// How often coordinators may start while a load has not finished before it is given up.
    pub load_recover_limit: u32,
    /// How long a next target that cannot be promoted stays before it is pulled anew.
    #[serde(with = "humantime_serde")]
    pub next_target_max_age: Duration,
    /// Whether a promotion needs every segment of the target to be reported by a node.
    pub promotion_needs_segment_versions: bool,
    /// Replicas of collections whose number nobody chose. 0: as they were loaded.
    pub default_replica_number: u32,
    /// Resource groups of collections whose number of replicas nobody chose. None: as they were loaded.
    pub default_resource_groups: Vec<String>,
    /// What decides where segments go.
    pub balancer: Balancer,
    /// Whether segments and leads move only to even out load.
    pub auto_balance: bool,
    /// Whether leads are evened out before segments.
    pub auto_balance_leaders: bool,
    /// How often load is evened out.
    #[serde(with = "humantime_serde")]
    pub balance_interval: Duration,
    /// How load is weighed, and how much moves at once.
    pub balance: BalanceSettings,
    /// How often one node tries to load a segment of one target.
    pub segment_load_tries: u32,
    /// A part of all members; when more of them are lost at once, the coordinator suspects itself and re-places nothing.
    pub mass_loss_limit: f64,
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
            resource_group_limit: 1024,
            resource_group_check_interval: Duration::from_secs(10),
            resource_group_auto_recover: true,
            resource_group_ready_timeout: Duration::from_secs(5 * 60),
            stand_by: true,
            active_lease_ttl: Duration::from_secs(3),
            active_lease_renew: Duration::from_secs(1),
            node_lease_ttl: Duration::from_secs(30),
            report_interval: Duration::from_millis(500),
            broker_lease_ttl: Duration::from_secs(10),
            feed_history: 10_000,
            stop_lease_ttl: Duration::from_secs(5 * 60),
            drain_timeout: Duration::from_secs(30 * 60),
            progress_interval: Duration::from_millis(200),
            target_check_interval: Duration::from_secs(10),
            segment_check_interval: Duration::from_secs(3),
            leader_check_interval: Duration::from_secs(3),
            replica_check_interval: Duration::from_secs(60),
            visibility_interval: Duration::from_secs(3),
            segment_task_timeout: Duration::from_secs(120),
            leader_task_timeout: Duration::from_secs(60),
            failed_load_ttl: Duration::from_secs(24 * 60 * 60),
            unqueryable_after: Duration::from_secs(5 * 60),
            load_timeout: Duration::from_secs(600),
            load_recover_limit: 3,
            next_target_max_age: Duration::from_secs(300),
            promotion_needs_segment_versions: true,
            default_replica_number: 0,
            default_resource_groups: Vec::new(),
            balancer: Balancer::Score,
            auto_balance: true,
            auto_balance_leaders: true,
            balance_interval: Duration::from_secs(3),
            balance: BalanceSettings::default(),
            segment_load_tries: 3,
            mass_loss_limit: 0.5,
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

    /// The same settings with another value of one key, such as `coordinator.resource_group_limit`, as text.
    ///
    /// # Errors
    /// Names the key when it is unknown, or the value does not parse or is out of range.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, SettingsError> {
        let settings: Self = load::overlaid("coordinator", self, key, value)?;
        settings.check()?;
        Ok(settings)
    }

    fn check_intervals(&self) -> Result<(), SettingsError> {
        let all = [
            ("coordinator.progress_interval", self.progress_interval),
            ("coordinator.target_check_interval", self.target_check_interval),
            ("coordinator.segment_check_interval", self.segment_check_interval),
            ("coordinator.leader_check_interval", self.leader_check_interval),
            ("coordinator.replica_check_interval", self.replica_check_interval),
            ("coordinator.visibility_interval", self.visibility_interval),
            ("coordinator.segment_task_timeout", self.segment_task_timeout),
            ("coordinator.leader_task_timeout", self.leader_task_timeout),
            ("coordinator.failed_load_ttl", self.failed_load_ttl),
        ];
        all.into_iter().try_for_each(|(key, value)| load::check_duration(key, value))
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
        if self.resource_group_limit == 0 {
            let why = "must be at least 1: the default group is always there";
            return Err(SettingsError::range("coordinator.resource_group_limit", 0, why));
        }
        if self.segment_load_tries == 0 {
            return Err(SettingsError::range("coordinator.segment_load_tries", 0, "must be at least 1"));
        }
        if !(0.0..=1.0).contains(&self.mass_loss_limit) {
            let (key, why) = ("coordinator.mass_loss_limit", "must be 0 to 1, as a part of all members");
            return Err(SettingsError::range(key, self.mass_loss_limit, why));
        }
        for group in &self.default_resource_groups {
            load::check_name("coordinator.default_resource_groups", group)?;
        }
        self.balance.check()?;
        self.check_intervals()?;
        load::check_duration("coordinator.load_timeout", self.load_timeout)?;
        load::check_duration("coordinator.next_target_max_age", self.next_target_max_age)?;
        load::check_duration("coordinator.balance_interval", self.balance_interval)?;
        load::check_duration(
            "coordinator.resource_group_check_interval",
            self.resource_group_check_interval,
        )?;
        load::check_duration("coordinator.report_interval", self.report_interval)?;
        load::check_duration("coordinator.stop_lease_ttl", self.stop_lease_ttl)?;
        load::check_duration("coordinator.drain_timeout", self.drain_timeout)?;
        load::check_duration("coordinator.metastore_timeout", self.metastore_timeout)
    }
}
