//! The guard against mass loss: a coordinator that loses most nodes at once is more likely cut off itself.

use std::{collections::BTreeMap, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::NodeName;

use crate::{SessionState, Stores};

/// Decides whether the coordinator suspects itself. While it does, it places nothing anew.
#[derive(Clone, Debug, Default)]
pub struct LossGuard {
    lost_at: BTreeMap<NodeName, MonoTime>,
    /// How many were lost when the suspicion arose; 0: there is none.
    suspected: usize,
}

impl LossGuard {
    /// Looks at the members again. The suspicion arises when more than `limit` (a part of 1) of all members were lost
    /// within one `lease`, and ends when half of those that were lost are back.
    pub fn update(&mut self, stores: &Stores, now: MonoTime, lease: Duration, limit: f64) {
        let members = || stores.groups.values().flat_map(|group| &group.members);
        let lost = |node: &&NodeName| stores.session(node.as_str()) == SessionState::Lost;
        let before = std::mem::take(&mut self.lost_at);
        self.lost_at = members()
            .filter(lost)
            .map(|node| (node.clone(), before.get(node).copied().unwrap_or(now)))
            .collect();
        if self.suspected > 0 && self.lost_at.len() * 2 > self.suspected {
            self.suspected = self.suspected.max(self.lost_at.len());
            return;
        }
        let recent = self.lost_at.values().filter(|at| now - **at <= lease).count();
        let total = members().count();
        #[expect(clippy::cast_precision_loss, reason = "numbers of nodes are small")]
        let beyond = recent as f64 > limit * total as f64;
        self.suspected = if beyond { recent } else { 0 };
    }

    /// Whether the coordinator suspects itself.
    pub fn is_suspicious(&self) -> bool {
        self.suspected > 0
    }
}
