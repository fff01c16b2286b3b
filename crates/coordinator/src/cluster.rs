//! What the coordinator knows of itself, nodes and brokers, and what operators do with nodes.

use std::{sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, FeedVersion, NodeName};
use pointsman_proto::{coordinator::v1 as pb, status};
use pointsman_query_coord::{NodeRecord, SegmentReport, SessionState};
use tonic::{Request, Response, Status};

use crate::{leaving, shared::Shared, state::State};

/// Serves the cluster's processes.
#[derive(Debug)]
pub(crate) struct ClusterService(pub(crate) Arc<Shared>);

impl State {
    /// `applied`: the version that every live broker routes by, and whether all of them are known.
    fn node(
        &self,
        name: &NodeName,
        record: &NodeRecord,
        now: MonoTime,
        (lowest, all_known): (FeedVersion, bool),
    ) -> pb::Node {
        let stores = &self.stores;
        let seen = stores.observed.get(name);
        let count = |wanted: SegmentReport| {
            stores.reports(name).filter(|(_, report)| *report == wanted).count() as u64
        };
        let held = stores.reports(name).filter(|(_, report)| *report == SegmentReport::Held);
        let bytes =
            held.filter_map(|(id, _)| stores.known_segment(id)).map(|segment| segment.segment.content.bytes);
        let silent = self.sessions.get(name).map_or(Duration::ZERO, |session| now - session.heard);
        // A drain is told apart from that.
        let state = seen.map_or_else(|| stores.session(name.as_str()), |seen| seen.state);
        let state = match state {
            SessionState::Awaited => pb::NodeState::Unspecified,
            SessionState::Live => pb::NodeState::Live,
            SessionState::Stopping => pb::NodeState::Stopping,
            SessionState::Lost => pb::NodeState::Lost,
            SessionState::Gone => pb::NodeState::Gone,
        };
        let applied = all_known && self.out_since(name.as_str()).is_some_and(|out| lowest >= out);
        let drain = match stores.leaving.drains.contains_key(name) {
            true => self.drain_phase(name, applied),
            false => pb::DrainPhase::Unspecified,
        };
        let lease = stores.stop_lease(name.as_str(), now);
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
            enabled: self.feed.listed().is_enabled(name.as_str()),
            routed: all_known && self.feed.listed().first(name.as_str()).is_some_and(|first| lowest >= first),
            drain: drain.into(),
            stop_lease_ms: lease.map_or(0, |lease| leaving::millis(lease.until - now)),
            calls: self.calls(name.as_str()),
        }
    }
}

fn answer<T>(result: Result<T, Error>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(|error| status(&error))
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
        let lost = tenure.as_ref().and_then(|tenure| tenure.state().suspected_loss());
        Ok(Response::new(pb::GetCoordinatorResponse {
            active: tenure.is_some(),
            epoch: tenure.map_or(0, |tenure| tenure.epoch().0),
            cluster: shared.cluster.to_string(),
            objects: shared.objects.root(),
            metastore: shared.settings.metastore.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            feed_version: feed_version.map_or(0, |version| version.0),
            feed_applied,
            mass_loss: lost.is_some(),
            lost_nodes: lost.unwrap_or_default(),
        }))
    }

    async fn list_nodes(
        &self,
        _: Request<pb::ListNodesRequest>,
    ) -> Result<Response<pb::ListNodesResponse>, Status> {
        let tenure = self.0.active().map_err(|error| status(&error))?;
        let now = tenure.now();
        let applied = (tenure.brokers.lowest(), tenure.brokers_are_known());
        let state = tenure.state();
        let nodes = state.stores.nodes.iter();
        let nodes = nodes.map(|(name, record)| state.node(name, record, now, applied)).collect();
        Ok(Response::new(pb::ListNodesResponse { nodes }))
    }

    async fn set_node_enabled(
        &self,
        request: Request<pb::SetNodeEnabledRequest>,
    ) -> Result<Response<pb::SetNodeEnabledResponse>, Status> {
        answer(async { self.0.active()?.set_node_enabled(request.into_inner()).await }.await)
    }

    async fn remove_node(
        &self,
        request: Request<pb::RemoveNodeRequest>,
    ) -> Result<Response<pb::RemoveNodeResponse>, Status> {
        answer(async { self.0.active()?.remove_node(&request.get_ref().node).await }.await)
    }

    async fn can_stop(
        &self,
        request: Request<pb::CanStopRequest>,
    ) -> Result<Response<pb::CanStopResponse>, Status> {
        answer(async { self.0.in_charge()?.can_stop(request.into_inner()).await }.await)
    }

    async fn give_back_stop_lease(
        &self,
        request: Request<pb::GiveBackStopLeaseRequest>,
    ) -> Result<Response<pb::GiveBackStopLeaseResponse>, Status> {
        answer(async { self.0.active()?.give_back_stop_lease(&request.get_ref().node).await }.await)
    }

    async fn drain_node(
        &self,
        request: Request<pb::DrainNodeRequest>,
    ) -> Result<Response<pb::DrainNodeResponse>, Status> {
        answer(async { self.0.active()?.drain_node(&request.get_ref().node).await }.await)
    }

    async fn get_drain(
        &self,
        request: Request<pb::GetDrainRequest>,
    ) -> Result<Response<pb::GetDrainResponse>, Status> {
        answer(self.0.in_charge().and_then(|tenure| tenure.get_drain(&request.get_ref().node)))
    }

    async fn cancel_drain(
        &self,
        request: Request<pb::CancelDrainRequest>,
    ) -> Result<Response<pb::CancelDrainResponse>, Status> {
        answer(async { self.0.active()?.cancel_drain(&request.get_ref().node).await }.await)
    }

    async fn accept_loss(
        &self,
        _: Request<pb::AcceptLossRequest>,
    ) -> Result<Response<pb::AcceptLossResponse>, Status> {
        answer(self.0.active().map(|tenure| tenure.accept_loss()))
    }

    async fn list_brokers(
        &self,
        _: Request<pb::ListBrokersRequest>,
    ) -> Result<Response<pb::ListBrokersResponse>, Status> {
        let tenure = self.0.active().map_err(|error| status(&error))?;
        let brokers = tenure.brokers.live().into_iter();
        let brokers = brokers.map(|(name, broker)| leaving::broker_message(name, broker)).collect();
        Ok(Response::new(pb::ListBrokersResponse { brokers }))
    }
}
