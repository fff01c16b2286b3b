//! Targets: what is loaded next.

use std::{collections::BTreeSet, time::Duration};

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, PartitionName, SegmentId, ShardName, TargetVersion};

use crate::{CatalogSegment, LoadKind, LoadRecord, LoadStatus, PartitionLoad, Scope, Stores, Target};

/// What looking for a next target came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// The next target stays as it is, or absent.
    Unchanged,
    /// There is nothing but what is served already: no next target.
    Nothing,
    /// The next target.
    Next(Target),
}

/// Looks for the next target of a loaded collection in the catalog: all of its shards, and the segments of the
/// partitions that are registered. The catalog is in memory, so one look is as good as ten.
///
/// A next target that is there stays for `max_age`, so that steady pushes cannot put a promotion off for ever. It is
/// pulled again before that when one of its segments was dropped, or when other partitions are registered.
///
/// Costs nothing while nothing changed since it was looked for last.
pub fn pull(stores: &mut Stores, collection: CollectionId, now: WallTime, max_age: Duration) -> Pulled {
    let (Some(store), Some(record)) = (stores.collections.get(&collection), stores.loads.get(collection))
    else {
        stores.pulls.forget(collection);
        return Pulled::Unchanged;
    };
    let (current, next) = (stores.targets.current(collection), stores.targets.next(collection));
    let lists = |target: &Target| target.partitions.iter().eq(record.partitions.keys());
    if let Some(next) = next.filter(|next| lists(next) && is_young(next, now, max_age)) {
        let is_live = || next.segments().all(|id| store.segments.contains_key(&id));
        if stores.pulls.holds(store, next) || is_live() {
            stores.pulls.note(store, next);
            return Pulled::Unchanged;
        }
    }
    if next.is_none() && current.is_some_and(|current| lists(current) && stores.pulls.holds(store, current)) {
        return Pulled::Unchanged;
    }
    let shards: Vec<ShardName> = store.shards().collect();
    let registered =
        |segment: &&CatalogSegment| record.partitions.contains_key(&segment.segment.content.partition);
    let segments: Vec<_> =
        store.segments.values().filter(registered).map(CatalogSegment::in_target).collect();
    if shards.is_empty() && segments.is_empty() {
        return Pulled::Unchanged;
    }
    let version = next_version(stores, collection, &shards, now);
    let pulled = Target::new(collection, version, shards, record.partitions.keys().cloned(), segments);
    match current.filter(|current| current.same_content(&pulled)) {
        Some(current) => {
            stores.pulls.note(store, current);
            Pulled::Nothing
        }
        None => Pulled::Next(pulled),
    }
}

fn is_young(next: &Target, now: WallTime, max_age: Duration) -> bool {
    Duration::from_nanos(now.0.saturating_sub(next.version.0)) < max_age
}

/// The creation time, and higher than every version that is known: of targets, and of views that a target had which did
/// not survive.
fn next_version(
    stores: &Stores,
    collection: CollectionId,
    shards: &[ShardName],
    now: WallTime,
) -> TargetVersion {
    let targets = stores.targets.candidates(collection, Scope::CurrentFirst).map(|target| target.version.0);
    let leaders = shards.iter().flat_map(|shard| stores.distribution.leaders(collection, shard));
    let known = targets.chain(leaders.map(|leader| leader.target_version.0)).max().unwrap_or(0);
    TargetVersion(now.0.max(known + 1))
}

/// The registration of a whole collection with the partitions that were pushed since; `None` when there are none. They
/// count as loaded: their segments appear with the next promotion, as those of other partitions do.
pub fn new_partitions(stores: &Stores, collection: CollectionId, now: WallTime) -> Option<LoadRecord> {
    let store = stores.collections.get(&collection)?;
    joined_by(stores, collection, store.partitions(), now)
}

/// The registration of a whole collection with these partitions, of which some may be about to be pushed; `None` when it
/// has them all, or is not registered as a whole.
pub fn joined_by<'a>(
    stores: &Stores,
    collection: CollectionId,
    partitions: impl IntoIterator<Item = &'a PartitionName>,
    now: WallTime,
) -> Option<LoadRecord> {
    let record = stores.loads.get(collection).filter(|record| record.kind == LoadKind::Collection)?;
    if record.partitions.is_empty() {
        return None;
    }
    let names = partitions.into_iter();
    let new: Vec<_> = names.filter(|name| !record.partitions.contains_key(*name)).cloned().collect();
    if new.is_empty() {
        return None;
    }
    let loaded =
        PartitionLoad { status: LoadStatus::Loaded, percent: 100, created_at: now.0, updated_at: now.0 };
    let mut record = record.clone();
    record.partitions.extend(new.into_iter().map(|name| (name, loaded.clone())));
    record.percent = record.average().unwrap_or(record.percent);
    Some(record)
}

impl Stores {
    /// Segments that a loaded collection's replicas should hold now: those of both targets.
    pub fn wanted(&self, collection: CollectionId) -> BTreeSet<SegmentId> {
        self.targets
            .candidates(collection, Scope::CurrentFirst)
            .flat_map(|target| target.segments())
            .collect()
    }

    /// Names of all shards of both targets.
    pub(crate) fn shards_of_targets(&self, collection: CollectionId) -> BTreeSet<ShardName> {
        let targets = self.targets.candidates(collection, Scope::CurrentFirst);
        targets.flat_map(|target| &target.shards).map(|shard| shard.name.clone()).collect()
    }
}
