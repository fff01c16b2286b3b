//! What the coordinator knows of itself, nodes and brokers, and what operators do with nodes.

use std::{sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::NodeName;
use pointsman_proto::{coordinator::v1 as pb, status};
use pointsman_query_coord::{NodeRecord, SegmentReport, SessionState};
use tonic::{Request, Response, Status};

use crate::{brokers::LiveBroker, shared::Shared, state::State};

/// Serves the cluster's processes.
#[derive(Debug)]
pub(crate) struct ClusterService(pub(crate) Arc<Shared>);

impl State {
    fn node(&self, name: &NodeName, record: &NodeRecord, now: MonoTime) -> pb::Node {
        let stores = &self.stores;
        let seen = stores.observed.get(name);
        let count = |wanted: SegmentReport| {
            seen.map_or(0, |seen| seen.segments.values().filter(|report| **report == wanted).count() as u64)
        };
        let held = seen
            .into_iter()
            .flat_map(|seen| &seen.segments)
            .filter(|(_, report)| **report == SegmentReport::Held);
        let bytes =
            held.filter_map(|(id, _)| stores.any_segment(*id)).map(|segment| segment.segment.content.bytes);
        let silent = self.sessions.get(name).map_or(Duration::ZERO, |session| now - session.heard);
        let state = match stores.session(name.as_str()) {
            SessionState::Awaited => pb::NodeState::Unspecified,
            SessionState::Live => pb::NodeState::Live,
            SessionState::Stopping => pb::NodeState::Stopping,
            SessionState::Lost => pb::NodeState::Lost,
            SessionState::Gone => pb::NodeState::Gone,
        };
        pb::Node {
            name: name.to_string(),
            id: record.id.0,
            incarnation: record.incarnation.0,
            address: seen.map(|seen| seen.address.clone()).unwrap_or_default(),
            resource_group: stores
                .group_of(name.as_str())
                .map(|group| group.name.to_string())
                .unwrap_or_default(),
            state: state.into(),
            switched_on: record.switched_on,
            segments_held: count(SegmentReport::Held),
            segments_wanted: self.desired.count(name.as_str()) as u64,
            segments_failed: count(SegmentReport::Failed),
            bytes_held: bytes.sum(),
            silent_ms: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

#[tonic::async_trait]
impl pb::cluster_server::Cluster for ClusterService {
    async fn get_coordinator(
        &self,
        _: Request<pb::GetCoordinatorRequest>,
    ) -> Result<Response<pb::GetCoordinatorResponse>, Status> {
        let shared = &self.0;
        let tenure = shared.tenure();
        let feed_version =
            tenure.as_ref().and_then(|tenure| tenure.feed.borrow().as_ref().map(|feed| feed.version));
        let feed_applied = tenure
            .as_ref()
            .zip(feed_version)
            .is_some_and(|(tenure, version)| tenure.brokers.applied(version));
        Ok(Response::new(pb::GetCoordinatorResponse {
            active: tenure.is_some(),
            epoch: tenure.map_or(0, |tenure| tenure.epoch().0),
            cluster: shared.cluster.to_string(),
            objects: shared.objects.root(),
            metastore: shared.settings.metastore.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            feed_version: feed_version.map_or(0, |version| version.0),
            feed_applied,
        }))
    }

    async fn list_nodes(
        &self,
        _: Request<pb::ListNodesRequest>,
    ) -> Result<Response<pb::ListNodesResponse>, Status> {
        let tenure = self.0.active().map_err(|error| status(&error))?;
        let now = tenure.now();
        let state = tenure.state();
        let nodes = state.stores.nodes.iter().map(|(name, record)| state.node(name, record, now)).collect();
        Ok(Response::new(pb::ListNodesResponse { nodes }))
    }

    async fn set_node_enabled(
        &self,
        request: Request<pb::SetNodeEnabledRequest>,
    ) -> Result<Response<pb::SetNodeEnabledResponse>, Status> {
        let call = async { self.0.active()?.set_node_enabled(request.into_inner()).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn remove_node(
        &self,
        request: Request<pb::RemoveNodeRequest>,
    ) -> Result<Response<pb::RemoveNodeResponse>, Status> {
        let call = async { self.0.active()?.remove_node(&request.get_ref().node).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn list_brokers(
        &self,
        _: Request<pb::ListBrokersRequest>,
    ) -> Result<Response<pb::ListBrokersResponse>, Status> {
        let tenure = self.0.active().map_err(|error| status(&error))?;
        let broker = |(name, broker): (String, LiveBroker)| pb::Broker {
            name,
            sent_version: broker.sent.0,
            applied_version: broker.routes_by.0,
        };
        let brokers = tenure.brokers.live().into_iter().map(broker).collect();
        Ok(Response::new(pb::ListBrokersResponse { brokers }))
    }
}
