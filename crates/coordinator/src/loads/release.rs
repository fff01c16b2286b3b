//! Releasing all or a part.

use std::collections::BTreeSet;

use pointsman_ids::{Error, PartitionName};
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{CollectionFailures, LoadChange, PartialRelease, plan_partial_release};

use crate::{catalog::find, tenure::Tenure};

impl Tenure {
    pub(super) async fn release(&self, name: &str) -> Result<pb::ReleaseCollectionResponse, Error> {
        let id = {
            let pen = self.begin_write().await?;
            let id = self.state().stores.collection(name).map(|store| store.collection.id);
            let Some(id) = id.filter(|id| self.state().stores.loads.get(*id).is_some()) else {
                return Ok(pb::ReleaseCollectionResponse::default());
            };
            let forgotten =
                CollectionFailures { collection: id, codes: Default::default(), groups: Default::default() };
            let change =
                LoadChange { released: vec![id], failures: vec![forgotten], ..LoadChange::default() };
            self.change_loads(&pen, change).await?;
            id
        };
        tracing::info!(collection = name, "a load was released");
        self.publish();
        self.wake();
        Ok(pb::ReleaseCollectionResponse { waits_for: self.until_gone(id, None).await })
    }

    pub(super) async fn release_partitions(
        &self,
        request: &pb::ReleasePartitionsRequest,
    ) -> Result<pb::ReleasePartitionsResponse, Error> {
        let name = &request.collection;
        let named = request.partitions.iter().map(|name| PartitionName::new(name));
        let named: Vec<PartitionName> = named.collect::<Result<_, Error>>()?;
        let planned = {
            let pen = self.begin_write().await?;
            let (id, planned) = {
                let state = self.state();
                let id = find(&state.stores, name)?.collection.id;
                let now = pointsman_clock::WallTime(self.wall());
                (id, plan_partial_release(&state.stores, id, &named, now)?)
            };
            match planned {
                PartialRelease::Nothing => return Ok(pb::ReleasePartitionsResponse::default()),
                PartialRelease::Some(change) => {
                    self.change_loads(&pen, change).await?;
                    self.state().stores.targets.remove_next(id);
                    Some(id)
                }
                PartialRelease::All => None,
            }
        };
        let Some(id) = planned else {
            let pb::ReleaseCollectionResponse { waits_for } = self.release(name).await?;
            return Ok(pb::ReleasePartitionsResponse { waits_for });
        };
        tracing::info!(
            collection = name,
            partitions = request.partitions.join(", "),
            "partitions were released"
        );
        self.publish();
        self.wake();
        let released: BTreeSet<PartitionName> = named.into_iter().collect();
        Ok(pb::ReleasePartitionsResponse { waits_for: self.until_gone(id, Some(&released)).await })
    }
}
