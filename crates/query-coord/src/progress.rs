//! How far loads are.

use pointsman_ids::CollectionId;

use crate::{LoadRecord, LoadStatus, Replica, Stores, Target, holds_all};

/// How much of a target a replica carries now, percent: 0 only when it carries nothing, 100 only when it carries all.
/// A target without segments is carried.
pub fn replica_percent(stores: &Stores, replica: &Replica, target: &Target) -> u8 {
    percent(carried(stores, replica, target), target.segments.len())
}

/// How many segments of a target a replica carries.
pub(crate) fn carried(stores: &Stores, replica: &Replica, target: &Target) -> usize {
    target.segments.iter().filter(|segment| stores.replica_carries(replica, **segment)).count()
}

fn percent(carried: usize, total: usize) -> u8 {
    match carried.saturating_mul(100).checked_div(total) {
        None => 100,
        Some(0) => u8::from(carried > 0),
        Some(percent) => u8::try_from(percent.min(100)).unwrap_or(100),
    }
}

/// The registration with the progress made since, `None` when there is none. The figure never falls; it becomes 100,
/// and the status loaded, only when every replica carries the newest target and that target is the current one.
///
/// `now` is wall-clock time, nanoseconds since the Unix epoch.
pub fn collection_percent(stores: &Stores, collection: CollectionId, now: u64) -> Option<LoadRecord> {
    let record = stores.loads.get(&collection)?;
    if record.status == LoadStatus::Loaded {
        return None;
    }
    let target = stores.next_first(collection)?;
    let replicas = || stores.replicas_of(collection);
    let held: usize = replicas().map(|replica| carried(stores, replica, target)).sum();
    let total = target.segments.len().saturating_mul(usize::try_from(record.replicas).unwrap_or(usize::MAX));
    let served = stores.current.contains_key(&collection) && !stores.next.contains_key(&collection);
    let reached = match percent(held, total) {
        100 if !served => 99,
        // Nothing is carried by nobody: without a replica there is no progress.
        100 if replicas().next().is_none() => 0,
        percent => percent,
    };
    if reached <= record.percent {
        return None;
    }
    let status = if reached == 100 { LoadStatus::Loaded } else { LoadStatus::Loading };
    Some(LoadRecord { percent: reached, status, updated_at: now, ..record.clone() })
}

/// Replicas that hold their collection's current target for the first time, marked as finished.
pub fn finished_replicas(stores: &Stores, collection: CollectionId) -> Vec<Replica> {
    let Some(current) = stores.current.get(&collection) else { return Vec::new() };
    let fresh = |replica: &&Replica| !replica.finished && holds_all(stores, replica, &current.segments);
    stores
        .replicas_of(collection)
        .filter(fresh)
        .map(|replica| Replica { finished: true, ..replica.clone() })
        .collect()
}
