//! Targets: what is loaded next, and when it becomes what is served.

use std::{collections::BTreeSet, time::Duration};

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, SegmentId, TargetVersion};

use crate::{Stores, Target, serves_shard};

/// A next target that was not promoted for so long is pulled again, so that what was pushed since need not wait for a
/// segment that cannot be loaded.
const NEXT_MAX_AGE: Duration = Duration::from_secs(300);

/// The next target of a loaded collection: `None` when the catalog holds what is served already.
///
/// A next target that is there stays as it is, so that steady pushes cannot put a promotion off for ever; it is pulled
/// again when one of its segments was dropped, or when it is too old.
pub fn next_target(stores: &Stores, collection: CollectionId, now: WallTime) -> Option<Target> {
    let live = &stores.collections.get(&collection)?.segments;
    let (current, next) = (stores.current.get(&collection), stores.next.get(&collection));
    if let Some(next) = next {
        let age = Duration::from_nanos(now.0.saturating_sub(next.version.0));
        if age < NEXT_MAX_AGE && next.segments.iter().all(|id| live.contains_key(id)) {
            return Some(next.clone());
        }
    }
    let segments: Vec<SegmentId> = live.keys().copied().collect();
    if current.is_some_and(|current| current.segments == segments) {
        return None;
    }
    let newest = current.into_iter().chain(next).map(|target| target.version.0).max().unwrap_or(0);
    Some(Target { collection, version: TargetVersion(now.0.max(newest + 1)), segments })
}

/// Whether the next target of a collection can be served: for each shard, one query-visible replica at least holds
/// all of its segments on known nodes. A target without segments always can.
pub fn promotable(stores: &Stores, collection: CollectionId) -> bool {
    let Some(next) = stores.next.get(&collection) else { return false };
    stores.by_shard(next).values().all(|segments| {
        // A shard without segments waits for nobody.
        segments.is_empty() || serves_shard(stores, collection, None, segments)
    })
}

impl Stores {
    /// Segments that a loaded collection's replicas should hold now: those of both targets.
    pub fn wanted(&self, collection: CollectionId) -> BTreeSet<SegmentId> {
        let targets = [self.current.get(&collection), self.next.get(&collection)];
        targets.into_iter().flatten().flat_map(|target| target.segments.iter().copied()).collect()
    }
}
