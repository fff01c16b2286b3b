//! The reconciler: looks at everything, decides, and brings about the difference. Level-triggered: a wake-up says
//! "look again" and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_clock::{MonoTime, WallTime};
use pointsman_ids::{CollectionId, Error, ReplicaId};
use pointsman_query_coord::{
    CarriedCounts, EndedLoad, GroupWait, LoadChange, LoadRecord, LoadStatus, NextStep, Pulled, Replica,
    Target, finished_replicas, new_partitions, newly_visible, next_step, observe, plan_update,
    present_numbers, pull, replica_nodes, wish,
};
use pointsman_settings::CoordinatorSettings;

use crate::{
    backoff::Backoff,
    balance, cadence, metrics,
    rules::Rules,
    state::State,
    tenure::{Tenure, aside},
};

/// Wake-ups within this time are one.
const COALESCE: Duration = Duration::from_millis(25);

/// What was decided from one view of the state.
#[derive(Debug, Default)]
struct Decided {
    change: LoadChange,
    /// The progress that is seen with it.
    carried: CarriedCounts,
    /// Loads that end with it.
    ended: Vec<EndedLoad>,
    /// Collections whose failures it writes as memory has them.
    saved: BTreeSet<CollectionId>,
}

impl Tenure {
    /// Looks again whenever woken, and when the time of an observer has come or time changed something else, until the
    /// tenure ends.
    pub(crate) async fn reconcile_for_ever(&self, seed: u64) {
        let mut backoff = Backoff::new(seed);
        let mut woken = true;
        loop {
            if woken || self.is_time_to_look() {
                self.reconcile(&mut backoff, woken).await;
            }
            self.collect_garbage(&mut backoff).await;
            woken = tokio::select! {
                () = self.woken() => {
                    tokio::time::sleep(COALESCE).await;
                    true
                }
                () = tokio::time::sleep(cadence::pause(&self.settings())) => {
                    backoff.is_failing() || self.time_changed_something()
                }
            };
        }
    }

    /// Whether the time of an observer has come that has something to look at.
    fn is_time_to_look(&self) -> bool {
        let state = self.state();
        let stores = &state.stores;
        let due = state.cadence.due(self.now());
        (due.progress && stores.loads.iter().any(|load| load.status == LoadStatus::Loading))
            || (due.visibility && stores.replicas.iter().any(|replica| !replica.query_visible))
            || due.targets
            || due.segments
            || due.leaders
            || due.replicas
    }

    /// Whether a lease ended, or copies or nodes are waiting for their time to go.
    fn time_changed_something(&self) -> bool {
        let settings = self.settings();
        let mut state = self.state();
        let now = self.now();
        state.expire(now, &settings)
            || state.balance_is_due(now)
            || state.desired.is_lingering()
            || state.waited_enough(now)
    }

    /// Looks once. Writes come first, then memory, then the streams; without the metastore the rest goes on.
    async fn reconcile(&self, backoff: &mut Backoff, woken: bool) {
        let began = self.now();
        let settings = self.settings();
        aside(|| {
            let mut state = self.state();
            state.due = state.cadence.take(began, &settings, woken);
            state.look(began, &settings, WallTime(self.wall()));
        });
        if self.may_write() && backoff.is_over(began) {
            match self.write().await {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    let pause = backoff.fail(self.now());
                    tracing::warn!(%error, ?pause, "the metastore refused a change; trying again");
                }
            }
        }
        aside(|| self.publish());
        metrics::reconciled(self.now() - began);
    }

    /// Writes what was decided, in one transaction. The pen is taken only when there is something to write.
    async fn write(&self) -> Result<(), Error> {
        if !self.state().recovered {
            self.recover_loads().await?;
        }
        if !self.has_writes() {
            return Ok(());
        }
        let pen = self.begin_write().await?;
        // Decided again: the state may have changed while waiting for the pen.
        let wait = self.group_wait();
        let decided = {
            let mut state = self.state();
            let decided = state.decide(wait);
            // What fails from here on is written next time.
            state.unsaved_failures.retain(|collection| !decided.saved.contains(collection));
            decided
        };
        match pen.metastore.change_loads(pen.epoch, &decided.change).await {
            Ok(created) => self.state().settle(decided, created),
            Err(error) => {
                self.state().unsaved_failures.extend(decided.saved);
                return Err(self.failed(error));
            }
        }
        // What was written may ask for more.
        self.wake();
        Ok(())
    }

    /// Whether something has to be written. If not, all progress was seen.
    fn has_writes(&self) -> bool {
        let wait = self.group_wait();
        let mut state = self.state();
        let decided = state.decide(wait);
        let writes = !decided.change.is_empty();
        if !writes {
            state.carried = decided.carried;
        }
        writes
    }

    /// Computes what nodes and brokers are told and sends what is new.
    pub(crate) fn publish(&self) {
        self.publish_and(|_| ());
    }

    /// The same, with a look at the state that it was made of.
    pub(crate) fn publish_and<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        let mut state = self.state();
        state.weigh_departures(self.now());
        let changes = state.take_untold();
        let State { stores, desired, leads, feed, leader_drops, rules, .. } = &mut *state;
        let told = wish(stores, &changes);
        desired.update(stores, &changes, &told, self.now());
        let needs_reports = rules.promotion_needs_segment_versions;
        leads.update(stores, &changes, |collection| next_step(stores, collection, needs_reports));
        let history = self.settings().feed_history;
        let drops = std::mem::take(leader_drops);
        let newest = feed.update(&self.shared.cluster, stores, &changes, drops, history);
        state.send_desired();
        metrics::state(&state);
        let looked = look(&state);
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
        self.settle_leavers();
        looked
    }
}

