//! What a broker tells a coordinator that it holds.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{
    CollectionName,
    feed::{CollectionEntry, Snapshot},
};
use pointsman_proto::{
    broker::v1::{CollectionDigest, Holding},
    collection_digest,
};

/// Digests of the collections that were held when they were last asked for: none is made twice.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    known: BTreeMap<CollectionName, (Arc<CollectionEntry>, [u8; 32])>,
}

impl Digests {
    /// What is held of a snapshot. Costs a pass over the segments of collections that changed since the last time.
    pub(crate) fn holding(&mut self, snapshot: &Snapshot) -> Holding {
        let digest = |entry: &Arc<CollectionEntry>| match self.known.get(&entry.name) {
            Some((known, digest)) if Arc::ptr_eq(known, entry) => *digest,
            _ => collection_digest(entry),
        };
        let digests = snapshot.collections.iter().map(|entry| (Arc::clone(entry), digest(entry)));
        self.known = digests.map(|(entry, digest)| (entry.name.clone(), (entry, digest))).collect();
        let collection = |(name, (_, digest)): (&CollectionName, &(_, [u8; 32]))| CollectionDigest {
            name: name.to_string(),
            digest: digest.to_vec(),
        };
        Holding {
            nodes: snapshot.nodes.iter().map(|node| node.name.to_string()).collect(),
            collections: self.known.iter().map(collection).collect(),
        }
    }
}
