//! Loads that end without having finished.

use std::{collections::BTreeSet, time::Duration};

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, Error, ErrorCode, GroupName, PartitionName};

use super::{LoadChange, standstill::obstacles};
use crate::{
    FailedLoads, LoadKind, LoadRecord, LoadStatus, PartitionLoad, Replica, Standstill, Stores, serves_alone,
};

/// A load that ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedLoad {
    /// The collection.
    pub collection: CollectionId,
    /// What is written.
    pub change: LoadChange,
    /// Why, for people.
    pub why: String,
    /// Replicas that stay.
    pub stays: u32,
}

/// Ends a load that made no progress for longer than `timeout`; `None` while it has time.
///
/// Replicas that alone serve every shard of the current target stay, with what it covers; the others go, the number of
/// replicas becomes that of those that stay, and what is left is loaded. Where none serves, a collection that was to be
/// loaded whole goes, and of others the partitions that have not finished, with the last of them everything. Why it ended
/// stays known.
pub fn timed_out(
    stores: &Stores,
    collection: CollectionId,
    now: WallTime,
    timeout: Duration,
) -> Option<EndedLoad> {
    let record = stores.loads.get(collection).filter(|record| record.status == LoadStatus::Loading)?;
    let age = |updated_at: u64| Duration::from_nanos(now.0.saturating_sub(updated_at));
    let is_over = match record.kind {
        LoadKind::Collection => age(record.updated_at) > timeout,
        LoadKind::Partitions => record.partitions.values().all(|load| age(load.updated_at) > timeout),
    };
    let standstill = Standstill { since: age(record.updated_at), causes: obstacles(stores, collection) };
    is_over.then(|| end(stores, record, now, &standstill.to_string()))
}

fn end(stores: &Stores, record: &LoadRecord, now: WallTime, why: &str) -> EndedLoad {
    let collection = record.collection;
    let current = stores.targets.current(collection);
    let unfinished = |load: &PartitionLoad| load.status == LoadStatus::Loading;
    let is_served = |name: &PartitionName| current.is_some_and(|current| current.covers(Some(name.as_str())));
    let serving: Vec<&Replica> =
        stores.replicas_of(collection).filter(|replica| serves_alone(stores, replica)).collect();
    let is_whole = record.kind == LoadKind::Collection;
    let mut rest = record.clone();
    let mut narrowed = is_whole;
    rest.partitions.retain(|name, load| {
        let stays = match serving.is_empty() {
            true => !is_whole && !unfinished(load),
            false => !unfinished(load) || is_served(name),
        };
        narrowed |= stays && unfinished(load);
        stays
    });
    let mut change = LoadChange::default();
    let mut dropped_groups = BTreeSet::new();
    let mut stays = record.replicas;
    if rest.partitions.is_empty() {
        change.released.push(collection);
        dropped_groups.extend(stores.replicas_of(collection).map(|replica| replica.group.clone()));
        stays = 0;
    } else {
        if narrowed {
            let gone = stores.replicas_of(collection).filter(|replica| !serving.contains(replica));
            change.removed.extend(gone.map(|replica| (collection, replica.id)));
            let kept: BTreeSet<&GroupName> = serving.iter().map(|replica| &replica.group).collect();
            let groups = stores.replicas_of(collection).map(|replica| &replica.group);
            dropped_groups.extend(groups.filter(|group| !kept.contains(group)).cloned());
            stays = u32::try_from(serving.len()).unwrap_or(u32::MAX);
        }
        rest.partitions.values_mut().for_each(|load| *load = load.reached(100, now));
        rest.replicas = stays;
        change.records.push(rest.averaged(now));
    }
    change.failures.push(failures(&stores.failed_loads, collection, why, dropped_groups, now));
    EndedLoad { collection, change, why: why.to_owned(), stays }
}

/// What is known of the collection's failures after this one.
fn failures(
    known: &FailedLoads,
    collection: CollectionId,
    why: &str,
    groups: BTreeSet<GroupName>,
    now: WallTime,
) -> super::CollectionFailures {
    let mut known = known.clone();
    known.record(collection, &Error::new(ErrorCode::SegmentLoadFailed, why), now);
    groups.into_iter().for_each(|group| known.drop_group(collection, group, why, now));
    known.of(collection)
}

/// What a coordinator that becomes active does with loads: one that has not finished goes on, with its time anew, unless
/// coordinators have started more than `limit` times meanwhile; one without replicas is released, and replicas that
/// belong to no load go. Loads that ended are given with the reason.
pub fn recovered(stores: &Stores, now: WallTime, limit: u32) -> (LoadChange, Vec<EndedLoad>) {
    let (mut change, mut ended) = (LoadChange::default(), Vec::new());
    for record in stores.loads.iter() {
        if record.replicas == 0 {
            ended.push(give_up(stores, record, now, "it has no replicas"));
        } else if record.status == LoadStatus::Loading && record.recoveries >= limit {
            let why = format!("coordinators started {} times while it was loading", record.recoveries + 1);
            ended.push(give_up(stores, record, now, &why));
        } else if record.status == LoadStatus::Loading {
            let mut record =
                LoadRecord { recoveries: record.recoveries + 1, updated_at: now.0, ..record.clone() };
            let loading = record.partitions.values_mut().filter(|load| load.status == LoadStatus::Loading);
            loading.for_each(|load| load.updated_at = now.0);
            change.records.push(record);
        }
    }
    let orphans = stores.replicas.iter().filter(|replica| stores.loads.get(replica.collection).is_none());
    change.removed.extend(orphans.map(|replica| (replica.collection, replica.id)));
    (change, ended)
}

/// Ends a load whatever serves. Partitions that have finished stay.
fn give_up(stores: &Stores, record: &LoadRecord, now: WallTime, why: &str) -> EndedLoad {
    let collection = record.collection;
    let why = format!("the load was given up: {why}");
    let mut rest = record.clone();
    rest.partitions.retain(|_, load| load.status == LoadStatus::Loaded);
    let mut change = LoadChange::default();
    if rest.partitions.is_empty() || record.replicas == 0 {
        change.released.push(collection);
    } else {
        change.records.push(rest.averaged(now));
    }
    let stays = if change.released.is_empty() { record.replicas } else { 0 };
    change.failures.push(failures(&stores.failed_loads, collection, &why, BTreeSet::new(), now));
    EndedLoad { collection, change, why, stays }
}
