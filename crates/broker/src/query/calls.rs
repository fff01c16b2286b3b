//! The calls of one attempt: each has a place at its node and stands in the statistics until it has ended.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use parking_lot::Mutex;
use pointsman_clock::Clock;
use pointsman_ids::{Error, NodeKey, Result};
use pointsman_instance_selector::{Ended, InFlight as Measuring};
use pointsman_routing::RoutingView;

use super::in_flight::{InFlight, Place};

/// The calls that one attempt has under way: at most one per node. Dropping them ends them without a word on the nodes.
#[derive(Debug)]
pub(super) struct Calls {
    places: Arc<InFlight>,
    clock: Arc<dyn Clock>,
    view: Arc<RoutingView>,
    /// When the query's time has passed, since the start of the clock.
    deadline: Duration,
    open: Mutex<BTreeMap<NodeKey, Call>>,
}

/// A call under way.
#[derive(Debug)]
struct Call {
    #[expect(dead_code, reason = "held for its drop")]
    place: Place,
    /// `None`: the node is no member any more.
    measuring: Option<Measuring>,
    sent: Duration,
}

impl Calls {
    /// No call yet.
    pub(super) fn new(
        places: Arc<InFlight>,
        clock: Arc<dyn Clock>,
        view: Arc<RoutingView>,
        deadline: Duration,
    ) -> Self {
        Self { places, clock, view, deadline, open: Mutex::default() }
    }

    /// Begins calls to these nodes, and waits for their places side by side.
    ///
    /// # Errors
    /// The nodes that have no place to give, with `service_too_many_requests`; the calls to the others have begun.
    pub(super) async fn begin(
        &self,
        nodes: impl IntoIterator<Item = &NodeKey>,
    ) -> Result<(), Vec<(NodeKey, Error)>> {
        let remaining = self.deadline.saturating_sub(self.now());
        let entering = nodes.into_iter().map(async |node| {
            let place = self.places.enter(node, remaining).await.map_err(|error| (node.clone(), error))?;
            self.sent(node, place);
            Ok(())
        });
        let refused: Vec<_> = join_all(entering).await.into_iter().filter_map(Result::err).collect();
        if refused.is_empty() { Ok(()) } else { Err(refused) }
    }

    /// Begins a call without waiting, unless one to the node is under way.
    ///
    /// # Errors
    /// `service_too_many_requests` when the node has no place to give.
    pub(super) fn begin_now(&self, node: &NodeKey) -> Result<()> {
        if !self.open.lock().contains_key(node) {
            let place = self.places.enter_now(node)?;
            self.sent(node, place);
        }
        Ok(())
    }

    /// The node has answered completely. Says whether a call to it was under way.
    pub(super) fn answered(&self, node: &NodeKey) -> bool {
        self.end(node, |took, _| Ended::Answered(took))
    }

    /// The node has failed. Says whether a call to it was under way.
    pub(super) fn failed(&self, node: &NodeKey) -> bool {
        self.end(node, |took, allowance| Ended::Failed { took, allowance })
    }

    /// The call to the node has ended without a word on it. Says whether one was under way.
    pub(super) fn left(&self, node: &NodeKey) -> bool {
        self.open.lock().remove(node).is_some()
    }

    fn sent(&self, node: &NodeKey, place: Place) {
        let sent = self.now();
        let measuring = self.view.sent(node, sent);
        self.open.lock().insert(node.clone(), Call { place, measuring, sent });
    }

    fn end(&self, node: &NodeKey, how: impl FnOnce(Duration, Duration) -> Ended) -> bool {
        let Some(call) = self.open.lock().remove(node) else { return false };
        let now = self.now();
        if let Some(measuring) = call.measuring {
            let (took, allowance) = (now.saturating_sub(call.sent), self.deadline.saturating_sub(call.sent));
            measuring.ended(how(took, allowance), now);
        }
        true
    }

    /// Since the start of the clock.
    pub(super) fn now(&self) -> Duration {
        self.clock.mono().since_start()
    }
}
