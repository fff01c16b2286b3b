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
    awaited::Awaited,
    history::History,
    resume::{Digests, Held, may_be_sent},
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
    /// What is missing in the snapshot since it is not known yet.
    awaited: Awaited,
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

/// A broker that reads deltas.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The version that it has; 0: none.
    pub(crate) has: FeedVersion,
    held: Held,
    /// Nothing was sent yet: it has exactly what it holds.
    came: bool,
}

impl Reader {
    pub(crate) fn new(has: FeedVersion, holding: pb::Holding) -> Self {
        Self { has, held: holding.into(), came: true }
    }
}

impl Published {
    /// What a broker is sent to have this version; it counts as sent. `None`: nothing, until more is known.
    pub(crate) fn news(&self, reader: &mut Reader) -> Result<Option<News>, Error> {
        let news = match self.delta(reader)?.filter(may_be_sent) {
            Some(delta) => {
                reader.held.forget(&delta);
                News::Delta(delta)
            }
            None => match self.whole() {
                Some(snapshot) => {
                    reader.held = Held::default();
                    News::Whole(snapshot)
                }
                None => return Ok(None),
            },
        };
        (reader.has, reader.came) = (self.version, false);
        Ok(Some(news))
    }

    fn delta(&self, reader: &Reader) -> Result<Option<pb::Delta>, Error> {
        if let Some(mut delta) = self.history.since(reader.has)? {
            reader.held.spare(&mut delta, &self.snapshot, &self.digests);
            return Ok(Some(delta));
        }
        let resumes = reader.came && reader.has > FeedVersion(0);
        Ok(resumes.then(|| reader.held.difference(&self.snapshot, &self.awaited, &self.digests, reader.has)))
    }

    /// All of it; `None` while some of it is not known yet.
    pub(crate) fn whole(&self) -> Option<pb::Snapshot> {
        self.awaited.is_over().then(|| self.whole.get_or_init(|| (&*self.snapshot).into()).clone())
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
        let awaited = Awaited::of(stores);
        let snapshot = Snapshot {
            cluster: cluster.clone(),
            version,
            nodes: node_entries(stores),
            groups: group_entries(stores),
            collections: collections(stores, &awaited, last, version)?,
            config: stores.config.clone(),
        };
        let (mut steps, mut digests) = (History::default(), Arc::default());
        if let Some(last) = &self.last {
            let mut delta = Delta::between(&last.snapshot, &snapshot);
            last.awaited.complete(&mut delta, &snapshot, &awaited);
            let nothing = Delta::empty(cluster.clone(), last.version, version);
            if delta == nothing && awaited == last.awaited {
                return Ok(None);
            }
            (steps, digests) = (last.history.clone(), Arc::clone(&last.digests));
            steps.push(delta, history);
        }
        self.version = version;
        let (snapshot, whole) = (Arc::new(snapshot), OnceLock::new());
        let published = Published { version, snapshot, awaited, history: steps, digests, whole };
        Ok(Some(Arc::clone(self.last.insert(Arc::new(published)))))
    }
}

/// Every collection that is known, by name. One that says the same as before is the same; one that changed shares the
/// segments that did not.
fn collections(
    stores: &Stores,
    awaited: &Awaited,
    last: Option<&Snapshot>,
    version: FeedVersion,
) -> Result<Vec<Arc<CollectionEntry>>, Error> {
    let known: BTreeMap<_, _> =
        last.iter().flat_map(|last| &last.collections).map(|entry| (entry.id, entry)).collect();
    let settled = stores.names.iter().filter(|(name, _)| !awaited.has_collection(name.as_str()));
    let entries = settled.filter_map(|(_, id)| Some((known.get(id), collection_entry(stores, *id)?)));
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
