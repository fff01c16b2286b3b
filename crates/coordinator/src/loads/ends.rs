//! Loads after a start of the coordinator, and loads that end.

use std::{collections::BTreeMap, time::Duration};

use pointsman_clock::{MonoTime, WallTime};
use pointsman_ids::{CollectionId, Error, NodeName, SegmentId};
use pointsman_query_coord::{EndedLoad, recovered, standstill, timed_out};

use crate::{metrics, state::State, tenure::Tenure};

/// A load that makes no progress for so long is told of.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is told again.
const REMINDER: Duration = Duration::from_secs(60);

impl Tenure {
    /// Takes loads up that were there when this coordinator became active: those that have not finished count one more
    /// start, and those that started too often end. Done once per tenure.
    pub(crate) async fn recover_loads(&self) -> Result<(), Error> {
        let pen = self.begin_write().await?;
        if self.state().recovered {
            return Ok(());
        }
        let limit = self.settings().load_recover_limit;
        let (mut change, ended) = recovered(&self.state().stores, WallTime(self.wall()), limit);
        let told = self.state().tell(&ended);
        ended.into_iter().for_each(|load| change.extend(load.change));
        self.change_loads(&pen, change).await?;
        told.iter().for_each(|told| tracing::warn!("{told}"));
        self.state().recovered = true;
        Ok(())
    }
}

impl Tenure {
    /// Forgets failed loads that are too old. Done after they were told: who asks first for an old one still hears of it.
    pub(crate) fn expire_failed_loads(&self) {
        let (ttl, wall) = (self.settings().failed_load_ttl, WallTime(self.wall()));
        let mut state = self.state();
        let expired = state.stores.failed_loads.expire(wall, ttl);
        if !expired.is_empty() {
            state.unsaved_failures.extend(expired);
            drop(state);
            self.wake();
        }
    }
}

impl State {
    /// Ends of loads in words.
    pub(crate) fn tell(&self, ended: &[EndedLoad]) -> Vec<String> {
        let word = |load: &EndedLoad| {
            metrics::load_ended();
            let store = self.stores.collections.get(&load.collection);
            let name = store.map_or_else(String::new, |store| store.collection.name.to_string());
            format!("the load of collection '{name}' ends, {} replicas stay: {}", load.stays, load.why)
        };
        ended.iter().map(word).collect()
    }

    /// The end of a load that made no progress for too long. While nodes are waited for, or most of them are lost at
    /// once, nothing ends: that would be the coordinator's fault.
    pub(crate) fn overdue(&self, collection: CollectionId, wall: WallTime) -> Option<EndedLoad> {
        if self.stores.awaiting || self.guard.is_suspicious() {
            return None;
        }
        timed_out(&self.stores, collection, wall, self.rules.load_timeout)
    }

    /// Records that a node failed to load a segment; it is written with the next change.
    pub(crate) fn record_failure(
        &mut self,
        node: &NodeName,
        segment: SegmentId,
        error: &Error,
        wall: WallTime,
    ) {
        let Some(found) = self.stores.known_segment(segment).map(|segment| &segment.segment) else { return };
        let (collection, name) = (found.collection, found.content.name.clone());
        if self.stores.loads.get(collection).is_none() {
            return;
        }
        let replica = self.stores.replicas_of(collection).find(|replica| replica.contains(node.as_str()));
        let group = replica.map(|replica| replica.group.clone());
        let place = group.map_or_else(String::new, |group| format!("resource group '{group}', "));
        let text = format!("{place}node '{node}', segment '{name}': {}", error.message());
        if self.stores.failed_loads.record(collection, &Error::new(error.code(), text), wall) {
            self.unsaved_failures.insert(collection);
        }
    }

    /// Says which loads stand still, and why: once when it begins, and once per minute.
    pub(crate) fn watch_loads(&mut self, now: MonoTime, wall: WallTime) {
        let mut stalled = BTreeMap::new();
        for load in self.stores.loads.iter() {
            let Some(still) = standstill(&self.stores, load.collection, wall, PATIENCE) else { continue };
            let told = self.stalled.get(&load.collection).copied();
            let due = told.is_none_or(|told| now - told >= REMINDER);
            if due {
                let store = self.stores.collections.get(&load.collection);
                let collection = store.map_or("", |store| store.collection.name.as_str());
                tracing::warn!(collection, "a load stands still: {still}");
            }
            stalled.insert(load.collection, told.filter(|_| !due).unwrap_or(now));
        }
        self.stalled = stalled;
        metrics::stalled(self.stalled.len());
    }
}
