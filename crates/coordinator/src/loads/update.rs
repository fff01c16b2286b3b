//! Other replicas for what is loaded.

use pointsman_ids::{CollectionId, Error, ErrorCode};
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{
    LoadChange, ReplicaRequest, Stores, check_nodes, newly_visible, plan_update, present_numbers,
};

use super::job::replica_request;
use crate::{catalog::find, tenure::Tenure};

impl Tenure {
    pub(super) async fn update_load_config(
        &self,
        request: pb::UpdateLoadConfigRequest,
    ) -> Result<pb::UpdateLoadConfigResponse, Error> {
        let wanted = replica_request(request.replicas, request.resource_groups, request.replicas_per_group);
        let pen = self.begin_write().await?;
        // What is ready to be seen is seen before anything changes.
        let visible = LoadChange { replicas: newly_visible(&self.state().stores), ..LoadChange::default() };
        self.change_loads(&pen, visible).await?;
        let mut answer = pb::UpdateLoadConfigResponse::default();
        let alone = request.collections.len() == 1;
        let mut change = LoadChange::default();
        {
            let state = self.state();
            for name in &request.collections {
                let id = find(&state.stores, name)?.collection.id;
                let planned = self.planned_update(&state.stores, id, &wanted, request.wait_for_groups);
                match planned.map_err(|error| error.context(format_args!("collection '{name}'")))? {
                    Update::NotLoaded if alone => {
                        let text = format!("collection '{name}' is not loaded; `pointsman load` loads it");
                        return Err(Error::new(ErrorCode::CollectionNotLoaded, text));
                    }
                    Update::NotLoaded => answer.warnings.push(format!("collection '{name}' is not loaded")),
                    Update::Nothing => {}
                    Update::Change(update, warning) => {
                        if moves_replicas(&update) {
                            answer.changed.push(name.clone());
                        }
                        change.extend(*update);
                        answer
                            .warnings
                            .extend(warning.map(|warning| format!("collection '{name}': {warning}")));
                    }
                }
            }
        }
        self.change_loads(&pen, change).await?;
        drop(pen);
        tracing::info!(changed = answer.changed.join(", "), "replicas of loads were changed");
        self.publish();
        self.wake();
        Ok(answer)
    }

    fn planned_update(
        &self,
        stores: &Stores,
        id: CollectionId,
        wanted: &ReplicaRequest,
        wait_for_groups: bool,
    ) -> Result<Update, Error> {
        let Some(record) = stores.loads.get(id).filter(|record| record.average().is_some()) else {
            return Ok(Update::NotLoaded);
        };
        let numbers = wanted.numbers_after(stores, &present_numbers(stores.replicas_of(id)))?;
        let chosen = record.replicas_chosen || wanted.chooses_number();
        let change = plan_update(stores, record, &numbers, chosen, wait_for_groups, self.group_wait());
        Ok(change.map_or(Update::Nothing, |change| {
            Update::Change(Box::new(change), check_nodes(stores, &numbers).err())
        }))
    }
}

/// Whether replicas change, and not only the mark that somebody chose their number.
fn moves_replicas(change: &LoadChange) -> bool {
    !(change.replicas.is_empty() && change.created.is_empty() && change.removed.is_empty())
}

enum Update {
    NotLoaded,
    Nothing,
    Change(Box<LoadChange>, Option<Error>),
}
