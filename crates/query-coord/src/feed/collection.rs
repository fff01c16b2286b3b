//! What brokers are told of one collection.

use std::sync::Arc;

use imbl::Vector;
use pointsman_ids::{
    CollectionId, Error, FeedVersion, GroupNumber, ShardName,
    feed::{CollectionChange, CollectionEntry, LeaderEntry, LeadersChange, LoadState, ReplicaEntry},
};

use super::segments::Segments;
use crate::{Change, CollectionStore, Replica, Stores, ready::leader_of};

/// What brokers are told of a collection, at version 0; `None` when there is none of this number.
///
/// # Errors
/// `parameter_invalid` if a change does not fit what it was made from, which it does.
pub fn collection_entry(stores: &Stores, id: CollectionId) -> Result<Option<CollectionEntry>, Error> {
    let Some(empty) = empty_entry(stores, id) else { return Ok(None) };
    let all = Change { all: true, ..Change::default() };
    let change = collection_change(stores, &empty, &all);
    change.map(|change| empty.apply(&change)).transpose()
}

/// An entry of a collection in which nothing is loaded.
pub fn empty_entry(stores: &Stores, id: CollectionId) -> Option<CollectionEntry> {
    let store = stores.collections.get(&id)?;
    let shards: Vec<ShardName> = store.shards().collect();
    Some(CollectionEntry {
        name: store.collection.name.clone(),
        id,
        version: FeedVersion(0),
        routing: store.collection.options.routing.clone(),
        query_timeout: store.collection.options.query_timeout,
        key: store.collection.options.key.clone(),
        vector_indexes: store.collection.options.vector_indexes.clone(),
        clusters: store.collection.options.clusters.clone(),
        columns: store.collection.columns.clone(),
        partitions: vec![],
        load: LoadState::NotLoaded,
        finished_groups: vec![],
        replicas: vec![],
        segments: Vector::new(),
        leaders: vec![vec![]; shards.len()],
        shards,
    })
}

/// What makes the entry of today out of a former one, of which `change` says where it may differ; `None` when the
/// collection is there no more. Costs what changed.
///
/// Names of partitions and shards keep their places: new ones come last.
pub fn collection_change(
    stores: &Stores,
    former: &CollectionEntry,
    change: &Change,
) -> Option<CollectionChange> {
    let store = stores.collections.get(&former.id)?;
    let visible: Vec<Arc<Replica>> =
        stores.replicas.of(former.id).iter().filter(|replica| replica.query_visible).cloned().collect();
    let mut told = CollectionChange::empty(former.name.clone(), former.version);
    let mut segments = Segments::new(stores, former, &visible);
    // Those of the next target are told from the first promotion on.
    let begins_ahead = stores.serves_ahead(former.id) && former.load != LoadState::Serving;
    let all = Change { all: true, ..change.clone() };
    for segment in stores.concerned(former.id, if begins_ahead { &all } else { change }) {
        segments.look(segment);
    }
    let (partitions, shards) = segments.tell(&mut told);
    let leaders = leaders(stores, former.id, &shards, &visible);
    told.leaders = changed_leaders(&former.leaders, leaders);
    let head = head(stores, store, former, &visible);
    let head = CollectionEntry { partitions, shards, ..head };
    if head != former.head() {
        told.head = Some(Arc::new(head));
    }
    Some(told)
}

fn head(
    stores: &Stores,
    store: &CollectionStore,
    former: &CollectionEntry,
    visible: &[Arc<Replica>],
) -> CollectionEntry {
    let options = &store.collection.options;
    CollectionEntry {
        routing: options.routing.clone(),
        query_timeout: options.query_timeout,
        key: options.key.clone(),
        vector_indexes: options.vector_indexes.clone(),
        clusters: options.clusters.clone(),
        columns: store.collection.columns.clone(),
        load: load_state(stores, former.id),
        finished_groups: finished_groups(stores, visible),
        replicas: visible.iter().map(|r| ReplicaEntry { id: r.id, group: number(stores, r) }).collect(),
        ..former.head()
    }
}

fn load_state(stores: &Stores, id: CollectionId) -> LoadState {
    match stores.loads.get(id) {
        None => LoadState::NotLoaded,
        Some(_) if stores.targets.current(id).is_some() => LoadState::Serving,
        Some(record) => LoadState::Loading { percent: record.percent },
    }
}

impl Stores {
    /// Whether queries on a collection also see segments of its next target.
    pub(super) fn serves_ahead(&self, id: CollectionId) -> bool {
        let chosen =
            self.collections.get(&id).is_some_and(|store| store.collection.options.serve_before_promotion);
        chosen && load_state(self, id) == LoadState::Serving
    }
}

fn finished_groups(stores: &Stores, visible: &[Arc<Replica>]) -> Vec<GroupNumber> {
    let finished = visible.iter().filter(|replica| replica.finished);
    let mut groups: Vec<GroupNumber> = finished.map(|replica| number(stores, replica)).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn number(stores: &Stores, replica: &Replica) -> GroupNumber {
    stores.groups.get(&replica.group).map_or(GroupNumber::NONE, |group| group.number)
}

/// Per shard the leaders that nodes report, in replica order, serviceable or not. Only leaders on known nodes are listed.
fn leaders(
    stores: &Stores,
    id: CollectionId,
    shards: &[ShardName],
    visible: &[Arc<Replica>],
) -> Vec<Vec<LeaderEntry>> {
    let current = stores.targets.current(id);
    let leader = |shard: &ShardName, replica: &Replica| {
        let leader = leader_of(stores, replica, shard)?;
        let (node, serviceable) = (leader.node_id, leader.serviceable);
        let known = stores.is_known(leader.node.as_str());
        known.then(|| LeaderEntry { node, serviceable, group: number(stores, replica) })
    };
    let of_shard = |shard: &ShardName| {
        let listed =
            current.and_then(|current| current.shard(shard.as_str())).is_some_and(|shard| shard.listed);
        visible.iter().filter(|_| listed).filter_map(|replica| leader(shard, replica)).collect()
    };
    shards.iter().map(of_shard).collect()
}

fn changed_leaders(former: &[Vec<LeaderEntry>], leaders: Vec<Vec<LeaderEntry>>) -> Vec<LeadersChange> {
    let other_shards = former.len() != leaders.len();
    let all = (0..).zip(leaders).zip(former.iter().map(Some).chain(std::iter::repeat(None)));
    let changed = all.filter(|((_, leaders), former)| other_shards || *former != Some(leaders));
    changed.map(|((shard, leaders), _)| LeadersChange { shard, leaders }).collect()
}
