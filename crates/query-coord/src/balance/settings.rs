//! Settings of balance.

/// How balance weighs and how much it moves at once. Keys are those of the coordinator's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct BalanceSettings {
    /// `coordinator.auto_balance`: whether segments and leads move only to even out load. Draining goes on without.
    pub auto: bool,
    /// `coordinator.auto_balance_leaders`: whether leads are evened out before segments.
    pub leaders: bool,
    /// `coordinator.balance.drain_stopping`: whether read-only nodes are emptied.
    pub drain_stopping: bool,
    /// `coordinator.balance.global_row_factor`: what rows of any collection on a node weigh beside those of the
    /// collection at hand; at least 0.
    pub global_row_factor: f64,
    /// `coordinator.balance.tolerance`: a difference below this part of the receiver's priority is none; at least 0.
    pub tolerance: f64,
    /// `coordinator.balance.reverse_tolerance`: a move after which the receiver has more than the giver must make the
    /// difference so many times smaller; at least 1.
    pub reverse_tolerance: f64,
    /// `coordinator.balance.leader_overhead`: what leading one shard weighs, as a part of the fair share; at least 0.
    pub leader_overhead: f64,
    /// `coordinator.balance.segment_batch`: segments that are assigned before shares are computed anew, and that a
    /// replica moves in one round; at least 1.
    pub segment_batch: usize,
    /// `coordinator.balance.leader_batch`: leads that a replica moves in one round; at least 1.
    pub leader_batch: usize,
}

impl Default for BalanceSettings {
    fn default() -> Self {
        Self {
            auto: true,
            leaders: true,
            drain_stopping: true,
            global_row_factor: 0.1,
            tolerance: 0.05,
            reverse_tolerance: 1.3,
            leader_overhead: 0.1,
            segment_batch: 5,
            leader_batch: 1,
        }
    }
}