impl State {
    /// Everything that is decided in memory alone.
    fn look(&mut self, now: MonoTime, settings: &CoordinatorSettings, wall: WallTime) {
        self.expire(now, settings);
        self.stores.rules = balance::rules(settings);
        self.rules = Rules::of(settings);
        if self.due.targets {
            self.pull_targets(wall);
        }
        self.end_tasks(now, settings, wall);
        if self.due.segments || self.due.leaders {
            self.replan();
        }
        self.balance(now, settings.balance_interval);
        self.watch_loads(now, wall);
    }

    fn pull_targets(&mut self, wall: WallTime) {
        let stores = &mut self.stores;
        for collection in stores.loads.iter().map(|load| load.collection).collect::<Vec<_>>() {
            match pull(stores, collection, wall, self.rules.next_target_max_age) {
                Pulled::Next(next) => stores.targets.set_next(next),
                Pulled::Nothing => stores.targets.remove_next(collection),
                Pulled::Unchanged => {}
            }
        }
    }

    /// What is to be done about the next target of a collection.
    fn next_step(&self, collection: CollectionId) -> NextStep {
        next_step(&self.stores, collection, self.rules.promotion_needs_segment_versions)
    }

    /// What has to be written now.
    fn decide(&self, wait: GroupWait) -> Decided {
        let mut decided = Decided { carried: self.carried.clone(), ..Decided::default() };
        decided.carried.retain(|collection| self.stores.loads.get(collection).is_some());
        let visible = if self.due.visibility { newly_visible(&self.stores) } else { Vec::new() };
        let visible: BTreeSet<ReplicaId> = visible.into_iter().map(|replica| replica.id).collect();
        for load in self.stores.loads.iter() {
            self.decide_about(load, wait, &visible, &mut decided);
        }
        let ended: BTreeSet<CollectionId> = decided.ended.iter().map(|load| load.collection).collect();
        decided.saved = self.unsaved_failures.difference(&ended).copied().collect();
        let failures = decided.saved.iter().map(|collection| self.stores.failed_loads.of(*collection));
        decided.change.failures.extend(failures);
        decided
    }

    fn decide_about(
        &self,
        load: &LoadRecord,
        wait: GroupWait,
        visible: &BTreeSet<ReplicaId>,
        decided: &mut Decided,
    ) {
        let (collection, wall) = (load.collection, WallTime(wait.now));
        let timeout = self.rules.load_timeout;
        let observed = || observe(&self.stores, collection, &mut decided.carried, wall, timeout).record;
        let progress = self.due.progress.then(observed).flatten();
        let record = new_partitions(&self.stores, collection, wall).or(progress);
        // What goes on is known when it was looked at.
        if record.is_none()
            && self.due.progress
            && let Some(ended) = self.overdue(collection, wall)
        {
            decided.change.extend(ended.change.clone());
            decided.ended.push(ended);
            return;
        }
        if self.next_step(collection) == NextStep::Promote
            && let Some(next) = self.stores.targets.next(collection)
        {
            decided.change.targets.push(Target::clone(next));
        }
        // One thing after the other: what a change of defaults rewrites is left alone otherwise.
        match self.by_default(load, wait).filter(|_| record.is_none()) {
            Some(change) => decided.change.extend(change),
            None => {
                decided.change.records.extend(record);
                decided.change.replicas.extend(self.changed_replicas(collection, wait, visible));
            }
        }
    }

    /// What the defaults of replicas change of a load whose number nobody chose.
    fn by_default(&self, load: &LoadRecord, wait: GroupWait) -> Option<LoadChange> {
        let defaults = &self.rules.defaults;
        if load.replicas_chosen || defaults.is_empty() || load.average().is_none() {
            return None;
        }
        let present = present_numbers(self.stores.replicas_of(load.collection));
        let wanted = defaults.numbers_after(&self.stores, &present).ok()?;
        plan_update(&self.stores, load, &wanted, false, false, wait)
    }

    /// Lets what was written take effect.
    fn settle(&mut self, mut decided: Decided, created: Vec<Replica>) {
        for told in self.tell(&decided.ended) {
            tracing::warn!("{told}");
        }
        for target in &decided.change.targets {
            metrics::promoted();
            self.log_promotion(target);
        }
        // Of these memory knows as much, or more by now.
        decided.change.failures.retain(|failures| !decided.saved.contains(&failures.collection));
        self.apply(decided.change, created);
        self.carried = decided.carried;
    }

    /// Replicas whose nodes change, that finished, or that become visible.
    fn changed_replicas(
        &self,
        collection: CollectionId,
        wait: GroupWait,
        visible: &BTreeSet<ReplicaId>,
    ) -> Vec<Replica> {
        let stores = &self.stores;
        let mut planned: BTreeMap<ReplicaId, Replica> =
            stores.replicas_of(collection).map(|replica| (replica.id, replica.clone())).collect();
        if self.due.replicas {
            let assigned = replica_nodes(stores, collection, stores.replicas_of(collection), wait);
            planned.extend(assigned.into_iter().map(|replica| (replica.id, replica)));
        }
        for replica in finished_replicas(stores, collection) {
            if let Some(planned) = planned.get_mut(&replica.id) {
                planned.finished = true;
            }
        }
        for replica in planned.values_mut() {
            replica.query_visible |= visible.contains(&replica.id);
        }
        let known = |id| stores.replicas.of(collection).iter().find(|replica| replica.id == id);
        planned
            .into_values()
            .filter(|replica| known(replica.id).map(AsRef::as_ref) != Some(replica))
            .collect()
    }

    fn log_promotion(&self, target: &Target) {
        let collection = self.stores.collections.get(&target.collection);
        let collection = collection.map_or("", |store| store.collection.name.as_str());
        tracing::info!(collection, version = %target.version, segments = target.segment_count(), "a target was promoted");
    }
}
