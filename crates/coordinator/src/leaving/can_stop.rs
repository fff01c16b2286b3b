//! Whether a node may stop, and leases to stop.

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode, FeedVersion, NodeName};
use pointsman_metastore as store;
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{SessionState, StopLease, Stores, last_copies, settled};

use super::message;
use crate::{nodes::find, state::State, tenure::Tenure};

/// The longest wait for brokers.
const LONGEST_WAIT: Duration = Duration::from_secs(50);

impl Tenure {
    /// Answers whether a node may stop. What the answer rests on must be known to every broker: a lease is granted
    /// first, so that nobody else gets one meanwhile, and taken back should brokers not follow in time.
    pub(crate) async fn can_stop(&self, request: pb::CanStopRequest) -> Result<pb::CanStopResponse, Error> {
        let patience = Duration::from_millis(request.wait_ms).min(LONGEST_WAIT);
        let mut answer = match request.lease {
            true => self.ask_for_lease(&request).await?,
            false => self.publish_and(|state| state.may_stop(&request, self.now()))?,
        };
        if !answer.may_stop {
            return Ok(answer);
        }
        let missing = self.wait_for_brokers(FeedVersion(answer.feed_version), patience).await?;
        if !missing.is_nothing() {
            answer.may_stop = false;
            answer.brokers_awaited = !missing.awaited.is_zero();
            answer.lagging = message::lagging(missing);
            if request.lease {
                self.give_back_stop_lease(&request.node).await?;
                answer.lease_ms = 0;
            }
        }
        Ok(answer)
    }

    /// Asks, and grants the lease if the answer is yes, in one turn.
    async fn ask_for_lease(&self, request: &pb::CanStopRequest) -> Result<pb::CanStopResponse, Error> {
        let pen = self.begin_write().await?;
        let mut answer = self.publish_and(|state| state.may_stop(request, self.now()))?;
        if answer.may_stop {
            let (node, incarnation) = {
                let state = self.state();
                let record = find(&state.stores, &request.node)?;
                (record.name.clone(), record.incarnation)
            };
            let ttl = self.settings().stop_lease_ttl;
            let lease = store::StopLease { node: node.clone(), incarnation, remaining: ttl };
            let granted = pen.metastore.grant_stop_lease(pen.epoch, &lease).await;
            granted.map_err(|error| self.failed(error))?;
            tracing::info!(%node, ?ttl, "a lease to stop was granted");
            let lease = StopLease { incarnation, until: self.now() + ttl };
            self.state().stores.leaving.leases.insert(node, lease);
            answer.lease_ms = message::millis(ttl);
            // Others that leave cannot count on this node any more.
            self.wake();
        }
        Ok(answer)
    }

    pub(crate) async fn give_back_stop_lease(
        &self,
        name: &str,
    ) -> Result<pb::GiveBackStopLeaseResponse, Error> {
        let pen = self.begin_write().await?;
        let (node, had_lease, stored) = {
            let state = self.state();
            let node = find(&state.stores, name)?.name.clone();
            let had_lease = state.stores.stop_lease(name, self.now()).is_some();
            let stored = state.stores.leaving.leases.contains_key(&node);
            (node, had_lease, stored)
        };
        if stored {
            let ended = pen.metastore.end_stop_lease(pen.epoch, &node).await;
            ended.map_err(|error| self.failed(error))?;
            self.state().stores.leaving.leases.remove(&node);
            tracing::info!(%node, "a lease to stop was given back");
            self.wake();
        }
        Ok(pb::GiveBackStopLeaseResponse { had_lease })
    }
}

impl State {
    /// The answer for what is published, without a look at brokers.
    fn may_stop(&self, request: &pb::CanStopRequest, now: MonoTime) -> Result<pb::CanStopResponse, Error> {
        let stores = &self.stores;
        let node = &find(stores, &request.node)?.name;
        is_heard(stores, node)?;
        let last = last_copies(stores, node, now);
        let lease = stores.stop_lease(node.as_str(), now);
        Ok(pb::CanStopResponse {
            may_stop: last.may_stop(request.group_safe),
            last_in_cluster: message::copies(stores, &last.in_cluster),
            last_in_group: message::copies(stores, &last.in_group),
            last_in_cluster_total: last.in_cluster.len() as u64,
            last_in_group_total: last.in_group.len() as u64,
            feed_version: self.feed.newest().0,
            lease_ms: lease.map_or(0, |lease| message::millis(lease.until - now)),
            ..Default::default()
        })
    }
}

/// Whether all is known that the answer for a node rests on.
///
/// # Errors
/// `service_not_ready` while the node, or one that serves the same collections, was not heard yet.
fn is_heard(stores: &Stores, node: &NodeName) -> Result<(), Error> {
    let unheard = |who: &str| {
        let text = format!("{who} was not heard yet since this coordinator became active; try again");
        Err(Error::new(ErrorCode::ServiceNotReady, text))
    };
    let reported = stores.observed.get(node).is_some_and(|seen| seen.reported);
    match stores.session(node.as_str()) {
        SessionState::Awaited => return unheard(&format!("node '{node}'")),
        SessionState::Live | SessionState::Stopping if !reported => {
            return unheard(&format!("what node '{node}' holds"));
        }
        _ => {}
    }
    let own = stores.replicas.iter().filter(|replica| replica.contains(node.as_str()));
    let mut beside = own.flat_map(|replica| stores.replicas_of(replica.collection));
    if stores.awaiting && beside.any(|replica| !settled(stores, replica)) {
        return unheard(&format!("a node that serves the same as node '{node}'"));
    }
    Ok(())
}
