//! The illness of one node.

use std::time::Duration;

use crate::Settings;

/// What is known of a key that stands in the unhealthy set. Times are since the driver's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was marked.
    pub since: Duration,
    /// What was seen then.
    pub evidence: String,
    /// When the next retry is due. It is past while that retry's probe is under way.
    pub next: Duration,
    /// The wait that leads to it.
    pub delay: Duration,
    /// Failed probes so far.
    pub tries: u64,
    /// What the last failed probe saw; `None` before the first.
    pub last_probe: Option<String>,
    /// Number of this illness among all, so that a verdict about an earlier one is told apart.
    pub(crate) illness: u64,
}

impl Record {
    pub(crate) fn new(illness: u64, evidence: String, now: Duration, settings: &Settings) -> Self {
        let delay = settings.initial_delay;
        let next = now.saturating_add(delay);
        Self { since: now, evidence, next, delay, tries: 0, last_probe: None, illness }
    }

    /// A probe found it ill again.
    pub(crate) fn stays(&mut self, evidence: String, now: Duration, settings: &Settings) {
        self.delay = settings.grown(self.delay);
        self.next = now.saturating_add(self.delay);
        self.tries += 1;
        self.last_probe = Some(evidence);
    }

    /// Whether the node is to be taken back without another probe.
    pub(crate) fn is_used_up(&self, settings: &Settings) -> bool {
        u64::try_from(settings.max_retries).is_ok_and(|limit| self.tries >= limit)
    }
}
