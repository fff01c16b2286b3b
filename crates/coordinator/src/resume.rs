//! What a broker lacks, found out from what it holds: for a coordinator that does not know what changed since.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use pointsman_ids::{
    CollectionName, FeedVersion,
    feed::{CollectionChange, CollectionDelta, CollectionEntry, Delta, Snapshot},
};
use pointsman_proto::{broker::v1 as pb, collection_digest};
use prost::Message;

use crate::history::MAX_BYTES;

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

/// What makes `snapshot` of what a broker holds of version `has`: nodes, groups and configuration as they are, and of
/// the collections those that differ. `None` when that is so much that it may as well have the snapshot.
pub(crate) fn difference(
    snapshot: &Snapshot,
    digests: &Digests,
    has: FeedVersion,
    holding: &pb::Holding,
) -> Option<pb::Delta> {
    let held: BTreeMap<&str, &[u8]> =
        holding.collections.iter().map(|held| (held.name.as_str(), held.digest.as_slice())).collect();
    let collection = |entry: &Arc<CollectionEntry>| {
        let same = held.get(entry.name.as_str()).is_some_and(|held| *held == digests.of(entry));
        if same {
            CollectionDelta::Changed(CollectionChange::empty(entry.name.clone(), entry.version))
        } else {
            CollectionDelta::Whole(Arc::clone(entry))
        }
    };
    let nodes: BTreeSet<&str> = snapshot.nodes.iter().map(|node| node.name.as_str()).collect();
    let gone = holding.nodes.iter().filter(|name| !nodes.contains(name.as_str()));
    let dropped = held.keys().filter(|name| snapshot.collection(name).is_none());
    let delta = Delta {
        nodes: snapshot.nodes.clone(),
        // A name that is none cannot be one that the broker holds.
        nodes_removed: gone.filter_map(|name| name.parse().ok()).collect(),
        groups: Some(snapshot.groups.clone()),
        config: Some(snapshot.config.clone()),
        collections: snapshot.collections.iter().map(collection).collect(),
        dropped: dropped.filter_map(|name| name.parse().ok()).collect(),
        ..Delta::empty(snapshot.cluster.clone(), has, snapshot.version)
    };
    let message = pb::Delta::from(&delta);
    (message.encoded_len() <= MAX_BYTES).then_some(message)
}
