//! What queries may read: the one thing that their hot path sees of the cache.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Weak},
    time::SystemTime,
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
    /// When it was last written, as the file system says; `None`: it does not say.
    written: Option<SystemTime>,
}

impl HeldFile {
    fn new(path: PathBuf, bytes: u64) -> Self {
        let written = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
        Self { path, bytes, written }
    }

    /// One look from outside tells a file that was removed, cut or written behind our back from one that was not.
    fn doubt(&self, id: SegmentId) -> Option<Doubt> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) if metadata.len() == self.bytes => {
                (metadata.modified().ok() != self.written).then_some(Doubt::Altered(id))
            }
            _ => Some(Doubt::Missing(id)),
        }
    }
}

/// The files that are served.
pub(crate) type Files = BTreeMap<SegmentId, Arc<HeldFile>>;

/// A doubt of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Its file is not there, or has another length.
    Missing(SegmentId),
    /// It was written since it was verified, or could not be read.
    Altered(SegmentId),
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
}

impl SegmentStore for HeldSegments {
    fn open(&self, segment: SegmentId) -> Option<SegmentFile> {
        let file = self.files.load().get(&segment).map(Arc::clone)?;
        if let Some(doubt) = file.doubt(segment) {
            let _full_or_closed = self.doubts.try_send(doubt);
            // Another copy answers until this one is verified again: better slow than wrong.
            return None;
        }
        Some(SegmentFile { path: file.path.clone(), bytes: file.bytes, hold: Some(file) })
    }

    fn suspect(&self, segment: SegmentId) {
        let _full_or_closed = self.doubts.try_send(Doubt::Altered(segment));
    }
}

/// What looking at all files says. Blocks.
pub(crate) fn doubts(files: &Files) -> Vec<Doubt> {
    files.iter().filter_map(|(id, file)| file.doubt(*id)).collect()
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
                self.files.insert(*id, Arc::new(HeldFile::new(path, bytes)));
            }
        }
        self.held.files.store(Arc::new(self.files.clone()));
        self.readers.retain(|_, reader| reader.strong_count() > 0);
    }

    /// A file that is served was verified again: looks at it anew when it is published next.
    pub(crate) fn renew(&mut self, id: SegmentId) {
        if let Some(file) = self.files.remove(&id) {
            self.readers.insert(id, Arc::downgrade(&file));
        }
    }

    /// What is served.
    pub(crate) fn files(&self) -> Arc<Files> {
        self.held.files.load_full()
    }

    /// Whether a query may still read a segment's file that is not served any more.
    pub(crate) fn in_use(&self, id: SegmentId) -> bool {
        self.readers.get(&id).is_some_and(|reader| reader.strong_count() > 0)
    }
}
