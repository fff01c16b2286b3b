//! Settings of how the coordinator evens out load.

use serde::{Deserialize, Serialize};

use crate::SettingsError;

/// What decides where segments go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balancer {
    /// Rows of the collection on a node and, with less weight, all rows on it.
    #[default]
    Score,
}

/// Section `[coordinator.balance]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BalanceSettings {
    /// Whether what lies on nodes that are to be emptied is moved.
    pub drain_stopping: bool,
    /// What all rows on a node weigh beside those of the collection at hand; 0 to 1000.
    pub global_row_factor: f64,
    /// What leading a shard weighs, as a part of a node's fair share; 0 to 1000.
    pub leader_overhead: f64,
    /// Leads of a replica that move in one round; at least 1.
    pub leader_batch: usize,
    /// Segments of a replica that move in one round; at least 1.
    pub segment_batch: usize,
    /// A difference below this part of the receiver's priority is none; 0 to 1000.
    pub tolerance: f64,
    /// A move after which the receiver has more than the giver must make the difference so many times smaller; 1 to
    /// 1000.
    pub reverse_tolerance: f64,
}

impl Default for BalanceSettings {
    fn default() -> Self {
        Self {
            drain_stopping: true,
            global_row_factor: 0.1,
            leader_overhead: 0.1,
            leader_batch: 1,
            segment_batch: 5,
            tolerance: 0.05,
            reverse_tolerance: 1.3,
        }
    }
}

impl BalanceSettings {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let factors = [
            ("coordinator.balance.global_row_factor", self.global_row_factor),
            ("coordinator.balance.leader_overhead", self.leader_overhead),
            ("coordinator.balance.tolerance", self.tolerance),
        ];
        for (key, value) in factors {
            if !(0.0..=1000.0).contains(&value) {
                return Err(SettingsError::range(key, value, "must be 0 to 1000"));
            }
        }
        if !(1.0..=1000.0).contains(&self.reverse_tolerance) {
            let key = "coordinator.balance.reverse_tolerance";
            return Err(SettingsError::range(key, self.reverse_tolerance, "must be 1 to 1000"));
        }
        let batches = [
            ("coordinator.balance.leader_batch", self.leader_batch),
            ("coordinator.balance.segment_batch", self.segment_batch),
        ];
        for (key, value) in batches {
            if value == 0 {
                return Err(SettingsError::range(key, value, "must be at least 1"));
            }
        }
        Ok(())
    }
}
