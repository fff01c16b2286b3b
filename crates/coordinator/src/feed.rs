//! The routing feed's newest snapshot and its version.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{
    ClusterName, CollectionId, Epoch, FeedVersion,
    feed::{CollectionEntry, Snapshot},
};
use pointsman_query_coord::{Stores, collection_entry, group_entries, node_entries, same_content};

/// Bits of a version that count changes; those above are the epoch.
const COUNTER_BITS: u32 = 32;

/// The epoch of the tenure that gave a version.
pub(crate) fn epoch_of(version: FeedVersion) -> u64 {
    version.0 >> COUNTER_BITS
}

/// Builds snapshots whose version grows with their content only.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The version that was given last. Those of a tenure begin above those of every former one.
    version: FeedVersion,
    last: Option<Snapshot>,
}

impl Feed {
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self { version: FeedVersion(epoch.0 << COUNTER_BITS), last: None }
    }

    /// The newest snapshot, `None` when it says the same as the last one. Collections that did not change keep their
    /// pointers.
    pub(crate) fn update(&mut self, cluster: &ClusterName, stores: &Stores) -> Option<&Snapshot> {
        let version = FeedVersion(self.version.0 + 1);
        let former: BTreeMap<CollectionId, &Arc<CollectionEntry>> =
            self.last.iter().flat_map(|last| &last.collections).map(|entry| (entry.id, entry)).collect();
        let entry = |id: &CollectionId| {
            let entry = collection_entry(stores, *id)?;
            match former.get(id) {
                Some(same) if same_content(same, &entry) => Some(Arc::clone(same)),
                _ => Some(Arc::new(CollectionEntry { version, ..entry })),
            }
        };
        let new = Snapshot {
            cluster: cluster.clone(),
            version,
            nodes: node_entries(stores),
            groups: group_entries(stores),
            collections: stores.names.values().filter_map(entry).collect(),
            config: BTreeMap::new(),
        };
        if self.last.as_ref().is_some_and(|last| says_the_same(last, &new)) {
            return None;
        }
        self.version = version;
        Some(self.last.insert(new))
    }
}

fn says_the_same(a: &Snapshot, b: &Snapshot) -> bool {
    let same = |(a, b): (&Arc<CollectionEntry>, &Arc<CollectionEntry>)| Arc::ptr_eq(a, b);
    a.nodes == b.nodes
        && a.groups == b.groups
        && a.collections.len() == b.collections.len()
        && a.collections.iter().zip(&b.collections).all(same)
}
