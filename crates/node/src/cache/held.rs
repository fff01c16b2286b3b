//! What queries may read: the one thing that their hot path sees of the cache.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Weak},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use pointsman_engine::{SegmentFile, SegmentStore, rows::RowStore};
use pointsman_ids::{SegmentId, request::VectorIndex};
use tokio::sync::mpsc;

use super::index::IndexName;

/// What is served of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Length of that.
    pub(crate) bytes: u64,
    /// Its indexes that are ready.
    pub(crate) indexes: Vec<ServedIndex>,
}

/// An index that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedIndex {
    /// Its name.
    pub(crate) name: IndexName,
    /// What it is.
    pub(crate) index: VectorIndex,
    /// Its file.
    pub(crate) path: PathBuf,
    /// Length of that.
    pub(crate) bytes: u64,
}

/// A verified file with its indexes. Held by the table while it is served, and by every query that reads it.
#[derive(Debug)]
pub(crate) struct HeldFile {
    served: Served,
    /// When it was last written, as the file system says; `None`: it does not say.
    written: Option<SystemTime>,
}

impl HeldFile {
    fn new(served: Served) -> Self {
        let written = std::fs::metadata(&served.path).and_then(|metadata| metadata.modified()).ok();
        Self { served, written }
    }

    /// Whether it is served with exactly these indexes.
    fn has(&self, names: &[IndexName]) -> bool {
        self.served.indexes.iter().map(|index| index.name).eq(names.iter().copied())
    }

    /// One look from outside tells a file that was removed, cut or written behind our back from one that was not.
    fn doubt(&self, id: SegmentId) -> Option<Doubt> {
        match std::fs::metadata(&self.served.path) {
            Ok(metadata) if metadata.len() == self.served.bytes => {
                (metadata.modified().ok() != self.written).then_some(Doubt::Altered(id))
            }
            _ => Some(Doubt::Missing(id)),
        }
    }

    /// The same look at the files of its indexes. Who reads them checks more.
    fn index_doubt(&self, id: SegmentId) -> Option<Doubt> {
        let good = |index: &ServedIndex| {
            std::fs::metadata(&index.path).is_ok_and(|metadata| metadata.len() == index.bytes)
        };
        (!self.served.indexes.iter().all(good)).then_some(Doubt::Altered(id))
    }
}

/// The files that are served.
pub(crate) type Files = BTreeMap<SegmentId, Arc<HeldFile>>;

/// A doubt of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Its file is not there, or has another length.
    Missing(SegmentId),
    /// It or one of its indexes was written since it was verified, or could not be read.
    Altered(SegmentId),
    /// This index of it cannot be used, whatever its file looks like.
    Index(SegmentId, IndexName),
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

    /// Whether a segment is served. Does not look at its file.
    pub(crate) fn holds(&self, segment: SegmentId) -> bool {
        self.files.load().contains_key(&segment)
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
        Some(SegmentFile { path: file.served.path.clone(), bytes: file.served.bytes, hold: Some(file) })
    }

    fn suspect(&self, segment: SegmentId) {
        let _full_or_closed = self.doubts.try_send(Doubt::Altered(segment));
    }
}

impl RowStore for HeldSegments {
    fn index(&self, segment: SegmentId, index: &VectorIndex) -> Option<PathBuf> {
        let files = self.files.load();
        let served = &files.get(&segment)?.served;
        served.indexes.iter().find(|served| served.index == *index).map(|served| served.path.clone())
    }

    fn suspect_index(&self, segment: SegmentId, index: &VectorIndex) {
        let files = self.files.load();
        let served = files.get(&segment).map(|file| &file.served.indexes);
        let name = served.and_then(|served| served.iter().find(|served| served.index == *index));
        if let Some(ServedIndex { name, .. }) = name {
            let _full_or_closed = self.doubts.try_send(Doubt::Index(segment, *name));
        }
    }
}

/// What looking at all files says. Blocks.
pub(crate) fn doubts(files: &Files) -> Vec<Doubt> {
    files.iter().filter_map(|(id, file)| file.doubt(*id).or_else(|| file.index_doubt(*id))).collect()
}

/// The writing side of [`HeldSegments`]: one per cache.
#[derive(Debug)]
pub(crate) struct Shelf {
    held: HeldSegments,
    files: Files,
    /// Files that were served, or served with other indexes, and that a query may still read.
    readers: BTreeMap<SegmentId, Vec<Weak<HeldFile>>>,
}

impl Shelf {
    /// An empty shelf.
    pub(crate) fn new(held: HeldSegments) -> Self {
        Self { held, files: Files::new(), readers: BTreeMap::new() }
    }

    /// Serves exactly these segments with these indexes from now on.
    pub(crate) fn publish(
        &mut self,
        served: &BTreeMap<SegmentId, Vec<IndexName>>,
        file: impl Fn(SegmentId) -> Option<Served>,
    ) {
        let same =
            |(id, file): (&SegmentId, &Arc<HeldFile>)| served.get(id).is_some_and(|names| file.has(names));
        if self.files.len() == served.len() && self.files.iter().all(same) {
            return;
        }
        for (id, names) in served {
            if self.files.get(id).is_none_or(|file| !file.has(names)) {
                self.let_go(*id);
                let file = file(*id).map(|served| Arc::new(HeldFile::new(served)));
                file.into_iter().for_each(|file| _ = self.files.insert(*id, file));
            }
        }
        let gone: Vec<SegmentId> = self.files.keys().filter(|id| !served.contains_key(id)).copied().collect();
        gone.into_iter().for_each(|id| self.let_go(id));
        self.held.files.store(Arc::new(self.files.clone()));
        self.readers.retain(|_, readers| {
            readers.retain(|reader| reader.strong_count() > 0);
            !readers.is_empty()
        });
    }

    /// A file that is served was verified again: looks at it anew when it is published next.
    pub(crate) fn renew(&mut self, id: SegmentId) {
        self.let_go(id);
    }

    fn let_go(&mut self, id: SegmentId) {
        if let Some(file) = self.files.remove(&id) {
            self.readers.entry(id).or_default().push(Arc::downgrade(&file));
        }
    }

    /// What is served.
    pub(crate) fn files(&self) -> Arc<Files> {
        self.held.files.load_full()
    }

    /// Whether a query may still read a file of a segment that is not served any more.
    pub(crate) fn in_use(&self, id: SegmentId) -> bool {
        let readers = self.readers.get(&id);
        readers.is_some_and(|readers| readers.iter().any(|reader| reader.strong_count() > 0))
    }
}
