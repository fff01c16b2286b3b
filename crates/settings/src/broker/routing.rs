//! Settings of how nodes are chosen, and of who is not chosen.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{SettingsError, load};

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
    /// Suspicions in a row that exclude a node; 0: they never do.
    pub suspicion_limit: u32,
    /// Older suspicions do not count.
    #[serde(with = "humantime_serde")]
    pub suspicion_window: Duration,
}

/// Section `[broker.fail_open]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailOpenSettings {
    /// Ask excluded nodes when nobody else holds what a query needs. The cluster's key of the same name overrides it.
    pub enabled: bool,
    /// Also for multi-stage requests.
    pub multi_stage: bool,
    /// Also for collections with `strict_replica_group`.
    pub strict: bool,
}

/// What adaptive selection ranks nodes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdaptiveKind {
    /// Nothing is ranked.
    #[default]
    None,
    /// The average of their latency.
    Latency,
    /// The number of requests in flight.
    InFlight,
    /// Both.
    Hybrid,
}

/// Section `[broker.adaptive]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdaptiveSettings {
    /// What nodes are ranked by.
    pub kind: AdaptiveKind,
    /// Weight of a new value in an average; 0 to 1.
    pub alpha: f64,
    /// An average that is not fed for so long drifts to that of the others; 0: never.
    #[serde(with = "humantime_serde")]
    pub decay_window: Duration,
    /// Values of a node's first so much time are ignored.
    #[serde(with = "humantime_serde")]
    pub warmup: Duration,
    /// Where averages begin; not negative.
    pub initial: f64,
    /// A node whose latency was fed fewer times is on trial.
    pub trial_samples: u64,
    /// Requests that may be under way to a node on trial before it comes after all others.
    pub trial_in_flight: u64,
    /// Exponent of the load in the score `hybrid`; not negative.
    pub hybrid_exponent: f64,
    /// What is added to the load in the score `hybrid`; not negative.
    pub hybrid_floor: f64,
}

/// A cluster besides the local one; its collections can be spanned by those of the local catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteClusterSettings {
    /// Its name.
    pub name: String,
    /// Addresses of its coordinators, as URLs.
    pub coordinators: Vec<String>,
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
            suspicion_limit: 3,
            suspicion_window: Duration::from_mins(5),
        }
    }
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self {
            kind: AdaptiveKind::None,
            alpha: 0.666,
            decay_window: Duration::from_secs(10),
            warmup: Duration::ZERO,
            initial: 1.0,
            trial_samples: 5,
            trial_in_flight: 2,
            hybrid_exponent: 3.0,
            hybrid_floor: 0.0,
        }
    }
}

impl FailureDetectorSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        load::check_duration("broker.failure_detector.initial_delay", self.initial_delay)?;
        load::check_duration("broker.failure_detector.probe_timeout", self.probe_timeout)?;
        load::check_duration("broker.failure_detector.suspicion_window", self.suspicion_window)?;
        if !self.max_delay.is_zero() {
            load::check_duration("broker.failure_detector.max_delay", self.max_delay)?;
        }
        if !(self.factor.is_finite() && self.factor > 0.0) {
            let key = "broker.failure_detector.factor";
            return Err(SettingsError::range(key, self.factor, "must be finite and above 0"));
        }
        Ok(())
    }
}

impl AdaptiveSettings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        if !(0.0..=1.0).contains(&self.alpha) {
            return Err(SettingsError::range("broker.adaptive.alpha", self.alpha, "must be from 0 to 1"));
        }
        let not_negative = [
            ("broker.adaptive.initial", self.initial),
            ("broker.adaptive.hybrid_exponent", self.hybrid_exponent),
            ("broker.adaptive.hybrid_floor", self.hybrid_floor),
        ];
        match not_negative.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
            Some((key, value)) => Err(SettingsError::range(key, value, "must be finite and not negative")),
            None => Ok(()),
        }
    }
}

/// Remote clusters have names of their own.
pub(super) fn check_remote(local: &str, remote: &[RemoteClusterSettings]) -> Result<(), SettingsError> {
    const KEY: &str = "broker.remote_clusters";
    for (at, cluster) in remote.iter().enumerate() {
        load::check_name(KEY, &cluster.name)?;
        let is_known = cluster.name == local || remote[..at].iter().any(|other| other.name == cluster.name);
        if is_known {
            return Err(SettingsError::range(KEY, &cluster.name, "is the name of another cluster already"));
        }
        load::check_coordinators(KEY, &cluster.coordinators)?;
    }
    Ok(())
}
