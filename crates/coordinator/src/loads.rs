//! Loading, releasing, and changing what is loaded.

mod ends;
mod job;
mod release;
mod update;
mod wait;

use std::sync::Arc;

pub(crate) use self::ends::PATIENCE;

use pointsman_ids::Error;
use pointsman_proto::{coordinator::v1 as pb, status};
use pointsman_query_coord::{LoadChange, Replica};
use tonic::{Request, Response, Status};

use crate::{
    answers, leader_drops,
    shared::Shared,
    state::State,
    tenure::{Pen, Tenure},
};

/// Serves loads.
#[derive(Debug)]
pub(crate) struct LoadService(pub(crate) Arc<Shared>);

impl Tenure {
    /// Makes a change of loads: in the metastore first, then here.
    ///
    /// # Errors
    /// Those of the metastore; nothing has changed here then.
    pub(crate) async fn change_loads(&self, pen: &Pen<'_>, change: LoadChange) -> Result<(), Error> {
        if change.is_empty() {
            return Ok(());
        }
        let created = pen.metastore.change_loads(pen.epoch, &change).await;
        let created = created.map_err(|error| self.failed(error))?;
        self.state().apply(change, created);
        Ok(())
    }
}

impl State {
    /// Lets a change take effect that was written.
    pub(crate) fn apply(&mut self, change: LoadChange, created: Vec<Replica>) {
        self.forget_released(&change);
        self.leader_drops.extend(leader_drops::of_loads(&self.stores, &change));
        self.stores.apply(change, created);
    }

    /// What failed for segments of collections that are released says nothing any more.
    fn forget_released(&mut self, change: &LoadChange) {
        for collection in &change.released {
            let store = self.stores.collections.get(collection);
            let segments = store.map(|store| &store.segments);
            let failures = &mut self.stores.failures;
            failures.retain(|segment, _| segments.is_none_or(|segments| !segments.contains_key(segment)));
            self.unsaved_failures.remove(collection);
        }
    }
}

#[tonic::async_trait]
impl pb::query_coord_server::QueryCoord for LoadService {
    async fn load_collection(
        &self,
        request: Request<pb::LoadCollectionRequest>,
    ) -> Result<Response<pb::LoadCollectionResponse>, Status> {
        let call = async { self.0.active()?.load_collection(request.into_inner()).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn load_partitions(
        &self,
        request: Request<pb::LoadPartitionsRequest>,
    ) -> Result<Response<pb::LoadPartitionsResponse>, Status> {
        let call = async { self.0.active()?.load_partitions(request.into_inner()).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn release_partitions(
        &self,
        request: Request<pb::ReleasePartitionsRequest>,
    ) -> Result<Response<pb::ReleasePartitionsResponse>, Status> {
        let call = async { self.0.active()?.release_partitions(request.get_ref()).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn update_load_config(
        &self,
        request: Request<pb::UpdateLoadConfigRequest>,
    ) -> Result<Response<pb::UpdateLoadConfigResponse>, Status> {
        let call = async { self.0.active()?.update_load_config(request.into_inner()).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn release_collection(
        &self,
        request: Request<pb::ReleaseCollectionRequest>,
    ) -> Result<Response<pb::ReleaseCollectionResponse>, Status> {
        let call = async { self.0.active()?.release(&request.get_ref().collection).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn show_load(
        &self,
        request: Request<pb::ShowLoadRequest>,
    ) -> Result<Response<pb::ShowLoadResponse>, Status> {
        let answer = answers::show_load(&self.0, request.get_ref());
        self.0.tenure().iter().for_each(|tenure| tenure.expire_failed_loads());
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn show_partitions(
        &self,
        request: Request<pb::ShowPartitionsRequest>,
    ) -> Result<Response<pb::ShowPartitionsResponse>, Status> {
        let answer = answers::show_partitions(&self.0, request.get_ref());
        self.0.tenure().iter().for_each(|tenure| tenure.expire_failed_loads());
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn get_load_percentage(
        &self,
        request: Request<pb::GetLoadPercentageRequest>,
    ) -> Result<Response<pb::GetLoadPercentageResponse>, Status> {
        let answer = answers::load_percentage(&self.0, request.get_ref());
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn get_readiness(
        &self,
        request: Request<pb::GetReadinessRequest>,
    ) -> Result<Response<pb::GetReadinessResponse>, Status> {
        let answer = answers::readiness(&self.0, request.get_ref());
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn get_shard_leaders(
        &self,
        request: Request<pb::GetShardLeadersRequest>,
    ) -> Result<Response<pb::GetShardLeadersResponse>, Status> {
        let answer = answers::shard_leaders(&self.0, request.get_ref());
        answer.map(Response::new).map_err(|error| status(&error))
    }

    async fn check_health(
        &self,
        _: Request<pb::CheckHealthRequest>,
    ) -> Result<Response<pb::CheckHealthResponse>, Status> {
        answers::health(&self.0).map(Response::new).map_err(|error| status(&error))
    }
}
