//! What operators do with groups.

use pointsman_ids::{CollectionId, Error, ErrorCode, NodeName};
use pointsman_metastore::NewGroup;
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{
    Borrowed, ConfigRequest, GroupChange, GroupConfig, LoadChange, ResourceGroup, Stores, create_group,
    describe_group, drop_group, transfer_nodes, transfer_replicas, update_groups,
};

use crate::{catalog::find, state::State, tenure::Tenure};

impl Tenure {
    pub(super) async fn create_group(
        &self,
        request: &pb::CreateResourceGroupRequest,
    ) -> Result<pb::CreateResourceGroupResponse, Error> {
        let asked = request.config.clone().map(asked_config);
        let pen = self.begin_write().await?;
        let limit = self.settings().resource_group_limit;
        let new = {
            let state = self.state();
            let groups = &state.stores.groups;
            let new = create_group(groups, &request.name, asked.as_ref(), limit)?;
            let Some((name, config)) = new else {
                let group = groups.get(request.name.as_str()).map(|group| message(&state.stores, group));
                return Ok(pb::CreateResourceGroupResponse { group, created: false });
            };
            NewGroup { name, config }
        };
        let created = self.write_new_group(&pen, new).await?;
        let group = Some(message(&self.state().stores, &created));
        Ok(pb::CreateResourceGroupResponse { group, created: true })
    }

    pub(super) async fn update_groups(
        &self,
        request: pb::UpdateResourceGroupsRequest,
    ) -> Result<pb::UpdateResourceGroupsResponse, Error> {
        let asked = request.configs.into_iter().map(|(name, config)| (name, asked_config(config))).collect();
        let pen = self.begin_write().await?;
        let change = {
            let state = self.state();
            update_groups(&state.stores.groups, &state.stores.nodes, &asked)?
        };
        self.change_groups(&pen, &change).await?;
        for (group, GroupConfig { requests, limits, .. }) in &change.configs {
            tracing::info!(%group, requests, limits, "a resource group was updated");
        }
        let changed = change.configs.keys().map(ToString::to_string).collect();
        Ok(pb::UpdateResourceGroupsResponse { changed, moved: moved(&change) })
    }

    pub(super) async fn drop_group(&self, name: &str) -> Result<pb::DropResourceGroupResponse, Error> {
        let pen = self.begin_write().await?;
        let change = {
            let state = self.state();
            let Stores { groups, nodes, replicas, .. } = &state.stores;
            drop_group(groups, nodes, replicas.iter().map(AsRef::as_ref), name)?
        };
        self.change_groups(&pen, &change).await?;
        if let Some(group) = &change.dropped {
            tracing::info!(%group, "a resource group was dropped");
        }
        Ok(pb::DropResourceGroupResponse { dropped: change.dropped.is_some(), moved: moved(&change) })
    }

    pub(super) async fn transfer_nodes(
        &self,
        request: &pb::TransferNodesRequest,
    ) -> Result<pb::TransferNodesResponse, Error> {
        let pb::TransferNodesRequest { source, target, count } = request;
        let pen = self.begin_write().await?;
        let change = {
            let state = self.state();
            transfer_nodes(&state.stores.groups, &state.stores.nodes, source, target, *count)?
        };
        self.change_groups(&pen, &change).await?;
        tracing::info!(source, target, count, "nodes were transferred");
        Ok(pb::TransferNodesResponse { moved: moved(&change) })
    }

