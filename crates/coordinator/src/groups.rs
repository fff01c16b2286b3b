//! Resource groups: what operators ask for, and what is done without being asked.

mod commands;
mod members;
mod observer;

use std::sync::Arc;

use pointsman_ids::{Error, ErrorCode, GroupName};
use pointsman_metastore::NewGroup;
use pointsman_proto::{coordinator::v1 as pb, status};
use pointsman_query_coord::{GroupChange, GroupConfig, ResourceGroup};
use tonic::{Request, Response, Status};

use crate::{
    shared::Shared,
    state::State,
    tenure::{Pen, Tenure},
};

/// Serves resource groups.
#[derive(Debug)]
pub(crate) struct GroupService(pub(crate) Arc<Shared>);

impl Tenure {
    /// Writes a change of groups, makes it in memory, and has everybody look who follows groups.
    pub(super) async fn change_groups(&self, pen: &Pen<'_>, change: &GroupChange) -> Result<(), Error> {
        if change.is_empty() {
            return Ok(());
        }
        let written = pen.metastore.change_groups(pen.epoch, change).await;
        written.map_err(|error| self.failed(error))?;
        let mut state = self.state();
        state.log_moves(change);
        change.apply(&mut state.stores.groups);
        state.group_news.notify_one();
        drop(state);
        self.wake();
        Ok(())
    }

    async fn write_new_group(&self, pen: &Pen<'_>, new: NewGroup) -> Result<ResourceGroup, Error> {
        let created = pen.metastore.create_group(pen.epoch, new).await.map_err(|error| self.failed(error))?;
        tracing::info!(group = %created.name, number = %created.number, "a resource group was created");
        let mut state = self.state();
        state.stores.groups.insert(created.name.clone(), created.clone());
        state.group_news.notify_one();
        drop(state);
        self.wake();
        Ok(created)
    }

    /// Creates the groups of the settings that are missing. Ones that are there stay as they are.
    pub(crate) async fn create_configured_groups(&self) -> Result<(), Error> {
        let pen = self.begin_write().await?;
        for (name, requests) in &self.shared.settings.resource_groups {
            let name = GroupName::new(name)?;
            if !self.state().stores.groups.contains_key(&name) {
                let config = GroupConfig::unlimited(*requests);
                self.write_new_group(&pen, NewGroup { name, config }).await?;
            }
        }
        Ok(())
    }

    /// A metastore that fails has its own code here, as long as nobody else is active.
    fn unavailable(&self, error: Error) -> Error {
        match error.code() {
            ErrorCode::ServiceNotReady | ErrorCode::ServiceInternal if !self.over.is_cancelled() => {
                Error::new(ErrorCode::ResourceGroupServiceUnavailable, error.message())
            }
            _ => error,
        }
    }
}

impl State {
    fn log_moves(&self, change: &GroupChange) {
        for moved in &change.moves {
            let name = |group: &GroupName| group.to_string();
            let from = self.stores.group_of(moved.node.as_str()).map(|group| name(&group.name));
            let to = moved.to.as_ref().map(name);
            let (from, to) = (from.unwrap_or_else(|| "none".into()), to.unwrap_or_else(|| "none".into()));
            tracing::info!(node = %moved.node, from, to, "a node changed its resource group");
        }
    }
}

/// Runs a command of the active coordinator.
async fn answer<T>(
    shared: &Shared,
    command: impl AsyncFnOnce(&Tenure) -> Result<T, Error>,
) -> Result<Response<T>, Status> {
    let call = async {
        let tenure = shared.active()?;
        command(&tenure).await.map_err(|error| tenure.unavailable(error))
    };
    call.await.map(Response::new).map_err(|error: Error| status(&error))
}

#[tonic::async_trait]
impl pb::resource_groups_server::ResourceGroups for GroupService {
    async fn create_resource_group(
        &self,
        request: Request<pb::CreateResourceGroupRequest>,
    ) -> Result<Response<pb::CreateResourceGroupResponse>, Status> {
        answer(&self.0, async |tenure| tenure.create_group(request.get_ref()).await).await
    }

    async fn update_resource_groups(
        &self,
        request: Request<pb::UpdateResourceGroupsRequest>,
    ) -> Result<Response<pb::UpdateResourceGroupsResponse>, Status> {
        answer(&self.0, async |tenure| tenure.update_groups(request.into_inner()).await).await
    }

    async fn drop_resource_group(
        &self,
        request: Request<pb::DropResourceGroupRequest>,
    ) -> Result<Response<pb::DropResourceGroupResponse>, Status> {
        answer(&self.0, async |tenure| tenure.drop_group(&request.get_ref().name).await).await
    }

    async fn describe_resource_group(
        &self,
        request: Request<pb::DescribeResourceGroupRequest>,
    ) -> Result<Response<pb::DescribeResourceGroupResponse>, Status> {
        let tenure = self.0.active().map_err(|error| status(&error))?;
        let described = tenure.state().describe_group(&request.get_ref().name);
        described.map(Response::new).map_err(|error| status(&error))
    }

    async fn list_resource_groups(
        &self,
        _: Request<pb::ListResourceGroupsRequest>,
    ) -> Result<Response<pb::ListResourceGroupsResponse>, Status> {
        let tenure = self.0.active().map_err(|error| status(&error))?;
        let groups = tenure.state().list_groups();
        Ok(Response::new(pb::ListResourceGroupsResponse { groups }))
    }

    async fn transfer_nodes(
        &self,
        request: Request<pb::TransferNodesRequest>,
    ) -> Result<Response<pb::TransferNodesResponse>, Status> {
        answer(&self.0, async |tenure| tenure.transfer_nodes(request.get_ref()).await).await
    }

    async fn transfer_replicas(
        &self,
        request: Request<pb::TransferReplicasRequest>,
    ) -> Result<Response<pb::TransferReplicasResponse>, Status> {
        answer(&self.0, async |tenure| tenure.transfer_replicas(request.get_ref()).await).await
    }
}
