//! The cache's files. Everything here blocks: call it where that is allowed.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use pointsman_ids::{Error, ErrorCode, SegmentId, catalog::Checksum};

use super::{index::IndexName, index_files, segment::Wanted};
use crate::data_dir::rename_durably;

/// Ending of verified files.
const FILE: &str = "parquet";
/// Ending of files that are being fetched. Whatever has it at start is left of a crash.
pub(super) const TEMPORARY: &str = "tmp";
/// Bytes read at once: large enough that system calls cost nothing beside hashing.
const READ: usize = 1 << 20;

/// What an earlier process left of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Length of its file; `None`: there is none.
    pub(crate) bytes: Option<u64>,
    /// Lengths of its index files.
    pub(crate) indexes: BTreeMap<IndexName, u64>,
}

/// The folder of segment files: `<number>.parquet`, and beside each the files of its indexes.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates the folder if it is missing, and removes what an interrupted fetch or build left.
    pub(crate) fn open(data_dir: &Path) -> io::Result<Self> {
        let folder = Self(data_dir.join("segments"));
        fs::create_dir_all(&folder.0)?;
        for entry in fs::read_dir(&folder.0)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == TEMPORARY) {
                fs::remove_file(path)?;
            }
        }
        Ok(folder)
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        &self.0
    }

    /// The files that are there. Others than those of segments are left alone.
    pub(crate) fn found(&self) -> io::Result<BTreeMap<SegmentId, Found>> {
        let mut all: BTreeMap<SegmentId, Found> = BTreeMap::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let path = entry.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            if let Some(id) = number.map(SegmentId).filter(|id| path == self.path(*id)) {
                all.entry(id).or_default().bytes = Some(entry.metadata()?.len());
            } else if let Some((id, name)) = index_files::read_name(&path) {
                all.entry(id).or_default().indexes.insert(name, entry.metadata()?.len());
            } else {
                tracing::warn!(path = %path.display(), "no segment's file; left alone");
            }
        }
        Ok(all)
    }

    /// Where a segment's file is, or would be.
    pub(crate) fn path(&self, id: SegmentId) -> PathBuf {
        self.0.join(format!("{id}.{FILE}"))
    }

    fn temporary(&self, id: SegmentId) -> PathBuf {
        self.0.join(format!("{id}.{TEMPORARY}"))
    }

    /// Removes a segment's file, if it is there.
    pub(crate) fn remove(&self, id: SegmentId) -> io::Result<()> {
        remove(&self.path(id))
    }

    /// Compares a segment's file with the wish, and removes it when it differs or cannot be read.
    ///
    /// # Errors
    /// As [`Folder::verify`]. One that cannot be removed either is replaced by the next fetch.
    pub(crate) fn verify_or_remove(&self, segment: &Wanted) -> Result<(), Error> {
        self.verify(segment).inspect_err(|_| {
            if let Err(error) = self.remove(segment.id()) {
                tracing::warn!(%error, %segment, "a damaged file cannot be removed");
            }
        })
    }

    /// Compares a segment's file with the wish, to the last byte.
    ///
    /// # Errors
    /// `segment_not_loaded` when there is none, `segment_load_failed` when it differs or cannot be read.
    fn verify(&self, segment: &Wanted) -> Result<(), Error> {
        let unreadable = |error: io::Error| {
            let code = match error.kind() {
                io::ErrorKind::NotFound => ErrorCode::SegmentNotLoaded,
                _ => ErrorCode::SegmentLoadFailed,
            };
            Error::new(code, format!("{segment}: its file cannot be read: {error}"))
        };
        let mut file = File::open(self.path(segment.id())).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        if length != segment.bytes {
            return Err(wrong_length(segment, "its file", length));
        }
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; READ];
        loop {
            match file.read(&mut buffer).map_err(unreadable)? {
                0 => return same_sum(segment, "its file", hasher.finalize()),
                read => _ = hasher.update(&buffer[..read]),
            }
        }
    }

    /// Begins a segment's file under a temporary name.
    pub(crate) fn begin<'a>(&self, segment: &'a Wanted) -> Result<NewFile<'a>, Error> {
        segment.sum()?;
        let temporary = self.temporary(segment.id());
        let file = File::create(&temporary).map_err(|error| unwritable(segment, &self.0, 0, &error))?;
        Ok(NewFile {
            segment,
            folder: self.clone(),
            file,
            temporary,
            hasher: blake3::Hasher::new(),
            length: 0,
            done: false,
        })
    }
}

