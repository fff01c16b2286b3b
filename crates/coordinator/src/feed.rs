//! The routing feed: its newest snapshot, its version, and what changed of late.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use parking_lot::Mutex;
use pointsman_ids::{
    ClusterName, CollectionId, CollectionName, Epoch, Error, FeedVersion,
    feed::{CollectionChange, CollectionDelta, CollectionEntry, Delta, LeaderDrops, Snapshot},
};
use pointsman_proto::{broker::v1 as pb, snapshot_in_columns};
use pointsman_query_coord::{
    Change, Changes, Stores, collection_change, collection_entry, group_entries, node_entries,
};
use prost::Message as _;

use crate::{
    awaited::Awaited,
    history::History,
    leader_drops,
    leaving::Listed,
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
    /// The snapshot as encoded message.
    whole: Made,
    /// The same with segments as columns.
    in_columns: Made,
}

/// What a broker is sent.
#[derive(Debug)]
pub(crate) enum News {
    /// An encoded [`pb::Snapshot`].
    Whole(Bytes),
    Delta(Box<pb::Delta>),
}

/// A broker that reads deltas.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The version that it has; 0: none.
    pub(crate) has: FeedVersion,
    held: Held,
    /// Whether it reads segments as columns.
    reads_columns: bool,
    /// Nothing was sent yet: it has exactly what it holds.
    came: bool,
}

impl Reader {
    pub(crate) fn new(has: FeedVersion, holding: pb::Holding, reads_columns: bool) -> Self {
        Self { has, held: holding.into(), reads_columns, came: true }
    }
}

