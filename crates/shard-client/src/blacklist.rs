//! Nodes that failed for good on a shard, avoided for a while. Shared by all requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, NodeId};

/// Shard names alone are not unique, so entries go by collection and shard.
#[derive(Debug)]
pub(crate) struct Blacklist {
    /// Zero: nobody is ever listed.
    lasts: Duration,
    /// Shards with entries; read without the lock, since mostly there are none.
    shards: AtomicUsize,
    entries: Mutex<Entries>,
}

/// Node to expiry, by collection and shard.
type Entries = BTreeMap<CollectionId, BTreeMap<Arc<str>, BTreeMap<NodeId, MonoTime>>>;

impl Blacklist {
    pub(crate) fn new(lasts: Duration) -> Self {
        Self { lasts, shards: AtomicUsize::default(), entries: Mutex::default() }
    }

    /// Avoids the node for this shard from now on.
    pub(crate) fn add(&self, collection: CollectionId, shard: &Arc<str>, node: NodeId, now: MonoTime) {
        if self.lasts.is_zero() {
            return;
        }
        let mut entries = self.entries.lock();
        let shard = entries.entry(collection).or_default().entry(shard.clone()).or_default();
        shard.insert(node, now + self.lasts);
        self.count(&entries);
    }

    /// Adds the nodes that are listed for the shard to a set. Mostly there are none, and nobody has to look at a clock.
    pub(crate) fn extend(
        &self,
        set: &mut BTreeSet<NodeId>,
        collection: CollectionId,
        shard: &str,
        now: impl FnOnce() -> MonoTime,
    ) {
        if self.shards.load(Ordering::Acquire) == 0 {
            return;
        }
        let now = now();
        let entries = self.entries.lock();
        let listed = entries.get(&collection).and_then(|shards| shards.get(shard));
        set.extend(listed.into_iter().flatten().filter(|(_, expiry)| now < **expiry).map(|(node, _)| *node));
    }

    /// Does not avoid the node for this shard any more. Says whether it did.
    pub(crate) fn remove(&self, collection: CollectionId, shard: &str, node: NodeId, now: MonoTime) -> bool {
        let mut entries = self.entries.lock();
        let shards = entries.get_mut(&collection);
        let expiry = shards.and_then(|shards| shards.get_mut(shard)).and_then(|nodes| nodes.remove(&node));
        expiry.is_some_and(|expiry| now < expiry)
    }

    /// Frees the memory of what has expired.
    pub(crate) fn sweep(&self, now: MonoTime) {
        let mut entries = self.entries.lock();
        entries.retain(|_, shards| {
            shards.retain(|_, nodes| {
                nodes.retain(|_, expiry| now < *expiry);
                !nodes.is_empty()
            });
            !shards.is_empty()
        });
        self.count(&entries);
    }

    /// The nodes that are listed for each shard of a collection, with the time until when.
    pub(crate) fn listed(
        &self,
        collection: CollectionId,
        now: MonoTime,
    ) -> BTreeMap<Arc<str>, BTreeMap<NodeId, MonoTime>> {
        let entries = self.entries.lock();
        let shards = entries.get(&collection).into_iter().flatten();
        let listed = shards.map(|(shard, nodes)| {
            let nodes =
                nodes.iter().filter(|(_, expiry)| now < **expiry).map(|(node, expiry)| (*node, *expiry));
            (shard.clone(), nodes.collect::<BTreeMap<_, _>>())
        });
        listed.filter(|(_, nodes)| !nodes.is_empty()).collect()
    }

    fn count(&self, entries: &Entries) {
        self.shards.store(entries.values().map(BTreeMap::len).sum(), Ordering::Release);
    }
}
