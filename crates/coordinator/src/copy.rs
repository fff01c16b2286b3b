//! A copy of all segments of the metastore: what an active coordinator has in memory, and what one that stands by keeps so
//! that it need not read millions of segments when it takes over.

use std::{collections::BTreeMap, mem, sync::Arc};

use pointsman_ids::{
    CollectionId, Error, ErrorCode, SegmentId, SegmentName,
    catalog::{Collection, Segment},
};
use pointsman_metastore::{Revision, SegmentChanges, SegmentsHeld, SharedMetastore};
use pointsman_query_coord::{CatalogSegment, CollectionStore, Stores};
use tokio::sync::Mutex;

/// All segments of the metastore, as they were at a revision or later.
#[derive(Debug, Default)]
pub(crate) struct SegmentCopy {
    revision: Option<Revision>,
    live: BTreeMap<CollectionId, Contents>,
    dropped: BTreeMap<SegmentId, CatalogSegment>,
}

/// The segments of a collection, and their numbers by name.
#[derive(Debug, Default)]
struct Contents {
    segments: BTreeMap<SegmentId, CatalogSegment>,
    names: BTreeMap<SegmentName, SegmentId>,
}

impl Contents {
    /// Adds segments. The first ones are taken in at once: maps that grow one by one would be half empty.
    fn extend(&mut self, segments: Vec<Segment>) {
        let names = segments.iter().map(|segment| (segment.content.name.clone(), segment.id));
        if self.names.is_empty() {
            self.names = names.collect();
        } else {
            self.names.extend(names);
        }
        let segments = segments.into_iter().map(|segment| (segment.id, CatalogSegment::new(segment)));
        if self.segments.is_empty() {
            self.segments = segments.collect();
        } else {
            self.segments.extend(segments);
        }
    }

    fn remove(&mut self, id: SegmentId) -> Option<CatalogSegment> {
        let segment = self.segments.remove(&id)?;
        // The name may be that of a newer one by now.
        if self.names.get(&segment.segment.content.name) == Some(&id) {
            self.names.remove(&segment.segment.content.name);
        }
        Some(segment)
    }
}

impl SegmentCopy {
    /// Takes the segments out of the stores.
    pub(crate) fn take(stores: &mut Stores) -> Self {
        let contents = |(id, store): (CollectionId, CollectionStore)| {
            let CollectionStore { segments, names, .. } = store;
            (id, Contents { segments, names })
        };
        let live = mem::take(&mut stores.collections).into_iter().map(contents).collect();
        Self { revision: None, live, dropped: mem::take(&mut stores.dropped) }
    }

    /// Puts the segments of these collections into the stores. Gives the revision that was applied last.
    pub(crate) fn put(mut self, stores: &mut Stores, collections: Vec<Collection>) -> Option<Revision> {
        let names = |collection: &Collection| (collection.name.clone(), collection.id);
        stores.names = collections.iter().map(names).collect();
        let store = |collection: Collection| {
            let Contents { segments, names } = self.live.remove(&collection.id).unwrap_or_default();
            (collection.id, CollectionStore::of(collection, segments, names))
        };
        stores.collections = collections.into_iter().map(store).collect();
        stores.dropped = self.dropped;
        self.revision
    }

    /// What the metastore has to know to say what is missing.
    pub(crate) fn held(&self) -> Option<SegmentsHeld> {
        let live = self.live.values().map(|contents| &contents.segments);
        Some(held(self.revision.clone()?, live, &self.dropped))
    }

    /// Takes in what changed, beside the threads that serve: it may be everything.
    ///
    /// # Errors
    /// The process ends.
    pub(crate) async fn with(mut self, changes: SegmentChanges) -> Result<Self, Error> {
        let applied = tokio::task::spawn_blocking(move || {
            self.apply(changes);
            self
        });
        applied.await.map_err(|error| Error::new(ErrorCode::ServiceNotReady, error.to_string()))
    }

    /// Takes in what changed.
    pub(crate) fn apply(&mut self, changes: SegmentChanges) {
        if changes.anew {
            self.live.clear();
            self.dropped.clear();
        }
        for (id, collection) in &changes.all_dropped {
            if let Some(segment) = self.live.get_mut(collection).and_then(|contents| contents.remove(*id)) {
                self.dropped.insert(*id, segment);
            }
        }
        self.dropped.retain(|id, _| changes.all_dropped.contains_key(id));
        let mut live: BTreeMap<CollectionId, Vec<Segment>> = BTreeMap::new();
        for segment in changes.live {
            live.entry(segment.collection).or_default().push(segment);
        }
        for (collection, segments) in live {
            self.live.entry(collection).or_default().extend(segments);
        }
        self.dropped.extend(changes.dropped.into_iter().map(|one| (one.id, CatalogSegment::new(one))));
        self.revision = Some(changes.revision);
    }
}

/// What the stores of an active coordinator hold, which read everything at a revision and wrote the rest itself.
pub(crate) fn held_by(stores: &Stores, revision: Revision) -> SegmentsHeld {
    held(revision, stores.collections.values().map(|store| &store.segments), &stores.dropped)
}

fn held<'a>(
    revision: Revision,
    live: impl Iterator<Item = &'a BTreeMap<SegmentId, CatalogSegment>>,
    dropped: &BTreeMap<SegmentId, CatalogSegment>,
) -> SegmentsHeld {
    let last = |segments: &BTreeMap<SegmentId, CatalogSegment>| segments.last_key_value().map(|(id, _)| *id);
    let last = live.filter_map(last).chain(last(dropped)).max().unwrap_or_default();
    SegmentsHeld { revision, last }
}

/// The copy of a coordinator that stands by.
#[derive(Debug, Default)]
pub(crate) struct WarmCopy {
    copy: Arc<Mutex<SegmentCopy>>,
}

impl WarmCopy {
    /// Brings the copy up to date, beside everything else, unless that is going on already.
    pub(crate) fn follow(&self, metastore: &SharedMetastore) {
        let Ok(mut copy) = Arc::clone(&self.copy).try_lock_owned() else { return };
        let metastore = Arc::clone(metastore);
        pointsman_telemetry::spawn("follow-metastore", async move {
            match metastore.segment_changes(copy.held().as_ref()).await {
                Ok(None) => {}
                Ok(Some(changes)) => {
                    tracing::debug!(
                        revision = %changes.revision,
                        anew = changes.anew,
                        segments = changes.live.len() + changes.dropped.len(),
                        "the copy of the metastore is brought up to date"
                    );
                    // Should that fail, it begins anew.
                    *copy = mem::take(&mut *copy).with(changes).await.unwrap_or_default();
                }
                Err(error) => {
                    let error = pointsman_telemetry::chain(&error);
                    tracing::debug!(error, "the copy of the metastore cannot be brought up to date");
                }
            }
        });
    }

    /// Takes the copy for a coordinator that becomes active, as soon as what is going on has ended.
    pub(crate) async fn take(&self) -> SegmentCopy {
        mem::take(&mut *self.copy.lock().await)
    }
}
