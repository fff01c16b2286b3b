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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pointsman_ids::{
        FeedVersion, GroupNumber, NodeId, ReplicaId,
        catalog::RoutingOptions,
        feed::{CollectionChange, CollectionEntry, LeaderEntry, LoadState, ReplicaEntry},
    };

    use super::*;

    fn collection(serviceable: bool, node: u64) -> CollectionEntry {
        let leader =
            |node, serviceable| LeaderEntry { node: NodeId(node), serviceable, group: GroupNumber(1) };
        CollectionEntry {
            name: "docs".parse().unwrap(),
            id: CollectionId(31),
            version: FeedVersion(1),
            routing: RoutingOptions::default(),
            query_timeout: None,
            key: None,
            vector_indexes: vec![],
            clusters: vec![],
            columns: vec![],
            partitions: vec![],
            shards: vec!["s0".parse().unwrap(), "s1".parse().unwrap()],
            load: LoadState::Serving,
            finished_groups: vec![],
            replicas: vec![ReplicaEntry { id: ReplicaId(1), group: GroupNumber(1) }],
            leaders: vec![vec![leader(1, true)], vec![leader(2, true), leader(node, serviceable)]],
            segments: [].into_iter().collect(),
        }
    }

    /// Brokers would find a leader that was lost by its failure; nothing but this tells them of one that is back.
    #[test]
    fn a_leader_that_becomes_serviceable_is_news() {
        let before = collection(false, 3);
        let mut snapshot = Snapshot::empty("local".parse().unwrap());
        snapshot.collections = vec![Arc::new(before.clone())];
        for (after, is_news) in
            [(collection(true, 3), true), (collection(false, 4), true), (collection(false, 3), false)]
        {
            let change = CollectionChange::between(&before, &after);
            let empty = Delta::empty(snapshot.cluster.clone(), FeedVersion(1), FeedVersion(2));
            let delta = Delta { collections: vec![CollectionDelta::Changed(change)], ..empty };
            let told = of_feed(&snapshot, &delta);
            assert_eq!(told, if is_news { [CollectionId(31)].into() } else { BTreeSet::new() }, "{after:?}");
        }
    }
}
