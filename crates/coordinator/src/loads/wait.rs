//! Waiting until nodes have dropped what is not loaded any more.

use std::{collections::BTreeSet, time::Duration};

use pointsman_ids::{CollectionId, NodeName, PartitionName, SegmentId};
use pointsman_query_coord::Stores;
use tokio::time::{sleep, timeout};

use crate::tenure::Tenure;

/// How long a release waits. Nodes that have not dropped everything by then are named, and do it later.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often nodes' reports are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(50);

impl Tenure {
    /// Waits until no node that is there reports anything of these partitions, or of the collection; names the nodes
    /// that still do when the time for that is over.
    pub(super) async fn until_gone(
        &self,
        collection: CollectionId,
        partitions: Option<&BTreeSet<PartitionName>>,
    ) -> Vec<String> {
        let holders = || holders(&self.state().stores, collection, partitions);
        let gone = async {
            while !holders().is_empty() {
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            ended = timeout(PATIENCE, gone) => if ended.is_ok() { return Vec::new() },
            () = self.over.cancelled() => {}
        }
        holders().iter().map(ToString::to_string).collect()
    }
}

/// Nodes that report something of it.
fn holders(
    stores: &Stores,
    collection: CollectionId,
    partitions: Option<&BTreeSet<PartitionName>>,
) -> BTreeSet<NodeName> {
    let concerns = |id: SegmentId| {
        let segment = stores.segment(collection, id).map(|segment| &segment.segment);
        segment.filter(|segment| segment.collection == collection).is_some_and(|segment| {
            partitions.is_none_or(|partitions| partitions.contains(&segment.content.partition))
        })
    };
    let there = stores.observed.iter().filter(|(name, _)| stores.is_present(name.as_str()));
    let holds = there.filter(|(name, _)| {
        let leads = partitions.is_none() && stores.distribution.leads(name, collection);
        leads || stores.reports(name).any(|(id, _)| concerns(id))
    });
    holds.map(|(name, _)| name.clone()).collect()
}
