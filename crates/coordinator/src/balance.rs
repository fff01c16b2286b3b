//! Rounds of balance, and what placement goes by.

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_query_coord::{PlacementRules, balance::BalanceSettings, rebalance};
use pointsman_settings::CoordinatorSettings;

use crate::{metrics, state::State};

/// When load is evened out next.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    due: MonoTime,
}

/// What placement goes by, as the settings say it.
pub(crate) fn rules(settings: &CoordinatorSettings) -> PlacementRules {
    let balance = &settings.balance;
    PlacementRules {
        balance: BalanceSettings {
            auto: settings.auto_balance,
            leaders: settings.auto_balance_leaders,
            drain_stopping: balance.drain_stopping,
            global_row_factor: balance.global_row_factor,
            tolerance: balance.tolerance,
            reverse_tolerance: balance.reverse_tolerance,
            leader_overhead: balance.leader_overhead,
            segment_batch: balance.segment_batch,
            leader_batch: balance.leader_batch,
        },
        segment_load_tries: settings.segment_load_tries,
    }
}

impl State {
    /// Whether it is time for a round.
    pub(crate) fn balance_is_due(&self, now: MonoTime) -> bool {
        now >= self.rounds.due
    }

    /// Evens out load if it is time for that. While most members are lost nothing moves.
    pub(crate) fn balance(&mut self, now: MonoTime, interval: Duration) {
        if !self.balance_is_due(now) {
            return;
        }
        self.rounds.due = now + interval;
        if self.guard.is_suspicious() {
            return;
        }
        let round = rebalance(&self.stores);
        if !round.is_empty() {
            let (segments, leads) = (round.segments.len(), round.leads.len());
            tracing::info!(segments, leads, "moving to even out load");
            metrics::balanced(segments, leads);
            round.apply(&mut self.stores);
        }
    }
}
