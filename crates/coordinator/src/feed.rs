//! The routing feed: its newest snapshot, its version, and what changed of late.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use pointsman_ids::{
    ClusterName, Epoch, Error, FeedVersion,
    feed::{CollectionChange, CollectionEntry, Delta, Snapshot},
};
use pointsman_proto::broker::v1 as pb;
use pointsman_query_coord::{Stores, collection_entry, group_entries, node_entries};

use crate::{
    history::History,
    resume::{Digests, difference},
};

/// Bits of a version that count changes; those above are the epoch.
const COUNTER_BITS: u32 = 32;

/// The epoch of the tenure that gave a version.
pub(crate) fn epoch_of(version: FeedVersion) -> u64 {
    version.0 >> COUNTER_BITS
}

/// The feed at one version.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) version: FeedVersion,
    snapshot: Arc<Snapshot>,
    history: History,
    digests: Arc<Digests>,
    /// The snapshot as message, made for the first broker that needs it whole.
    whole: OnceLock<pb::Snapshot>,
}

/// What a broker is sent.
#[derive(Debug)]
pub(crate) enum News {
    Whole(pb::Snapshot),
    Delta(pb::Delta),
}

impl Published {
    /// What a broker that has version `has` is sent to have this one. With `holding` it may be asked to keep what it
    /// holds even if nobody knows any more what changed since.
    pub(crate) fn news(&self, has: FeedVersion, holding: Option<&pb::Holding>) -> Result<News, Error> {
        if let Some(delta) = self.history.since(has)? {
            return Ok(News::Delta(delta));
        }
        let resumed = holding.filter(|_| has.0 > 0);
        if let Some(delta) = resumed.and_then(|held| difference(&self.snapshot, &self.digests, has, held)) {
            return Ok(News::Delta(delta));
        }
        Ok(News::Whole(self.whole()))
    }

    /// All of it.
    pub(crate) fn whole(&self) -> pb::Snapshot {
        self.whole.get_or_init(|| (&*self.snapshot).into()).clone()
    }
}

/// Builds snapshots whose version grows with their content only.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The version that was given last. Those of a tenure begin above those of every former one.
    version: FeedVersion,
    last: Option<Arc<Published>>,
}

impl Feed {
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self { version: FeedVersion(epoch.0 << COUNTER_BITS), last: None }
    }

    /// The newest version, `None` when it says the same as the last one. What did not change is shared with that. Of
    /// what changed at most `history` changes are kept.
    ///
    /// # Errors
    /// `parameter_invalid` if a change does not fit what it was made from, which it does.
    pub(crate) fn update(
        &mut self,
        cluster: &ClusterName,
        stores: &Stores,
        history: usize,
    ) -> Result<Option<Arc<Published>>, Error> {
        let version = FeedVersion(self.version.0 + 1);
        let last = self.last.as_ref().map(|last| &*last.snapshot);
        let snapshot = Snapshot {
            cluster: cluster.clone(),
            version,
            nodes: node_entries(stores),
            groups: group_entries(stores),
            collections: collections(stores, last, version)?,
            config: stores.config.clone(),
        };
        let (mut steps, mut digests) = (History::default(), Arc::default());
        if let Some(last) = &self.last {
            let delta = Delta::between(&last.snapshot, &snapshot);
            if delta == Delta::empty(cluster.clone(), last.version, version) {
                return Ok(None);
            }
            (steps, digests) = (last.history.clone(), Arc::clone(&last.digests));
            steps.push(delta, history);
        }
        self.version = version;
        let published =
            Published { version, snapshot: snapshot.into(), history: steps, digests, whole: OnceLock::new() };
        Ok(Some(Arc::clone(self.last.insert(Arc::new(published)))))
    }
}

/// Every collection by name. One that says the same as before is the same; one that changed shares the segments that
/// did not.
fn collections(
    stores: &Stores,
    last: Option<&Snapshot>,
    version: FeedVersion,
) -> Result<Vec<Arc<CollectionEntry>>, Error> {
    let known: BTreeMap<_, _> =
        last.iter().flat_map(|last| &last.collections).map(|entry| (entry.id, entry)).collect();
    let entries =
        stores.names.values().filter_map(|id| Some((known.get(id), collection_entry(stores, *id)?)));
    let entry = |(known, new): (Option<&&Arc<CollectionEntry>>, CollectionEntry)| {
        let Some(known) = known else { return Ok(Arc::new(CollectionEntry { version, ..new })) };
        let new = CollectionEntry { version: known.version, ..new };
        let mut change = CollectionChange::between(known, &new);
        if change == CollectionChange::empty(known.name.clone(), known.version) {
            return Ok(Arc::clone(known));
        }
        change.version = version;
        Ok(Arc::new(known.apply(&change)?))
    };
    entries.map(entry).collect()
}
