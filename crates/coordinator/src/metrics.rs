//! Metrics of the coordinator.
//!
//! | name | kind | meaning |
//! |---|---|---|
//! | `pointsman_coordinator_active` | gauge | 1 while it holds the lease, else 0 |
//! | `pointsman_coordinator_epoch` | gauge | fencing epoch; 0 while it stands by |
//! | `pointsman_coordinator_history_lost` | gauge | 1 while active on a metastore that failed over: its newest changes may be lost |
//! | `pointsman_coordinator_feed_version` | gauge | newest version of the routing feed |
//! | `pointsman_coordinator_brokers` | gauge | brokers that watch the feed |
//! | `pointsman_coordinator_brokers_behind` | gauge | those that do not route by the newest version yet |
//! | `pointsman_coordinator_nodes{state}` | gauge | members that were heard, by state of their session |
//! | `pointsman_coordinator_drains{phase}` | gauge | nodes that operators drain: `moving`, `leaving` or `drained` |
//! | `pointsman_coordinator_stop_leases` | gauge | leases to stop that run |
//! | `pointsman_coordinator_collections` | gauge | collections of the catalog |
//! | `pointsman_coordinator_loads` | gauge | registered loads |
//! | `pointsman_coordinator_loads_stalled` | gauge | loads that have made no progress for 30 s |
//! | `pointsman_coordinator_loads_ended_total` | counter | loads that ended without having finished |
//! | `pointsman_coordinator_segments_failed` | gauge | segments that some node failed to load |
//! | `pointsman_coordinator_balance_moves_total{kind}` | counter | `segment`s and `lead`s that were moved to even out load |
//! | `pointsman_coordinator_nodes_without_room` | gauge | nodes that get nothing new for a while since they had no room |
//! | `pointsman_coordinator_mass_loss` | gauge | 1 while it suspects itself and moves nothing |
//! | `pointsman_coordinator_promotions_total` | counter | targets that became current |
//! | `pointsman_coordinator_sessions_refused_total` | counter | hellos of nodes that were refused |
//! | `pointsman_coordinator_metastore_failures_total{kind}` | counter | calls of the metastore that failed |
//! | `pointsman_coordinator_reconcile_seconds` | histogram | time of one look at everything |

use std::time::Duration;

use metrics::{counter, gauge, histogram};
use pointsman_ids::{Epoch, FeedVersion};
use pointsman_metastore::Error;
use pointsman_proto::coordinator::v1::DrainPhase;
use pointsman_query_coord::SessionState;

use crate::{brokers::Brokers, state::State};

#[expect(clippy::cast_precision_loss, reason = "gauges are floating point; what is lost is below any use")]
fn number(value: u64) -> f64 {
    value as f64
}

pub(crate) fn active(epoch: Option<Epoch>) {
    gauge!("pointsman_coordinator_active").set(f64::from(u8::from(epoch.is_some())));
    gauge!("pointsman_coordinator_epoch").set(number(epoch.map_or(0, |epoch| epoch.0)));
}

pub(crate) fn history_lost(lost: bool) {
    gauge!("pointsman_coordinator_history_lost").set(f64::from(u8::from(lost)));
}

pub(crate) fn stalled(loads: usize) {
    gauge!("pointsman_coordinator_loads_stalled").set(number(loads as u64));
}

pub(crate) fn load_ended() {
    counter!("pointsman_coordinator_loads_ended_total").increment(1);
}

pub(crate) fn published(version: FeedVersion) {
    gauge!("pointsman_coordinator_feed_version").set(number(version.0));
}

pub(crate) fn brokers(brokers: &Brokers, newest: FeedVersion) {
    let live = brokers.live();
    let behind = live.values().filter(|broker| broker.routes_by < newest).count();
    gauge!("pointsman_coordinator_brokers").set(number(live.len() as u64));
    gauge!("pointsman_coordinator_brokers_behind").set(number(behind as u64));
}

pub(crate) fn drains(phases: impl Iterator<Item = DrainPhase>) {
    let (mut moving, mut leaving, mut drained) = (0, 0, 0);
    for phase in phases {
        match phase {
            DrainPhase::Unspecified => {}
            DrainPhase::Moving => moving += 1,
            DrainPhase::Leaving => leaving += 1,
            DrainPhase::Drained => drained += 1,
        }
    }
    for (phase, count) in [("moving", moving), ("leaving", leaving), ("drained", drained)] {
        gauge!("pointsman_coordinator_drains", "phase" => phase).set(number(count));
    }
}

pub(crate) fn stop_leases(count: usize) {
    gauge!("pointsman_coordinator_stop_leases").set(number(count as u64));
}

pub(crate) fn promoted() {
    counter!("pointsman_coordinator_promotions_total").increment(1);
}

pub(crate) fn balanced(segments: usize, leads: usize) {
    for (kind, count) in [("segment", segments), ("lead", leads)] {
        counter!("pointsman_coordinator_balance_moves_total", "kind" => kind).increment(count as u64);
    }
}

pub(crate) fn session_refused() {
    counter!("pointsman_coordinator_sessions_refused_total").increment(1);
}

pub(crate) fn reconciled(took: Duration) {
    histogram!("pointsman_coordinator_reconcile_seconds").record(took.as_secs_f64());
}

pub(crate) fn metastore_failed(error: &Error) {
    let kind = match error {
        Error::Fenced { .. } => "fenced",
        Error::AnotherServer { .. } => "another_server",
        Error::Refused(_) => "refused",
        Error::Unavailable(_) => "unavailable",
        Error::OutcomeUnknown(_) => "outcome_unknown",
        Error::Failed(_) => "failed",
        Error::Open { .. } | Error::Schema(_) | Error::Corrupt { .. } | Error::Url(_) => "unusable",
    };
    counter!("pointsman_coordinator_metastore_failures_total", "kind" => kind).increment(1);
}

pub(crate) fn state(state: &State) {
    let stores = &state.stores;
    for (word, wanted) in [
        ("live", SessionState::Live),
        ("stopping", SessionState::Stopping),
        ("lost", SessionState::Lost),
        ("gone", SessionState::Gone),
    ] {
        let count = stores.observed.values().filter(|seen| seen.state == wanted).count();
        gauge!("pointsman_coordinator_nodes", "state" => word).set(number(count as u64));
    }
    gauge!("pointsman_coordinator_collections").set(number(stores.collections.len() as u64));
    gauge!("pointsman_coordinator_loads").set(number(stores.loads.iter().count() as u64));
    let failed = stores.failures.values().filter(|nodes| !nodes.is_empty()).count();
    gauge!("pointsman_coordinator_segments_failed").set(number(failed as u64));
    let without_room = stores.penalties.iter().count();
    gauge!("pointsman_coordinator_nodes_without_room").set(number(without_room as u64));
    gauge!("pointsman_coordinator_mass_loss").set(f64::from(u8::from(state.guard.is_suspicious())));
}
