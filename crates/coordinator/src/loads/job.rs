//! The job of a load.

use std::collections::BTreeSet;

use pointsman_ids::{CollectionId, Error, ErrorCode, PartitionName};
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{LoadPlan, LoadRequest, ReplicaRequest, plan_load};

use crate::{catalog::find, rules::DefaultReplicas as _, tenure::Tenure};

/// What of a request is about replicas.
pub(super) fn replica_request(
    number: u32,
    groups: Vec<String>,
    per_group: impl IntoIterator<Item = (String, u32)>,
) -> ReplicaRequest {
    ReplicaRequest { number: number.into(), groups, per_group: per_group.into_iter().collect() }
}

fn names(partitions: &[String]) -> Result<Vec<PartitionName>, Error> {
    partitions.iter().map(|name| PartitionName::new(name)).collect()
}

impl Tenure {
    pub(super) async fn load_collection(
        &self,
        request: pb::LoadCollectionRequest,
    ) -> Result<pb::LoadCollectionResponse, Error> {
        let partitions = match request.partitions.as_slice() {
            [] => None,
            some => Some(names(some)?),
        };
        let replicas = replica_request(request.replicas, request.resource_groups, request.replicas_per_group);
        let wanted =
            LoadRequest { partitions, adds: false, replicas, defaults: self.settings().default_replicas() };
        let loaded = self.load(&request.collection, wanted).await?;
        let Loaded { registered, warning, waits_for } = loaded;
        Ok(pb::LoadCollectionResponse { registered, warning, waits_for })
    }

    pub(super) async fn load_partitions(
        &self,
        request: pb::LoadPartitionsRequest,
    ) -> Result<pb::LoadPartitionsResponse, Error> {
        if request.partitions.is_empty() {
            let text = "name the partitions to load; without any, load the collection";
            return Err(Error::new(ErrorCode::ParameterInvalid, text));
        }
        let partitions = Some(names(&request.partitions)?);
        let replicas = replica_request(request.replicas, request.resource_groups, request.replicas_per_group);
        let wanted =
            LoadRequest { partitions, adds: true, replicas, defaults: self.settings().default_replicas() };
        let Loaded { registered, warning, .. } = self.load(&request.collection, wanted).await?;
        Ok(pb::LoadPartitionsResponse { registered, warning })
    }

    async fn load(&self, name: &str, wanted: LoadRequest) -> Result<Loaded, Error> {
        let (id, plan) = {
            let pen = self.begin_write().await?;
            let planned = {
                let state = self.state();
                let store = find(&state.stores, name)?;
                plan_load(&state.stores, store, &wanted, self.group_wait())?
                    .map(|plan| (store.collection.id, plan))
            };
            let Some((id, plan)) = planned else {
                self.try_again(name)?;
                return Ok(Loaded::default());
            };
            self.change_loads(&pen, plan.change.clone()).await?;
            self.state().begin_load(id, &plan.dropped);
            (id, plan)
        };
        let LoadPlan { change, dropped, warning } = plan;
        let partitions = change.records.first().map_or(0, |record| record.partitions.len());
        let created = change.created.len();
        tracing::info!(collection = name, partitions, created, "a load was registered");
        if let Some(warning) = &warning {
            tracing::warn!(collection = name, %warning, "a load lacks nodes");
        }
        self.publish();
        self.wake();
        let dropped: BTreeSet<PartitionName> = dropped.into_iter().collect();
        let waits_for =
            if dropped.is_empty() { Vec::new() } else { self.until_gone(id, Some(&dropped)).await };
        let warning = warning.map(|warning| warning.to_string()).unwrap_or_default();
        Ok(Loaded { registered: true, warning, waits_for })
    }
}

impl Tenure {
    /// Who asks again for what is registered has mended what nodes failed at: they try it again.
    fn try_again(&self, name: &str) -> Result<(), Error> {
        let mut state = self.state();
        let id = find(&state.stores, name)?.collection.id;
        state.stores.forget_failures_in(id);
        drop(state);
        self.wake();
        Ok(())
    }
}

impl crate::state::State {
    /// Progress counts anew, so do the tries of nodes, and a next target that was pulled for other partitions is pulled
    /// again.
    fn begin_load(&mut self, id: CollectionId, dropped: &[PartitionName]) {
        self.carried.retain(|collection| collection != id);
        self.unsaved_failures.remove(&id);
        self.stores.forget_failures_in(id);
        if !dropped.is_empty() {
            self.stores.targets.remove_next(id);
        }
    }
}

/// What became of a load.
#[derive(Debug, Default)]
struct Loaded {
    registered: bool,
    warning: String,
    waits_for: Vec<String>,
}