    pub(super) async fn transfer_replicas(
        &self,
        request: &pb::TransferReplicasRequest,
    ) -> Result<pb::TransferReplicasResponse, Error> {
        let pb::TransferReplicasRequest { collection: name, source, target, count } = request;
        let pen = self.begin_write().await?;
        let replicas = {
            let state = self.state();
            let id = find(&state.stores, name)?.collection.id;
            if state.stores.loads.get(id).is_none() {
                let text = format!("collection '{name}' is not loaded; `pointsman load` loads it");
                return Err(Error::new(ErrorCode::CollectionNotLoaded, text));
            }
            let present = state.stores.replicas_of(id);
            transfer_replicas(&state.stores.groups, present, name, source, target, *count)?
        };
        let change = LoadChange { replicas: replicas.clone(), ..LoadChange::default() };
        self.change_loads(&pen, change).await?;
        tracing::info!(collection = name, source, target, count, "replicas were transferred");
        let moved = replicas.iter().map(|replica| replica.id.0).collect();
        let state = self.state();
        let collection = replicas.first().map(|replica| replica.collection);
        let warning = collection.and_then(|id| lack_of_nodes(&state.stores, id, target)).unwrap_or_default();
        drop(state);
        self.wake();
        Ok(pb::TransferReplicasResponse { moved, warning })
    }
}

/// Fewer nodes than replicas in a group are odd, and no error for a collection that is loaded already.
fn lack_of_nodes(stores: &Stores, collection: CollectionId, group: &str) -> Option<String> {
    let replicas = stores.replicas_of(collection).filter(|replica| replica.group.as_str() == group).count();
    let members = &stores.groups.get(group)?.members;
    let takers = members.iter().filter(|node| stores.takes_work(node.as_str())).count();
    (takers < replicas).then(|| {
        format!(
            "resource group '{group}' has {takers} nodes that take work and {replicas} replicas of the collection; the \
             nodes of the former group serve on until it has more"
        )
    })
}

fn moved(change: &GroupChange) -> Vec<String> {
    change.moves.iter().map(|moved| moved.node.to_string()).collect()
}

fn asked_config(config: pb::ResourceGroupConfig) -> ConfigRequest {
    ConfigRequest {
        requests: config.requests,
        limits: config.limits,
        transfer_from: config.transfer_from,
        transfer_to: config.transfer_to,
        node_filter: config.node_filter.into_iter().collect(),
    }
}

fn names<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> Vec<String> {
    names.into_iter().map(ToString::to_string).collect()
}

fn message(stores: &Stores, group: &ResourceGroup) -> pb::ResourceGroup {
    let counts = group.counts(&stores.nodes);
    let config = &group.config;
    pb::ResourceGroup {
        name: group.name.to_string(),
        number: group.number.0,
        nodes: names(&group.members),
        config: Some(pb::ResourceGroupConfig {
            requests: Some(config.requests.into()),
            limits: Some(config.limits.into()),
            transfer_from: config.transfer_from.iter().map(ToString::to_string).collect(),
            transfer_to: config.transfer_to.iter().map(ToString::to_string).collect(),
            node_filter: config.node_filter.clone().into_iter().collect(),
        }),
        live: counts.live,
        missing: counts.missing(),
        redundant: counts.redundant(),
    }
}

impl State {
    pub(super) fn list_groups(&self) -> Vec<pb::ResourceGroup> {
        self.stores.groups.values().map(|group| message(&self.stores, group)).collect()
    }

    pub(super) fn describe_group(&self, name: &str) -> Result<pb::DescribeResourceGroupResponse, Error> {
        let stores = &self.stores;
        let group = stores.group(name)?;
        let described = describe_group(group, &stores.nodes, stores.replicas.iter().map(AsRef::as_ref));
        let collection = |(id, borrowed): (CollectionId, Borrowed)| {
            let collection = stores.collections.get(&id).map(|store| store.collection.name.to_string());
            pb::GroupCollection {
                collection: collection.unwrap_or_default(),
                replicas: borrowed.replicas,
                outgoing: names(&borrowed.outgoing),
                incoming: names(&borrowed.incoming),
            }
        };
        let mut collections: Vec<_> = described.collections.into_iter().map(collection).collect();
        collections.sort_by(|a, b| a.collection.cmp(&b.collection));
        Ok(pb::DescribeResourceGroupResponse {
            group: Some(message(stores, group)),
            dirty: names(&described.dirty),
            collections,
        })
    }
}
