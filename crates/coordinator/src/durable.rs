//! What the metastore holds, read into memory whole.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, catalog::Collection};
use pointsman_metastore::{
    Drain, Result, Revision, SegmentChanges, SegmentsHeld, SharedMetastore, StopLease,
};
use pointsman_query_coord::{
    CollectionFailures, FailedLoads, LoadRecord, NodeRecord, Replica, ResourceGroup, Stores, Target, Targets,
};

use crate::copy::SegmentCopy;

/// Everything durable.
#[derive(Debug)]
pub(crate) struct Durable {
    /// What the copy of segments lacks; `None`: nothing.
    segments: Option<SegmentChanges>,
    collections: Vec<Collection>,
    groups: Vec<ResourceGroup>,
    config: BTreeMap<String, String>,
    nodes: Vec<NodeRecord>,
    loads: Vec<LoadRecord>,
    replicas: Vec<Replica>,
    targets: Vec<Target>,
    failures: Vec<CollectionFailures>,
    drains: Vec<Drain>,
    stop_leases: Vec<StopLease>,
}

/// Reads everything, of the segments those that are not held. Nobody writes meanwhile.
pub(crate) async fn load(metastore: &SharedMetastore, held: Option<SegmentsHeld>) -> Result<Durable> {
    Ok(Durable {
        segments: metastore.segment_changes(held.as_ref()).await?,
        collections: metastore.collections().await?,
        groups: metastore.groups().await?,
        config: metastore.config().await?,
        nodes: metastore.nodes().await?,
        loads: metastore.loads().await?,
        replicas: metastore.replicas().await?,
        targets: metastore.current_targets().await?,
        failures: metastore.failed_loads().await?,
        drains: metastore.drains().await?,
        stop_leases: metastore.stop_leases().await?,
    })
}

impl Durable {
    /// Completes a copy of the segments that nobody uses yet. What is left to take in of them is nothing then.
    ///
    /// # Errors
    /// The process ends.
    pub(crate) async fn complete(&mut self, segments: SegmentCopy) -> Result<SegmentCopy, Error> {
        match self.segments.take() {
            Some(changes) => segments.with(changes).await,
            None => Ok(segments),
        }
    }
}

/// Puts what was read in the place of what was there.
pub(crate) trait ReplaceDurable {
    /// Replaces everything durable, of which these segments were held. Next targets of loads that are gone go too; the
    /// rest is rebuilt. Gives the revision of what was read.
    fn replace_durable(&mut self, durable: Durable, segments: SegmentCopy, now: MonoTime)
    -> Option<Revision>;
}

impl ReplaceDurable for Stores {
    fn replace_durable(
        &mut self,
        durable: Durable,
        mut segments: SegmentCopy,
        now: MonoTime,
    ) -> Option<Revision> {
        if let Some(changes) = durable.segments {
            segments.apply(changes);
        }
        let revision = segments.put(self, durable.collections);
        self.groups = by(durable.groups, |group| group.name.clone());
        self.config = durable.config;
        self.nodes = by(durable.nodes, |node| node.name.clone());
        self.leaving.drains = durable.drains.into_iter().map(|drain| (drain.node, drain.since)).collect();
        let lease = |lease: StopLease| {
            let until = now + lease.remaining;
            (lease.node, pointsman_query_coord::StopLease { incarnation: lease.incarnation, until })
        };
        self.leaving.leases = durable.stop_leases.into_iter().map(lease).collect();
        self.loads = durable.loads.into_iter().collect();
        // Those whose collection has no registration are nobody's, and go when loads are taken up.
        self.replicas = durable.replicas.into_iter().collect();
        self.failed_loads = FailedLoads::default();
        durable.failures.into_iter().for_each(|failures| self.failed_loads.set(failures));
        let registered = |collection| self.loads.get(collection).is_some();
        let next: Vec<_> =
            self.targets.all_next().filter(|next| registered(next.collection)).cloned().collect();
        self.targets = Targets::default();
        durable
            .targets
            .into_iter()
            .filter(|target| registered(target.collection))
            .for_each(|target| self.targets.set_current(target));
        next.into_iter().for_each(|next| self.targets.set_next(Arc::unwrap_or_clone(next)));
        revision
    }
}

fn by<K: Ord, V>(values: Vec<V>, key: impl Fn(&V) -> K) -> BTreeMap<K, V> {
    values.into_iter().map(|value| (key(&value), value)).collect()
}
