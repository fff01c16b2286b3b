//! Settings of requests by shard.

use std::time::Duration;

use pointsman_ids::GroupName;
use serde::{Deserialize, Serialize};

use crate::{SettingsError, load};

/// Section `[broker.shard_client]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShardClientSettings {
    /// How a leader is chosen among several: `look_aside` (the least work, as last answers tell) or `round_robin`. An unknown
    /// word means `look_aside`, with a warning.
    pub policy: String,
    /// Attempts of a request beyond one per leader of its shard; at least 1 is used.
    pub retry_on_replica: i64,
    /// No attempt is repeated when the request is this old, however many are left; what the client is told then says when
    /// trying again makes sense. 0: no limit but the deadline.
    #[serde(with = "humantime_serde")]
    pub retry_time: Duration,
    /// Resource group whose leaders are asked first, then any that may answer; a request may name another one. Empty: none.
    pub preferred_group: String,
    /// How long a node that failed for good is avoided for the shard; 0: not at all.
    #[serde(with = "humantime_serde")]
    pub blacklist: Duration,
    /// Pause between sweeps of that list, which only free memory; 0: 10 s.
    #[serde(with = "humantime_serde")]
    pub blacklist_sweep: Duration,
    /// Connections per node; 0 or less: 1.
    pub connections_per_node: i64,
    /// `look_aside` compares the work of nodes at every so many choices; 0 or less: 1.
    pub check_workload_every: i64,
    /// Work is even while the highest is above the lowest by at most this share of the lowest; not negative.
    pub workload_tolerance: f64,
    /// How long what an answer told about an idle node counts.
    #[serde(with = "humantime_serde")]
    pub cost_expiry: Duration,
    /// Pause between health checks of a node that does not answer requests; 0: 1 s.
    #[serde(with = "humantime_serde")]
    pub health_check_interval: Duration,
    /// Deadline of a health check.
    #[serde(with = "humantime_serde")]
    pub health_check_timeout: Duration,
    /// Failed health checks in a row after which a node is not asked.
    pub health_check_retries: u32,
    /// After failed checks of so long altogether a node is forgotten; best as `coordinator.node_lease_ttl`.
    #[serde(with = "humantime_serde")]
    pub session_ttl: Duration,
    /// A node that says that it does not lead a shard, or does not have the collection, makes the broker ask the coordinator
    /// for the leaders again.
    pub invalidate_on_misrouted: bool,
}

impl Default for ShardClientSettings {
    fn default() -> Self {
        Self {
            policy: "look_aside".into(),
            retry_on_replica: 2,
            retry_time: Duration::ZERO,
            preferred_group: String::new(),
            blacklist: Duration::from_secs(30),
            blacklist_sweep: Duration::from_secs(10),
            connections_per_node: 10,
            check_workload_every: 10,
            workload_tolerance: 0.1,
            cost_expiry: Duration::from_secs(1),
            health_check_interval: Duration::from_secs(1),
            health_check_timeout: Duration::from_secs(3),
            health_check_retries: 3,
            session_ttl: Duration::from_secs(30),
            invalidate_on_misrouted: true,
        }
    }
}

/// More connections to one node than anybody needs: a slip of the pen.
const MOST_CONNECTIONS: i64 = 1000;

impl ShardClientSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        if !(self.workload_tolerance.is_finite() && self.workload_tolerance >= 0.0) {
            let key = "broker.shard_client.workload_tolerance";
            return Err(SettingsError::range(
                key,
                self.workload_tolerance,
                "must be finite and not negative",
            ));
        }
        if self.connections_per_node > MOST_CONNECTIONS {
            let key = "broker.shard_client.connections_per_node";
            return Err(SettingsError::range(key, self.connections_per_node, "must be at most 1000"));
        }
        if !self.preferred_group.is_empty()
            && let Err(error) = GroupName::new(&self.preferred_group)
        {
            let key = "broker.shard_client.preferred_group";
            return Err(SettingsError::range(key, &self.preferred_group, error.message().to_owned()));
        }
        load::check_duration("broker.shard_client.health_check_timeout", self.health_check_timeout)?;
        load::check_duration("broker.shard_client.session_ttl", self.session_ttl)
    }
}

#[cfg(test)]
mod tests {
    use crate::BrokerSettings;

    fn read(line: &str) -> Result<super::ShardClientSettings, String> {
        let toml = format!("[broker.shard_client]\n{line}");
        let read = BrokerSettings::load(&toml, [("", ""); 0]);
        read.map(|settings| settings.shard_client).map_err(|error| error.to_string())
    }

    #[test]
    fn values_that_mean_something_else_are_no_errors() {
        for line in [
            "policy = 'fastest'",
            "blacklist = '0s'",
            "blacklist_sweep = '0s'",
            "connections_per_node = -1",
            "check_workload_every = 0",
            "retry_on_replica = 0",
            "health_check_interval = '0s'",
            "retry_time = '0s'",
            "preferred_group = ''",
        ] {
            assert!(read(line).is_ok(), "{line}: {:?}", read(line));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (line, key) in [
            ("workload_tolerance = -0.1", "broker.shard_client.workload_tolerance"),
            ("workload_tolerance = nan", "broker.shard_client.workload_tolerance"),
            ("connections_per_node = 1001", "broker.shard_client.connections_per_node"),
            ("health_check_timeout = '0s'", "broker.shard_client.health_check_timeout"),
            ("session_ttl = '1us'", "broker.shard_client.session_ttl"),
            ("health_check_retries = -1", "broker.shard_client.health_check_retries"),
            ("preferred_group = 'no such name!'", "broker.shard_client.preferred_group"),
            ("retry_time = 5", "retry_time"),
            ("blacklists = '1s'", "blacklists"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(key), "{line}: {error}");
        }
    }
}
