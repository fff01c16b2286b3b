//! Drains: started, looked at, taken back.

use std::time::Duration;

use pointsman_ids::{Error, NodeName};
use pointsman_metastore::Drain;
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{Departure, place, plan_leads};

use super::{brokers::Missing, message};
use crate::{nodes::find, state::State, tenure::Tenure};

impl Tenure {
    /// Starts a drain, or starts one anew that is overdue.
    pub(crate) async fn drain_node(&self, name: &str) -> Result<pb::DrainNodeResponse, Error> {
        let timeout = self.settings().drain_timeout;
        let (node, started) = {
            let pen = self.begin_write().await?;
            let (node, running) = {
                let state = self.state();
                let node = find(&state.stores, name)?.name.clone();
                let since = state.stores.leaving.drains.get(&node);
                let running = since.is_some_and(|since| self.age(*since) < timeout);
                (node, running)
            };
            if !running {
                let drain = Drain { node: node.clone(), since: self.wall() };
                let started = pen.metastore.start_drain(pen.epoch, &drain).await;
                started.map_err(|error| self.failed(error))?;
                tracing::info!(%node, "the node is to be drained");
                self.state().change_drain(&node, Some(drain.since));
            }
            (node, !running)
        };
        self.publish();
        self.wake();
        Ok(pb::DrainNodeResponse { started, drain: self.drain(&node) })
    }

    /// How far a drain is; `None`: nobody drains the node.
    pub(crate) fn get_drain(&self, name: &str) -> Result<pb::GetDrainResponse, Error> {
        let node = find(&self.state().stores, name)?.name.clone();
        Ok(pb::GetDrainResponse { drain: self.drain(&node) })
    }

    /// Takes a drain back.
    pub(crate) async fn cancel_drain(&self, name: &str) -> Result<pb::CancelDrainResponse, Error> {
        let was_draining = {
            let pen = self.begin_write().await?;
            let (node, was_draining) = {
                let state = self.state();
                let node = find(&state.stores, name)?.name.clone();
                let was_draining = state.stores.leaving.drains.contains_key(&node);
                (node, was_draining)
            };
            if was_draining {
                let ended = pen.metastore.end_drain(pen.epoch, &node).await;
                ended.map_err(|error| self.failed(error))?;
                tracing::info!(%node, "the drain was taken back");
                self.state().change_drain(&node, None);
            }
            was_draining
        };
        self.publish();
        self.wake();
        Ok(pb::CancelDrainResponse { was_draining })
    }

    fn drain(&self, node: &NodeName) -> Option<pb::Drain> {
        let timeout = self.settings().drain_timeout;
        let state = self.state();
        let age = self.age(*state.stores.leaving.drains.get(node)?);
        let out = state.out_since(node.as_str());
        let missing = out.map(|out| self.missing(out));
        Some(state.drain(node, age, timeout.saturating_sub(age), missing))
    }

    /// How long ago a drain was asked for.
    fn age(&self, since: u64) -> Duration {
        Duration::from_nanos(self.wall().saturating_sub(since))
    }
}

impl State {
    /// Places and leads follow at once, so that what is published next rests on them.
    fn change_drain(&mut self, node: &NodeName, since: Option<u64>) {
        match since {
            Some(since) => drop(self.stores.leaving.drains.insert(node.clone(), since)),
            None => drop(self.stores.leaving.drains.remove(node)),
        }
        self.replan();
    }

    /// Decides places and leads anew.
    pub(crate) fn replan(&mut self) {
        // Leads first: what is read-only gives its segments away when it leads nothing more.
        self.stores.leads = plan_leads(&self.stores);
        let changes = self.take_unplaced();
        place(&mut self.stores, &changes, self.guard.is_suspicious());
    }

    fn drain(
        &self,
        node: &NodeName,
        age: Duration,
        remaining: Duration,
        missing: Option<Missing>,
    ) -> pb::Drain {
        let stores = &self.stores;
        let nothing = Departure::default();
        let departure = self.leavers.departure(node).unwrap_or(&nothing);
        let missing = missing.unwrap_or_default();
        pb::Drain {
            node: node.to_string(),
            phase: self.drain_phase(node, missing.is_nothing()).into(),
            since_ms: message::millis(age),
            remaining_ms: message::millis(remaining),
            moves: message::moves(stores, &departure.moves),
            moves_total: departure.moves.len() as u64,
            stuck: message::copies(stores, &departure.stuck),
            stuck_total: departure.stuck.len() as u64,
            kept: departure.kept as u64,
            brokers_awaited: !missing.awaited.is_zero(),
            lagging: message::lagging(missing),
            feed_version: self.out_since(node.as_str()).map_or(0, |version| version.0),
            calls: self.calls(node.as_str()),
            lingering: self.desired.lingering(node.as_str()) as u64,
        }
    }
}
