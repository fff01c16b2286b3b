//! What the detector has counted since its start.

use std::collections::BTreeMap;

use crate::{Inclusion, Outcome, SuspicionCause};

/// Counts since the start. A word of a label stands in its map once it has been counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Keys that became unhealthy.
    pub exclusions: u64,
    /// Keys that came back, by reason.
    pub inclusions: BTreeMap<Inclusion, u64>,
    /// Probes that ended, by the word of their outcome; those given up as `error`.
    pub probes: BTreeMap<&'static str, u64>,
    /// Suspicions, by cause, whether or not they excluded anybody.
    pub suspicions: BTreeMap<SuspicionCause, u64>,
    /// Events about a process that has been followed by another.
    pub stale_reports: u64,
}

impl Counters {
    pub(crate) fn included(&mut self, reason: Inclusion) {
        *self.inclusions.entry(reason).or_default() += 1;
    }

    pub(crate) fn probed(&mut self, outcome: &Outcome) {
        *self.probes.entry(outcome.as_str()).or_default() += 1;
    }

    pub(crate) fn suspected(&mut self, cause: SuspicionCause) {
        *self.suspicions.entry(cause).or_default() += 1;
    }
}
