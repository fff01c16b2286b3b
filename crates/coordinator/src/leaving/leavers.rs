//! How far nodes are that leave, and what follows when every broker routes without them.

use std::collections::BTreeMap;

use pointsman_clock::MonoTime;
use pointsman_ids::{FeedVersion, NodeName};
use pointsman_proto::coordinator::v1::DrainPhase;
use pointsman_query_coord::{Departure, SessionState, departures};

use crate::{brokers::Brokers, metrics, state::State, tenure::Tenure};

/// Nodes that leave.
#[derive(Debug, Default)]
pub(crate) struct Leavers {
    /// What each has to give away, as was decided when the feed was made last.
    departures: BTreeMap<NodeName, Departure>,
    /// The version without the node, and since when every broker routes by it.
    out: BTreeMap<NodeName, (FeedVersion, MonoTime)>,
}

impl Leavers {
    pub(super) fn departure(&self, node: &NodeName) -> Option<&Departure> {
        self.departures.get(node)
    }

    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.departures.remove(node);
        self.out.remove(node);
    }
}

impl Tenure {
    /// Follows what brokers say that they route by, for ever.
    pub(crate) async fn follow_brokers(&self) {
        let mut changed = self.brokers.changed();
        while changed.changed().await.is_ok() {
            self.settle_leavers();
        }
    }

    /// Looks which nodes every broker routes without, and lets those go whose process waits for that.
    pub(crate) fn settle_leavers(&self) {
        let missing = |version| !self.missing(version).is_nothing();
        let mut state = self.state();
        state.settle_leavers(&self.brokers, self.now());
        let phase = |node: &NodeName| {
            let behind = state.out_since(node.as_str()).is_none_or(missing);
            state.drain_phase(node, !behind)
        };
        metrics::drains(state.stores.leaving.drains.keys().map(phase));
        let leases = state.stores.leaving.leases.keys();
        let leases = leases.filter(|node| state.stores.stop_lease(node.as_str(), self.now()).is_some());
        metrics::stop_leases(leases.count());
    }
}

impl State {
    /// Decides who of those that leave is needed in service. Before brokers are told anything.
    pub(crate) fn weigh_departures(&mut self, now: MonoTime) {
        let departures = departures(&self.stores, now);
        let needed = departures.iter().filter(|(_, departure)| departure.needed);
        self.stores.leaving.needed = needed.map(|(node, _)| node.clone()).collect();
        self.leavers.departures = departures;
    }

    /// Whether a node that stops waits no longer for others to take over.
    pub(crate) fn waited_enough(&self, now: MonoTime) -> bool {
        let leaving = &self.stores.leaving;
        let over = |node: &NodeName| {
            self.stores.observed.get(node).is_some_and(|seen| seen.state == SessionState::Stopping)
                && leaving.stops.get(node).is_none_or(|until| *until <= now)
        };
        leaving.needed.iter().any(over)
    }

    /// The version since which brokers are told that queries may not go to a node that leaves; `None`: not yet.
    pub(crate) fn out_since(&self, node: &str) -> Option<FeedVersion> {
        if self.feed.listed().is_enabled(node) {
            return None;
        }
        let unlisted = || (!self.stores.awaiting).then(|| self.feed.newest());
        self.feed.listed().out_since(node).or_else(unlisted)
    }

    fn settle_leavers(&mut self, brokers: &Brokers, now: MonoTime) {
        let lowest = brokers.lowest();
        let mut before = std::mem::take(&mut self.leavers.out);
        for node in self.leavers.departures.keys() {
            let Some(version) = self.out_since(node.as_str()).filter(|version| lowest >= *version) else {
                continue;
            };
            // What was moved stays a while for queries that were planned before.
            if self.desired.lingering(node.as_str()) > 0 {
                continue;
            }
            let since = before.remove(node).filter(|(before, _)| *before == version);
            self.leavers.out.insert(node.clone(), since.unwrap_or((version, now)));
            let stops =
                self.stores.observed.get(node).is_some_and(|seen| seen.state == SessionState::Stopping);
            if let Some(session) = self.sessions.get(node).filter(|_| stops) {
                session.leave.cancel();
            }
        }
    }

    /// Calls that run on a node, as it said last; `None`: it did not say, or is not there.
    pub(crate) fn calls(&self, node: &str) -> Option<u64> {
        self.sessions.get(node).filter(|_| self.stores.is_present(node))?.calls
    }

    /// How far a drain is, if every broker routes without the node, or some do not.
    pub(crate) fn drain_phase(&self, node: &NodeName, applied: bool) -> DrainPhase {
        let out = self.leavers.out.get(node).filter(|_| applied);
        match (self.stores.leaving.needed.contains(node), out) {
            (true, _) => DrainPhase::Moving,
            (false, Some((_, since))) if self.is_quiet(node, *since) => DrainPhase::Drained,
            (false, _) => DrainPhase::Leaving,
        }
    }

    /// Whether a node has said after `since` that no call runs on it. One that is not there need not.
    fn is_quiet(&self, node: &NodeName, since: MonoTime) -> bool {
        let Some(session) = self.sessions.get(node).filter(|_| self.stores.is_present(node.as_str())) else {
            return true;
        };
        session.reported.is_some_and(|at| at > since) && session.calls.unwrap_or_default() == 0
    }
}
