//! What a broker lacks, found out from what it holds: for a coordinator that does not know what changed since.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use pointsman_ids::{
    CollectionName, FeedVersion,
    feed::{CollectionChange, CollectionDelta, CollectionEntry, Delta, LeaderDrops, Snapshot},
};
use pointsman_proto::{broker::v1 as pb, collection_digest};
use prost::Message;

use crate::{awaited::Awaited, history::MAX_BYTES};

/// Digests of collections, each with the version of the entry that it is of.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    known: Mutex<BTreeMap<CollectionName, (FeedVersion, [u8; 32])>>,
}

impl Digests {
    fn of(&self, entry: &CollectionEntry) -> [u8; 32] {
        let known = self.known.lock().get(&entry.name).copied();
        if let Some((_, digest)) = known.filter(|(version, _)| *version == entry.version) {
            return digest;
        }
        let digest = collection_digest(entry);
        self.known.lock().insert(entry.name.clone(), (entry.version, digest));
        digest
    }
}

/// What a broker held when it came, as far as it was told nothing of it since.
#[derive(Debug, Default)]
pub(crate) struct Held {
    nodes: BTreeSet<String>,
    collections: BTreeMap<String, Vec<u8>>,
}

impl From<pb::Holding> for Held {
    fn from(holding: pb::Holding) -> Self {
        let collections = holding.collections.into_iter().map(|held| (held.name, held.digest));
        Self { nodes: holding.nodes.into_iter().collect(), collections: collections.collect() }
    }
}

impl Held {
    /// What makes `snapshot` of what is held of version `has`: nodes, groups and configuration as they are, and of the
    /// collections those that differ. What is awaited stays as it is, but for switches.
    pub(crate) fn difference(
        &self,
        snapshot: &Snapshot,
        awaited: &Awaited,
        digests: &Digests,
        has: FeedVersion,
    ) -> pb::Delta {
        let known: BTreeSet<&str> = snapshot.nodes.iter().map(|node| node.name.as_str()).collect();
        let gone = self.nodes.iter().map(String::as_str);
        let gone = gone.filter(|name| !known.contains(name) && !awaited.has_node(name));
        let dropped = self.collections.keys().map(String::as_str);
        let dropped =
            dropped.filter(|name| snapshot.collection(name).is_none() && !awaited.has_collection(name));
        let delta = Delta {
            nodes: snapshot.nodes.clone(),
            // A name that is none cannot be one that the broker holds.
            nodes_removed: gone.filter_map(|name| name.parse().ok()).collect(),
            switched_off: awaited.switched_off().cloned().collect(),
            groups: Some(snapshot.groups.clone()),
            config: Some(snapshot.config.clone()),
            collections: snapshot.collections.iter().map(|entry| self.told(entry, digests)).collect(),
            dropped: dropped.filter_map(|name| name.parse().ok()).collect(),
            leader_drops: LeaderDrops::All,
            ..Delta::empty(snapshot.cluster.clone(), has, snapshot.version)
        };
        (&delta).into()
    }

    fn told(&self, entry: &Arc<CollectionEntry>, digests: &Digests) -> CollectionDelta {
        if self.is_same(entry, digests) {
            CollectionDelta::Changed(CollectionChange::empty(entry.name.clone(), entry.version))
        } else {
            CollectionDelta::Whole(Arc::clone(entry))
        }
    }

    fn is_same(&self, entry: &CollectionEntry, digests: &Digests) -> bool {
        self.collections.get(entry.name.as_str()).is_some_and(|held| **held == digests.of(entry))
    }

    /// Takes out of a change to `snapshot` the collections that are held as they are.
    pub(crate) fn spare(&self, delta: &mut pb::Delta, snapshot: &Snapshot, digests: &Digests) {
        let same = |told: &pb::Collection| {
            snapshot.collection(&told.name).is_some_and(|entry| self.is_same(entry, digests))
        };
        for told in delta.whole.extract_if(.., |told| same(told)) {
            let (name, version) = (told.name, told.version);
            delta.changed.push(pb::CollectionChange { name, version, ..Default::default() });
        }
    }

    /// Of what the broker was told it holds something else now.
    pub(crate) fn forget(&mut self, delta: &pb::Delta) {
        let changed = delta.changed.iter().map(|told| &told.name);
        for name in delta.whole.iter().map(|told| &told.name).chain(changed).chain(&delta.dropped) {
            self.collections.remove(name);
        }
    }
}

/// Whether a change is small enough to be sent. A snapshot takes the place of others.
pub(crate) fn may_be_sent(delta: &pb::Delta) -> bool {
    delta.encoded_len() <= MAX_BYTES
}
