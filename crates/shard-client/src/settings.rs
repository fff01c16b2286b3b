//! Settings, with the defaults that stand in the configuration reference.

use std::time::Duration;

/// How nodes are chosen among leaders that could all answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The node with the least work, as its last answers tell.
    #[default]
    LookAside,
    /// One after the other.
    RoundRobin,
}

impl Policy {
    /// The policy of a configuration's word. An unknown one means look-aside, and is logged.
    pub fn from_word(word: &str) -> Self {
        match word {
            "look_aside" => Self::LookAside,
            "round_robin" => Self::RoundRobin,
            _ => {
                tracing::warn!(
                    word,
                    "unknown balancer policy, look_aside is used; known are look_aside and round_robin"
                );
                Self::LookAside
            }
        }
    }
}

/// Settings of a [`ShardClient`](crate::ShardClient). Values out of range mean what their text says and are no error.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Which balancer [`crate::balancer`] makes.
    pub policy: Policy,
    /// Attempts of a request beyond one per leader; at least 1 is used.
    pub retry_on_replica: i64,
    /// No attempt of a request and no look for leaders is repeated when the request is this old, however many are left. What
    /// the caller is told then says when trying again makes sense. 0: no limit.
    pub retry_time: Duration,
    /// How long a node that failed for good is avoided for the shard; 0: not at all.
    pub blacklist: Duration,
    /// Pause between sweeps of the blacklist, which only free memory; 0 means 10 s.
    pub blacklist_sweep: Duration,
    /// Connections per node and address; 0 or less means 1.
    pub connections_per_node: i64,
    /// Look-aside compares the work of nodes at every so many choices; 0 or less means 1.
    pub check_workload_every: i64,
    /// Work is even while its highest score is above the lowest by at most this share of the lowest.
    pub workload_tolerance: f64,
    /// How long what an answer told about an idle node counts.
    pub cost_expiry: Duration,
    /// Pause between health checks of a node that does not answer requests; 0 means 1 s.
    pub health_check_interval: Duration,
    /// Deadline of a health check.
    pub health_check_timeout: Duration,
    /// Failed health checks in a row after which a node is unavailable.
    pub health_check_retries: u32,
    /// After failed checks of so long altogether a node is forgotten.
    pub session_ttl: Duration,
    /// A node that answers `collection_not_loaded` or `channel_misrouted` invalidates the cached leaders.
    pub invalidate_on_misrouted: bool,
    /// A node that fails fast looks idle: with this its failures count as work until an answer succeeds.
    pub failures_as_cost: bool,
    /// Refusals (`collection_not_fully_loaded`, `channel_not_available`) tell what was seen of the shard's leaders.
    pub causes: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            retry_on_replica: 2,
            retry_time: Duration::ZERO,
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
            invalidate_on_misrouted: false,
            failures_as_cost: false,
            causes: false,
        }
    }
}

impl Settings {
    pub(crate) fn sweep_every(&self) -> Duration {
        or_if_zero(self.blacklist_sweep, Duration::from_secs(10))
    }

    pub(crate) fn check_every(&self) -> Duration {
        or_if_zero(self.health_check_interval, Duration::from_secs(1))
    }

    pub(crate) fn connections(&self) -> usize {
        usize::try_from(self.connections_per_node).unwrap_or(1).max(1)
    }

    /// Attempts of a request whose shard has so many leaders, whatever its scope: under a scope each attempt is a look
    /// with a refresh, and the group with the fewest leaders needs the most of them.
    pub(crate) fn attempts(&self, leaders: usize) -> u64 {
        let more = u64::try_from(self.retry_on_replica).unwrap_or(1).max(1);
        (leaders as u64).saturating_add(more)
    }
}

fn or_if_zero(given: Duration, instead: Duration) -> Duration {
    if given.is_zero() { instead } else { given }
}
