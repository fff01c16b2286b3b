//! Waiting until every broker routes by a version.

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode, FeedVersion};
use tokio::time::{Instant, sleep_until};

use crate::{brokers::LiveBroker, tenure::Tenure};

/// What is missing until every broker routes by a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Brokers that do not yet, by name.
    pub(super) lagging: Vec<(String, LiveBroker)>,
    /// How long brokers of a former coordinator may take to come back.
    pub(super) awaited: Duration,
}

impl Missing {
    pub(super) fn is_nothing(&self) -> bool {
        self.lagging.is_empty() && self.awaited.is_zero()
    }
}

impl Tenure {
    /// What is missing until every broker routes by `version`. One that routed by what a former coordinator said counts
    /// until it would not be live any more: it is about to come back.
    pub(super) fn missing(&self, version: FeedVersion) -> Missing {
        Missing { lagging: self.brokers.lagging(version), awaited: self.brokers_known_at() - self.now() }
    }

    /// Whether every broker that routes by something of this cluster has had the time to come.
    pub(crate) fn brokers_are_known(&self) -> bool {
        self.now() >= self.brokers_known_at()
    }

    fn brokers_known_at(&self) -> MonoTime {
        self.began() + self.settings().broker_lease_ttl
    }

    /// Waits until every broker routes by `version`, for at most `patience`; what is missing then.
    ///
    /// # Errors
    /// `service_not_ready` when this coordinator is not active any more.
    pub(super) async fn wait_for_brokers(
        &self,
        version: FeedVersion,
        patience: Duration,
    ) -> Result<Missing, Error> {
        let deadline = Instant::now() + patience;
        let mut changed = self.brokers.changed();
        loop {
            changed.mark_unchanged();
            let missing = self.missing(version);
            let now = Instant::now();
            if missing.is_nothing() || now >= deadline {
                return Ok(missing);
            }
            let look = if missing.awaited.is_zero() { deadline } else { deadline.min(now + missing.awaited) };
            tokio::select! {
                _ = changed.changed() => {}
                () = sleep_until(look) => {}
                () = self.over.cancelled() => {
                    let text = "this coordinator is not active any more";
                    return Err(Error::new(ErrorCode::ServiceNotReady, text));
                }
            }
        }
    }
}
