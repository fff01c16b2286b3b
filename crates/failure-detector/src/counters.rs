//! What the detector has counted since its start.

use std::collections::BTreeMap;

use crate::{Inclusion, Outcome};

/// Counts since the start. Every word of a label stands in the maps once it has been counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Nodes that became unhealthy.
    pub exclusions: u64,
    /// Nodes that came back, by reason.
    pub inclusions: BTreeMap<Inclusion, u64>,
    /// Probes that ended, by result.
    pub probes: BTreeMap<&'static str, u64>,
    /// Events about a process that has been followed by another.
    pub stale_reports: u64,
}

impl Counters {
    pub(crate) fn included(&mut self, reason: Inclusion) {
        *self.inclusions.entry(reason).or_default() += 1;
    }

    pub(crate) fn probed(&mut self, outcome: &Outcome) {
        let word = match outcome {
            Outcome::Healthy => "healthy",
            Outcome::Unhealthy(_) => "unhealthy",
            Outcome::Unknown => "unknown",
            Outcome::Error(_) => "error",
            Outcome::NotEnabled => "not_enabled",
        };
        *self.probes.entry(word).or_default() += 1;
    }
}
