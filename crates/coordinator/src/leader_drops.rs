//! Whose shard leaders brokers are to ask for again.
//!
//! What the feed lists of leaders tells it by itself; a change of loads makes other leaders also where nothing listed
//! changes yet.

use std::collections::BTreeSet;

use pointsman_ids::{
    CollectionId,
    feed::{CollectionDelta, Delta, Snapshot},
};
use pointsman_query_coord::{LoadChange, LoadRecord, Replica, Stores};

/// Collections of which a change that is not made yet begins, ends or finishes the load, or changes replicas.
pub(crate) fn of_loads(stores: &Stores, change: &LoadChange) -> BTreeSet<CollectionId> {
    let other_load = |record: &&LoadRecord| {
        stores.loads.get(record.collection).is_none_or(|known| {
            known.status != record.status || !known.partitions.keys().eq(record.partitions.keys())
        })
    };
    let other_place = |replica: &&Replica| {
        let known = stores.replicas.of(replica.collection).iter().find(|known| known.id == replica.id);
        known.is_none_or(|known| known.query_visible != replica.query_visible || known.group != replica.group)
    };
    let mut collections: BTreeSet<CollectionId> = change.released.iter().copied().collect();
    collections.extend(change.records.iter().filter(other_load).map(|record| record.collection));
    collections.extend(change.created.iter().map(|replica| replica.collection));
    collections.extend(change.replicas.iter().filter(other_place).map(|replica| replica.collection));
    collections.extend(change.removed.iter().map(|(collection, _)| *collection));
    collections
}

/// Collections of which a delta of the feed lists other leaders, or that it drops.
pub(crate) fn of_feed(before: &Snapshot, delta: &Delta) -> BTreeSet<CollectionId> {
    let known = |name: &str| before.collection(name).map(|entry| entry.id);
    let led = delta.collections.iter().filter_map(|told| match told {
        CollectionDelta::Whole(entry) => Some(entry.id),
        CollectionDelta::Changed(change) if change.leaders.is_empty() => None,
        CollectionDelta::Changed(change) => known(change.name.as_str()),
    });
    led.chain(delta.dropped.iter().filter_map(|name| known(name.as_str()))).collect()
}