/// A file that is being written. Dropped before [`NewFile::finish`] it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct NewFile<'a> {
    segment: &'a Wanted,
    folder: Folder,
    file: File,
    temporary: PathBuf,
    hasher: blake3::Hasher,
    length: u64,
    done: bool,
}

impl NewFile<'_> {
    /// Appends bytes of the object.
    ///
    /// # Errors
    /// `segment_load_failed` as soon as there are more than there should be, `segment_request_resource_failed` when
    /// the disk is full.
    pub(crate) fn write(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.length += chunk.len() as u64;
        if self.length > self.segment.bytes {
            return Err(wrong_length(self.segment, "the object", self.length));
        }
        self.hasher.update(chunk);
        let written = self.file.write_all(chunk);
        written.map_err(|error| unwritable(self.segment, &self.folder.0, self.length, &error))
    }

    /// Appends everything that a reader gives.
    pub(crate) fn write_all_of(&mut self, mut reader: impl Read) -> Result<(), Error> {
        let mut buffer = vec![0; READ];
        loop {
            let read = reader.read(&mut buffer).map_err(|error| {
                let text = format!("{}: the object cannot be read: {error}", self.segment);
                Error::new(ErrorCode::SegmentLoadFailed, text)
            })?;
            if read == 0 {
                return Ok(());
            }
            self.write(&buffer[..read])?;
        }
    }

    /// Verifies what was written, makes it last, and gives it its name.
    ///
    /// # Errors
    /// `segment_load_failed` naming both lengths or both checksums when they differ.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if self.length != self.segment.bytes {
            return Err(wrong_length(self.segment, "the object", self.length));
        }
        same_sum(self.segment, "the object", self.hasher.finalize())?;
        let synced = self.file.sync_all();
        synced
            .and_then(|()| rename_durably(&self.temporary, &self.folder.path(self.segment.id())))
            .map_err(|error| unwritable(self.segment, &self.folder.0, self.length, &error))?;
        self.done = true;
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.done
            && let Err(error) = fs::remove_file(&self.temporary)
        {
            tracing::warn!(path = %self.temporary.display(), %error, "a temporary file stays until the next start");
        }
    }
}

/// Writes a new file out of chunks that arrive through a channel. The sender tells by dropping itself before
/// everything was sent that it failed; the length then differs.
pub(crate) fn write_chunks(
    folder: &Folder,
    segment: &Wanted,
    mut chunks: tokio::sync::mpsc::Receiver<Bytes>,
) -> Result<(), Error> {
    let mut file = folder.begin(segment)?;
    while let Some(chunk) = chunks.blocking_recv() {
        file.write(&chunk)?;
    }
    file.finish()
}

fn same_sum(segment: &Wanted, what: &str, got: blake3::Hash) -> Result<(), Error> {
    let got = Checksum(*got.as_bytes());
    let want = segment.sum()?;
    if got == want {
        return Ok(());
    }
    let text =
        format!("{segment}: {what} has the checksum {got}, and should have {want}; push the segment anew");
    Err(Error::new(ErrorCode::SegmentLoadFailed, text))
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A length that is not the wished one.
pub(crate) fn wrong_length(segment: &Wanted, what: &str, got: u64) -> Error {
    let text = format!("{segment}: {what} has {got} bytes or more, and should have {}", segment.bytes);
    Error::new(ErrorCode::SegmentLoadFailed, text)
}

fn unwritable(segment: &Wanted, folder: &Path, written: u64, error: &io::Error) -> Error {
    if !is_full(error) {
        let text = format!("{segment}: its file cannot be written in {}: {error}", folder.display());
        return Error::new(ErrorCode::SegmentLoadFailed, text);
    }
    Error::new(
        ErrorCode::SegmentRequestResourceFailed,
        format!(
            "{segment} needs {} bytes, and the disk of {} was full after {written}, with {} bytes free now; free \
             some, or lower `node.cache_limit` below the disk's size",
            segment.bytes,
            folder.display(),
            free(folder)
        ),
    )
}

/// Whether a disk is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
}

/// Bytes that are free on a folder's disk, for people.
pub(super) fn free(folder: &Path) -> String {
    match nix::sys::statvfs::statvfs(folder) {
        Ok(disk) => (disk.blocks_available() * disk.fragment_size()).to_string(),
        Err(_) => "an unknown number".into(),
    }
}
