//! Resource groups.

use std::sync::Arc;

use pointsman_ids::{Error, ErrorCode, GroupName};
use pointsman_metastore::NewGroup;
use pointsman_proto::{coordinator::v1 as pb, status};
use pointsman_query_coord::ResourceGroup;
use tonic::{Request, Response, Status};

use crate::{
    shared::Shared,
    tenure::{Pen, Tenure},
};

/// Limit of a group that was created without one: more than any cluster has nodes.
const DEFAULT_LIMITS: u32 = 1_000_000;
/// Most groups of one cluster.
const MAX_GROUPS: usize = 1024;

/// Serves resource groups.
#[derive(Debug)]
pub(crate) struct GroupService(pub(crate) Arc<Shared>);

fn message(group: &ResourceGroup) -> pb::ResourceGroup {
    pb::ResourceGroup {
        name: group.name.to_string(),
        number: group.number.0,
        requests: group.requests,
        limits: group.limits,
        nodes: group.members.iter().map(ToString::to_string).collect(),
    }
}

impl Tenure {
    async fn create(
        &self,
        request: pb::CreateResourceGroupRequest,
    ) -> Result<pb::CreateResourceGroupResponse, Error> {
        if request.name.is_empty() {
            return Err(Error::new(ErrorCode::ParameterMissing, "a resource group needs a name"));
        }
        let name = GroupName::try_from(request.name)?;
        let limits = request.limits.unwrap_or(DEFAULT_LIMITS.max(request.requests));
        let new = NewGroup { name, requests: request.requests, limits };
        let pen = self.begin_write().await?;
        let (group, created) = self.create_group(&pen, new).await?;
        Ok(pb::CreateResourceGroupResponse { group: Some(message(&group)), created })
    }

    /// Creates a group, or finds the one that is there with the same configuration.
    async fn create_group(&self, pen: &Pen<'_>, new: NewGroup) -> Result<(ResourceGroup, bool), Error> {
        let NewGroup { name, requests, limits } = &new;
        let count = {
            let state = self.state();
            if let Some(group) = state.stores.groups.get(name) {
                if group.requests == *requests && group.limits == *limits {
                    return Ok((group.clone(), false));
                }
                let text = format!(
                    "resource group '{name}' exists with requests {} and limits {}",
                    group.requests, group.limits
                );
                return Err(Error::new(ErrorCode::ResourceGroupAlreadyExists, text));
            }
            state.stores.groups.len()
        };
        if count >= MAX_GROUPS {
            let text = format!("there are {count} resource groups; at most {MAX_GROUPS}");
            return Err(Error::new(ErrorCode::ResourceGroupLimitReached, text));
        }
        if limits < requests {
            let text = format!("resource group '{name}': limits {limits} are below requests {requests}");
            return Err(Error::new(ErrorCode::ResourceGroupIllegalConfig, text));
        }
        let created = pen.metastore.create_group(pen.epoch, new).await;
        let created = created.map_err(|error| unavailable(self.failed(error)))?;
        tracing::info!(group = %created.name, number = %created.number, "a resource group was created");
        self.state().stores.groups.insert(created.name.clone(), created.clone());
        self.wake();
        Ok((created, true))
    }

    /// Creates the groups of the settings that are missing. Ones that are there stay as they are.
    pub(crate) async fn create_configured_groups(&self) -> Result<(), Error> {
        let pen = self.begin_write().await?;
        for (name, requests) in &self.shared.settings.resource_groups {
            let name = GroupName::new(name)?;
            if !self.state().stores.groups.contains_key(&name) {
                let limits = DEFAULT_LIMITS.max(*requests);
                self.create_group(&pen, NewGroup { name, requests: *requests, limits }).await?;
            }
        }
        Ok(())
    }
}

/// A metastore that is away has its own code here.
fn unavailable(error: Error) -> Error {
    match error.code() {
        ErrorCode::ServiceNotReady => Error::new(ErrorCode::ResourceGroupServiceUnavailable, error.message()),
        _ => error,
    }
}

#[tonic::async_trait]
impl pb::resource_groups_server::ResourceGroups for GroupService {
    async fn create_resource_group(
        &self,
        request: Request<pb::CreateResourceGroupRequest>,
    ) -> Result<Response<pb::CreateResourceGroupResponse>, Status> {
        let call = async { self.0.active()?.create(request.into_inner()).await };
        call.await.map(Response::new).map_err(|error| status(&error))
    }

    async fn list_resource_groups(
        &self,
        _: Request<pb::ListResourceGroupsRequest>,
    ) -> Result<Response<pb::ListResourceGroupsResponse>, Status> {
        let tenure = self.0.active().map_err(|error| status(&error))?;
        let groups = tenure.state().stores.groups.values().map(message).collect();
        Ok(Response::new(pb::ListResourceGroupsResponse { groups }))
    }
}
