//! What operators do with nodes: switch them off and on, and have them forgotten.

use std::{collections::BTreeSet, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode, NodeName, near};
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{NodeRecord, SessionState, Stores, may_remove, plan_leads};

use crate::{state::State, tenure::Tenure};

/// A node that must be registered.
pub(crate) fn find<'a>(stores: &'a Stores, name: &str) -> Result<&'a NodeRecord, Error> {
    stores.nodes.get(name).ok_or_else(|| {
        let hint = near(name, stores.nodes.keys().map(NodeName::as_str), "there is none yet");
        let text = format!("there is no node '{}'; {hint}", name.escape_debug());
        Error::new(ErrorCode::NodeNotFound, text)
    })
}

/// Not less than it takes.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Nodes of the request whose switch stands otherwise.
fn to_turn(stores: &Stores, request: &pb::SetNodeEnabledRequest) -> Result<Vec<NodeName>, Error> {
    if request.nodes.is_empty() {
        return Err(Error::new(ErrorCode::ParameterMissing, "name at least one node"));
    }
    let mut turned = BTreeSet::new();
    for name in &request.nodes {
        let record = find(stores, name)?;
        if record.switched_on != request.enabled {
            turned.insert(record.name.clone());
        }
    }
    Ok(turned.into_iter().collect())
}

impl Tenure {
    pub(crate) async fn set_node_enabled(
        &self,
        request: pb::SetNodeEnabledRequest,
    ) -> Result<pb::SetNodeEnabledResponse, Error> {
        let on = request.enabled;
        let turned = {
            let pen = self.begin_write().await?;
            let turned = to_turn(&self.state().stores, &request)?;
            if turned.is_empty() {
                return Ok(pb::SetNodeEnabledResponse::default());
            }
            let written = pen.metastore.set_switch(pen.epoch, &turned, on).await;
            written.map_err(|error| self.failed(error))?;
            self.state().turn_switch(&turned, on);
            turned
        };
        for node in &turned {
            tracing::info!(%node, on, "an operator turned a node's switch");
        }
        // Brokers hear of it at once; what else follows from it can wait for the next look.
        self.publish();
        self.wake();
        let changed = turned.iter().map(ToString::to_string).collect();
        Ok(pb::SetNodeEnabledResponse { changed })
    }

    pub(crate) async fn remove_node(&self, name: &str) -> Result<pb::RemoveNodeResponse, Error> {
        {
            let pen = self.begin_write().await?;
            let node = {
                let state = self.state();
                let node = find(&state.stores, name)?.name.clone();
                let lease = self.shared.settings.node_lease_ttl;
                may_remove(&state.stores, &node)
                    .map_err(|refusal| state.with_lease(refusal, &node, self.now(), lease))?;
                node
            };
            pen.metastore.remove_node(pen.epoch, &node).await.map_err(|error| self.failed(error))?;
            // Should it have said hello in the meantime, it does so again and is a newcomer.
            self.state().forget(&node);
            tracing::info!(%node, "a node was removed");
        }
        self.publish();
        self.wake();
        Ok(pb::RemoveNodeResponse {})
    }
}

impl Tenure {
    /// An operator says that lost nodes are not coming back.
    pub(crate) fn accept_loss(&self) -> pb::AcceptLossResponse {
        let nodes = self.state().accept_loss();
        if !nodes.is_empty() {
            tracing::warn!(
                nodes = nodes.join(", "),
                "an operator accepts the loss of nodes: placement goes on"
            );
            self.wake();
        }
        pb::AcceptLossResponse { nodes }
    }
}

impl State {
    /// Nodes that are lost, by name, while so many were lost at once that the coordinator suspects itself.
    pub(crate) fn suspected_loss(&self) -> Option<Vec<String>> {
        self.guard.is_suspicious().then(|| self.guard.lost().map(ToString::to_string).collect())
    }

    fn accept_loss(&mut self) -> Vec<String> {
        let nodes = self.suspected_loss().unwrap_or_default();
        self.guard.accept();
        nodes
    }

    /// Turns switches. Leads leave a node that is switched off in the same version of the feed.
    fn turn_switch(&mut self, nodes: &[NodeName], on: bool) {
        for node in nodes {
            if let Some(record) = self.stores.nodes.get_mut(node) {
                record.switched_on = on;
            }
        }
        self.stores.leads = plan_leads(&self.stores);
    }

    /// The refusal to forget a node, and if it may be alive, how long until that is known.
    fn with_lease(&self, refusal: Error, node: &NodeName, now: MonoTime, lease: Duration) -> Error {
        let why = match self.stores.session(node.as_str()) {
            SessionState::Lost | SessionState::Gone => return refusal,
            SessionState::Awaited => {
                format!("a lease (coordinator.node_lease_ttl) takes {} s", whole_seconds(lease))
            }
            SessionState::Live | SessionState::Stopping => {
                let silent = self.sessions.get(node).map_or(Duration::ZERO, |session| now - session.heard);
                format!(
                    "it was heard {} s ago; if it has died, its lease (coordinator.node_lease_ttl) ends in {} s, and it \
                     may be removed once others hold what it held",
                    silent.as_secs(),
                    whole_seconds(lease.saturating_sub(silent))
                )
            }
        };
        Error::new(refusal.code(), format!("{refusal}; {why}"))
    }

    fn forget(&mut self, node: &NodeName) {
        self.end_session(node);
        self.group_news.notify_one();
        self.desired.forget(node);
        self.leavers.forget(node);
        self.leads.forget(node);
        let stores = &mut self.stores;
        stores.nodes.remove(node);
        stores.observed.remove(node);
        stores.clear_reports(node);
        stores.distribution.remove_node(node);
        stores.leaving.forget(node);
        for group in stores.groups.values_mut() {
            group.members.remove(node);
        }
        stores.forget_failures_of(node);
    }
}
