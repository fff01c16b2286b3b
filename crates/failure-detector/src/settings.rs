//! Settings of the detector.

use std::time::Duration;

use pointsman_ids::{Error, ErrorCode};

/// The shortest wait before a probe.
pub(crate) const MIN_DELAY: Duration = Duration::from_millis(1);

/// What tells that a node is ill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Connections and answers tell.
    #[default]
    Connection,
    /// Nothing does: every report is accepted, and nobody is ever excluded.
    None,
}

/// When nodes are excluded, and when they are looked at again.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What tells that a node is ill.
    pub kind: Kind,
    /// Wait before the first probe; at least 1 ms.
    pub initial_delay: Duration,
    /// What the wait is multiplied with after each probe that failed; finite and above 0.
    pub factor: f64,
    /// The longest wait, at least 1 ms; zero: no limit.
    pub max_delay: Duration,
    /// Failed probes after which a node comes back without one; negative: probes without end.
    pub max_retries: i64,
    /// How long a driver lets a probe run, at least 1 ms. A verdict that has not come long after that is given up.
    pub probe_timeout: Duration,
    /// How many suspicions in a row exclude a node; 0: they never do.
    pub suspicion_limit: u32,
    /// Suspicions that are older do not count any more.
    pub suspicion_window: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kind: Kind::Connection,
            initial_delay: Duration::from_secs(5),
            factor: 2.0,
            max_delay: Duration::from_secs(60),
            max_retries: 10,
            probe_timeout: Duration::from_secs(2),
            suspicion_limit: 3,
            suspicion_window: Duration::from_mins(5),
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::new(ErrorCode::ParameterInvalid, what));
        let no_limit = self.max_delay.is_zero();
        let delays = [
            ("initial_delay", self.initial_delay, ""),
            ("max_delay", if no_limit { MIN_DELAY } else { self.max_delay }, " (0 means no limit)"),
            ("probe_timeout", self.probe_timeout, ""),
        ];
        if let Some((name, delay, hint)) = delays.into_iter().find(|(_, delay, _)| *delay < MIN_DELAY) {
            return refuse(format!("{name} {delay:?} of the failure detector is below 1ms{hint}"));
        }
        if !(self.factor.is_finite() && self.factor > 0.0) {
            return refuse(format!(
                "factor {} of the failure detector is not finite and above 0",
                self.factor
            ));
        }
        Ok(())
    }

    /// The wait after one of `delay`: grown by the factor, cut to whole nanoseconds, within the limits.
    pub(crate) fn grown(&self, delay: Duration) -> Duration {
        let limit = if self.max_delay.is_zero() { Duration::MAX } else { self.max_delay };
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cut to whole nanoseconds is the rule, and casts from floating point saturate"
        )]
        let grown = Duration::from_nanos((delay.as_nanos() as f64 * self.factor) as u64);
        grown.clamp(MIN_DELAY, limit)
    }
}