impl Published {
    /// What a broker is sent to have this version; it counts as sent. `None`: nothing, until more is known.
    pub(crate) fn news(&self, reader: &mut Reader) -> Result<Option<News>, Error> {
        let news = match self.delta(reader)?.filter(may_be_sent) {
            Some(delta) => {
                reader.held.forget(&delta);
                News::Delta(Box::new(delta))
            }
            None => match self.whole(reader.reads_columns) {
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

    /// All of it as encoded message, with segments as columns or as messages; `None` while some of it is not known yet.
    pub(crate) fn whole(&self, in_columns: bool) -> Option<Bytes> {
        let made = || match in_columns {
            true => self.in_columns.get(|| snapshot_in_columns(&self.snapshot)),
            false => self.whole.get(|| (&*self.snapshot).into()),
        };
        self.awaited.is_over().then(made)
    }
}

/// An encoded snapshot, made for the first broker that needs it and kept as long as it is on its way to any.
#[derive(Debug, Default)]
struct Made(Mutex<Option<Weak<[u8]>>>);

impl Made {
    fn get(&self, make: impl FnOnce() -> pb::Snapshot) -> Bytes {
        let mut known = self.0.lock();
        let made = known.as_ref().and_then(Weak::upgrade).unwrap_or_else(|| {
            let made = Arc::from(make().encode_to_vec());
            *known = Some(Arc::downgrade(&made));
            made
        });
        Bytes::from_owner(made)
    }
}

/// Builds snapshots whose version grows with their content only.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The version that was given last. Those of a tenure begin above those of every former one.
    version: FeedVersion,
    last: Option<Arc<Published>>,
    listed: Listed,
}

impl Feed {
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self { version: FeedVersion(epoch.0 << COUNTER_BITS), last: None, listed: Listed::default() }
    }

    /// The newest version; 0 before there is one.
    pub(crate) fn newest(&self) -> FeedVersion {
        self.last.as_ref().map(|last| last.version).unwrap_or_default()
    }

    /// What the newest version says of nodes.
    pub(crate) fn listed(&self) -> &Listed {
        &self.listed
    }

    /// The newest version, `None` when it says the same as the last one. What did not change is shared with that; only
    /// collections of which something changed since then are looked at. Of what changed at most `history` changes are
    /// kept. Leaders of the collections in `drops` are to be asked for again, whatever is listed.
    ///
    /// # Errors
    /// `parameter_invalid` if a change does not fit what it was made from, which it does. The next version is then made
    /// anew.
    pub(crate) fn update(
        &mut self,
        cluster: &ClusterName,
        stores: &Stores,
        changes: &Changes,
        drops: BTreeSet<CollectionId>,
        history: usize,
    ) -> Result<Option<Arc<Published>>, Error> {
        let last = self.last.take();
        let version = FeedVersion(self.version.0 + 1);
        let awaited = Awaited::of(stores);
        let known = last.as_ref().map(|last| &*last.snapshot);
        let told = Told::of(stores, &awaited, changes, known, version)?;
        let snapshot = Snapshot {
            cluster: cluster.clone(),
            version,
            nodes: node_entries(stores),
            groups: group_entries(stores),
            collections: told.all,
            config: stores.config.clone(),
        };
        let (mut steps, mut digests) = (History::default(), Arc::default());
        if let Some(last) = last {
            let lists = Delta::besides_collections(&last.snapshot, &snapshot);
            let mut delta = Delta { collections: told.changed, dropped: told.dropped, ..lists };
            let led = leader_drops::of_feed(&last.snapshot, &delta);
            delta.leader_drops = LeaderDrops::at(version, &led | &drops);
            last.awaited.complete(&mut delta, &snapshot, &awaited);
            let nothing = Delta::empty(cluster.clone(), last.version, version);
            if delta == nothing && awaited == last.awaited {
                self.last = Some(last);
                return Ok(None);
            }
            (steps, digests) = (last.history.clone(), Arc::clone(&last.digests));
            let all = snapshot.collections.iter().map(|entry| entry.segments.len()).sum();
            steps.push(delta, history, all);
        }
        self.version = version;
        self.listed.update(&snapshot.nodes, version);
        let snapshot = Arc::new(snapshot);
        let (whole, in_columns) = (Made::default(), Made::default());
        let published = Published { version, snapshot, awaited, history: steps, digests, whole, in_columns };
        Ok(Some(Arc::clone(self.last.insert(Arc::new(published)))))
    }
}

/// What is told of collections: of all, by name, and what changed.
#[derive(Debug, Default)]
struct Told {
    all: Vec<Arc<CollectionEntry>>,
    changed: Vec<CollectionDelta>,
    dropped: Vec<CollectionName>,
}

impl Told {
    /// Takes every collection that is settled. One of which nothing changed is the same as before; one that changed
    /// shares the segments that did not.
    fn of(
        stores: &Stores,
        awaited: &Awaited,
        changes: &Changes,
        last: Option<&Snapshot>,
        version: FeedVersion,
    ) -> Result<Self, Error> {
        let mut told = Self::default();
        for (name, id) in &stores.names {
            let known = last.and_then(|last| last.collection(name.as_str())).filter(|known| known.id == *id);
            match known {
                Some(known) => told.change(stores, known, changes.of(*id), version)?,
                None if awaited.has_collection(name.as_str()) => {}
                None => told.begin(stores, *id, version)?,
            }
        }
        let is_there =
            |name: &CollectionName| told.all.binary_search_by(|entry| entry.name.cmp(name)).is_ok();
        let before = last.into_iter().flat_map(|last| &last.collections).map(|entry| &entry.name);
        told.dropped = before.filter(|name| !is_there(name)).cloned().collect();
        Ok(told)
    }

    fn begin(&mut self, stores: &Stores, id: CollectionId, version: FeedVersion) -> Result<(), Error> {
        if let Some(entry) = collection_entry(stores, id)? {
            let entry = Arc::new(CollectionEntry { version, ..entry });
            self.changed.push(CollectionDelta::Whole(Arc::clone(&entry)));
            self.all.push(entry);
        }
        Ok(())
    }

    fn change(
        &mut self,
        stores: &Stores,
        known: &Arc<CollectionEntry>,
        change: Option<&Change>,
        version: FeedVersion,
    ) -> Result<(), Error> {
        let nothing = || CollectionChange::empty(known.name.clone(), known.version);
        let change = change.and_then(|change| collection_change(stores, known, change));
        let Some(mut change) = change.filter(|change| *change != nothing()) else {
            self.all.push(Arc::clone(known));
            return Ok(());
        };
        change.version = version;
        self.all.push(Arc::new(known.apply(&change)?));
        self.changed.push(CollectionDelta::Changed(change));
        Ok(())
    }
}
