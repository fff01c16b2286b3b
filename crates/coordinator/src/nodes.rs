//! What operators do with nodes: switch them off and on, and have them forgotten.

use std::collections::BTreeSet;

use pointsman_ids::{Error, ErrorCode, NodeName};
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{NodeRecord, Stores, may_remove, plan_leads};

use crate::{names::hint, state::State, tenure::Tenure};

/// A node that must be registered.
fn find<'a>(stores: &'a Stores, name: &str) -> Result<&'a NodeRecord, Error> {
    stores.nodes.get(name).ok_or_else(|| {
        let hint = hint(name, stores.nodes.keys().map(NodeName::as_str));
        let text = format!("there is no node '{}'; {hint}", name.escape_debug());
        Error::new(ErrorCode::NodeNotFound, text)
    })
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
                may_remove(&state.stores, &node)?;
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

impl State {
    /// Turns switches. Leads leave a node that is switched off in the same version of the feed.
    fn turn_switch(&mut self, nodes: &[NodeName], on: bool) {
        for node in nodes {
            if let Some(record) = self.stores.nodes.get_mut(node) {
                record.switched_on = on;
            }
        }
        self.stores.leads = plan_leads(&self.stores);
    }

    fn forget(&mut self, node: &NodeName) {
        self.end_session(node);
        self.desired.forget(node);
        let stores = &mut self.stores;
        stores.nodes.remove(node);
        stores.observed.remove(node);
        for group in stores.groups.values_mut() {
            group.members.remove(node);
        }
        stores.failures.retain(|_, nodes| {
            nodes.remove(node);
            !nodes.is_empty()
        });
    }
}
