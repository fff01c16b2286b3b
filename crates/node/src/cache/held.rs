//! What queries may read: the one thing that their hot path sees of the cache.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use pointsman_engine::{SegmentFile, SegmentStore};
use pointsman_ids::SegmentId;
use tokio::sync::mpsc;

/// A verified file. Held by the table while it is served, and by every query that reads it.
#[derive(Debug)]
pub(crate) struct HeldFile {
    path: PathBuf,
    bytes: u64,
}

type Files = BTreeMap<SegmentId, Arc<HeldFile>>;

/// A doubt of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Its file is not there, or has another length.
    Missing(SegmentId),
    /// Reading or decoding it failed.
    Damaged(SegmentId),
}

/// The segments that queries may read, as one immutable map behind an atomic pointer.
#[derive(Clone, Debug)]
pub(crate) struct HeldSegments {
    files: Arc<ArcSwap<Files>>,
    doubts: mpsc::Sender<Doubt>,
}

impl HeldSegments {
    /// Nothing yet. Doubts that do not fit into the channel are dropped: the next read has them again.
    pub(crate) fn new(doubts: mpsc::Sender<Doubt>) -> Self {
        Self { files: Arc::default(), doubts }
    }

    fn doubt(&self, doubt: Doubt) {
        let _full_or_closed = self.doubts.try_send(doubt);
    }
}

impl SegmentStore for HeldSegments {
    fn open(&self, segment: SegmentId) -> Option<SegmentFile> {
        let file = self.files.load().get(&segment).map(Arc::clone)?;
        // One look at the file tells a file that was removed or cut behind our back from one that is held.
        if std::fs::metadata(&file.path).map(|metadata| metadata.len()).ok() != Some(file.bytes) {
            self.doubt(Doubt::Missing(segment));
            return None;
        }
        Some(SegmentFile { path: file.path.clone(), bytes: file.bytes, hold: Some(file) })
    }
}

/// The writing side of [`HeldSegments`]: one per cache.
#[derive(Debug)]
pub(crate) struct Shelf {
    held: HeldSegments,
    files: Files,
    /// Files that were served and that a query may still read.
    readers: BTreeMap<SegmentId, Weak<HeldFile>>,
}

impl Shelf {
    /// An empty shelf.
    pub(crate) fn new(held: HeldSegments) -> Self {
        Self { held, files: Files::new(), readers: BTreeMap::new() }
    }

    /// Serves exactly these segments from now on.
    pub(crate) fn publish(
        &mut self,
        served: &BTreeSet<SegmentId>,
        file: impl Fn(SegmentId) -> Option<(PathBuf, u64)>,
    ) {
        if self.files.keys().eq(served) {
            return;
        }
        self.files.retain(|id, file| {
            let stays = served.contains(id);
            if !stays {
                self.readers.insert(*id, Arc::downgrade(file));
            }
            stays
        });
        for id in served {
            if !self.files.contains_key(id)
                && let Some((path, bytes)) = file(*id)
            {
                self.files.insert(*id, Arc::new(HeldFile { path, bytes }));
            }
        }
        self.held.files.store(Arc::new(self.files.clone()));
        self.readers.retain(|_, reader| reader.strong_count() > 0);
    }

    /// Whether a query may still read a segment's file that is not served any more.
    pub(crate) fn in_use(&self, id: SegmentId) -> bool {
        self.readers.get(&id).is_some_and(|reader| reader.strong_count() > 0)
    }
}
