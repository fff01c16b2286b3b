//! The reconciler: looks at everything, decides, and brings about the difference. Level-triggered: a wake-up says
//! "look again" and nothing else.

use std::{collections::BTreeMap, time::Duration};

use pointsman_clock::{MonoTime, WallTime};
use pointsman_ids::{CollectionId, Error, ReplicaId};
use pointsman_query_coord::{
    LoadRecord, Replica, Target, collection_percent, finished_replicas, next_target, place, plan_leads,
    promotable, replica_nodes,
};

use crate::{
    backoff::Backoff,
    metrics,
    state::State,
    tenure::{Pen, Tenure},
};

/// Wake-ups within this time are one.
const COALESCE: Duration = Duration::from_millis(25);

/// At the latest after this time it looks again, whatever happened or did not.
const FULL_LOOK: Duration = Duration::from_secs(5);

/// What has to be written, by what was decided from one view of the state.
#[derive(Debug, Default)]
struct Writes {
    replicas: Vec<Replica>,
    promotions: Vec<Target>,
    loads: Vec<LoadRecord>,
}

impl Tenure {
    /// Looks again whenever woken, and at every `check_interval` when time may have changed something, until the tenure
    /// ends.
    pub(crate) async fn reconcile_for_ever(&self, seed: u64) {
        let mut backoff = Backoff::new(seed);
        let mut looked = self.now();
        let mut due = true;
        loop {
            if due {
                looked = self.now();
                self.reconcile(&mut backoff).await;
            }
            self.collect_garbage(&mut backoff).await;
            due = tokio::select! {
                () = self.woken() => {
                    tokio::time::sleep(COALESCE).await;
                    true
                }
                () = tokio::time::sleep(self.shared.settings.check_interval) => {
                    backoff.is_failing() || self.now() - looked >= FULL_LOOK || self.time_changed_something()
                }
            };
        }
    }

    /// Whether a lease ended, or copies are waiting for their time to go.
    fn time_changed_something(&self) -> bool {
        let mut state = self.state();
        state.expire(self.now(), self.shared.settings.node_lease_ttl) || state.desired.is_lingering()
    }

    /// Looks once. Writes come first, then memory, then the streams; without the metastore the rest goes on.
    async fn reconcile(&self, backoff: &mut Backoff) {
        let began = self.now();
        self.state().look(began, self.shared.settings.node_lease_ttl, WallTime(self.wall()));
        if self.may_write() && backoff.is_over(began) {
            match self.write().await {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    let pause = backoff.fail(self.now());
                    tracing::warn!(%error, ?pause, "the metastore refused a change; trying again");
                }
            }
        }
        self.publish();
        metrics::reconciled(self.now() - began);
    }

    /// Writes what was decided. The pen is taken only when there is something to write.
    async fn write(&self) -> Result<(), Error> {
        if self.state().writes(self.wall()).is_empty() {
            return Ok(());
        }
        let pen = self.begin_write().await?;
        // Decided again: the state may have changed while waiting for the pen.
        let writes = self.state().writes(self.wall());
        self.apply(&pen, writes).await?;
        // What was written may ask for more.
        self.wake();
        Ok(())
    }

    async fn apply(&self, pen: &Pen<'_>, writes: Writes) -> Result<(), Error> {
        let failed = |error| self.failed(error);
        if !writes.replicas.is_empty() {
            pen.metastore.update_replicas(pen.epoch, &writes.replicas).await.map_err(failed)?;
            let mut state = self.state();
            for replica in writes.replicas {
                state.stores.replicas.insert(replica.id, replica);
            }
        }
        for target in writes.promotions {
            pen.metastore.promote(pen.epoch, &target).await.map_err(failed)?;
            metrics::promoted();
            let mut state = self.state();
            state.log_promotion(&target);
            state.stores.next.remove(&target.collection);
            state.stores.current.insert(target.collection, target);
        }
        for record in writes.loads {
            pen.metastore.update_load(pen.epoch, &record).await.map_err(failed)?;
            self.state().stores.loads.insert(record.collection, record);
        }
        Ok(())
    }

    /// Computes what nodes and brokers are told and sends what is new.
    pub(crate) fn publish(&self) {
        let mut state = self.state();
        let State { stores, desired, .. } = &mut *state;
        desired.update(stores, self.now());
        let history = self.shared.settings.feed_history;
        let State { stores, feed, .. } = &mut *state;
        let newest = feed.update(&self.shared.cluster, stores, history);
        state.send_desired();
        metrics::state(&state);
        drop(state);
        match newest {
            Ok(None) => {}
            Ok(Some(published)) => {
                metrics::published(published.version);
                // Another task may have published a newer one in the meantime.
                self.feed.send_if_modified(|newest| {
                    let newer = newest.as_ref().is_none_or(|newest| newest.version < published.version);
                    if newer {
                        *newest = Some(published);
                    }
                    newer
                });
            }
            Err(error) => tracing::error!(%error, "the feed cannot be made"),
        }
        self.count_brokers();
    }
}

impl Writes {
    fn is_empty(&self) -> bool {
        self.replicas.is_empty() && self.promotions.is_empty() && self.loads.is_empty()
    }
}

impl State {
    /// Everything that is decided in memory alone.
    fn look(&mut self, now: MonoTime, lease: Duration, wall: WallTime) {
        self.expire(now, lease);
        let stores = &mut self.stores;
        for collection in stores.loads.keys().copied().collect::<Vec<_>>() {
            match next_target(stores, collection, wall) {
                Some(next) => drop(stores.next.insert(collection, next)),
                None => drop(stores.next.remove(&collection)),
            }
        }
        stores.placement = place(stores, self.guard.is_suspicious());
        stores.leads = plan_leads(stores);
    }

    /// What has to be written now.
    fn writes(&self, wall: u64) -> Writes {
        let stores = &self.stores;
        let mut writes = Writes::default();
        for collection in stores.loads.keys().copied() {
            writes.replicas.extend(self.changed_replicas(collection));
            let next = stores.next.get(&collection).filter(|_| promotable(stores, collection));
            writes.promotions.extend(next.cloned());
            writes.loads.extend(collection_percent(stores, collection, wall));
        }
        writes
    }

    /// Replicas whose nodes change, that finished, or that queries may not use yet: nothing waits for its group here, so
    /// each is visible from the start.
    fn changed_replicas(&self, collection: CollectionId) -> Vec<Replica> {
        let stores = &self.stores;
        let present: Vec<Replica> = stores.replicas_of(collection).cloned().collect();
        let mut planned: BTreeMap<ReplicaId, Replica> = present.iter().map(|r| (r.id, r.clone())).collect();
        planned.extend(
            replica_nodes(stores, collection, &present).into_iter().map(|replica| (replica.id, replica)),
        );
        for replica in finished_replicas(stores, collection) {
            if let Some(planned) = planned.get_mut(&replica.id) {
                planned.finished = true;
            }
        }
        planned.into_values().filter(|replica| stores.replicas.get(&replica.id) != Some(replica)).collect()
    }

    fn log_promotion(&self, target: &Target) {
        let collection = self.stores.collections.get(&target.collection);
        let collection = collection.map_or("", |store| store.collection.name.as_str());
        tracing::info!(collection, version = %target.version, segments = target.segments.len(), "a target was promoted");
    }
}
