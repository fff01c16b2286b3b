//! The files of indexes, beside those of their segments: `<number>.<name>.index`. Everything here blocks.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use pointsman_engine::rows::{self, Memory};
use pointsman_ids::{Error, ErrorCode, SegmentId};
use tokio_util::sync::CancellationToken;

use super::{
    files::{self, Folder, TEMPORARY},
    index::{IndexName, WantedIndex},
    segment::Wanted,
};
use crate::data_dir::rename_durably;

/// Ending of the files of indexes.
const INDEX: &str = "index";

/// Segment and index of a file of this name; `None`: it is no index's.
pub(super) fn read_name(path: &Path) -> Option<(SegmentId, IndexName)> {
    let (number, rest) = path.file_name()?.to_str()?.split_once('.')?;
    let name = IndexName::read(rest.strip_suffix(INDEX)?.strip_suffix('.')?)?;
    let id = number.parse().ok().map(SegmentId).filter(|id| id.to_string() == number)?;
    Some((id, name))
}

impl Folder {
    /// Where an index's file is, or would be.
    pub(crate) fn index_path(&self, id: SegmentId, name: IndexName) -> PathBuf {
        self.root().join(format!("{id}.{name}.{INDEX}"))
    }

    /// Removes an index's file, if it is there.
    pub(crate) fn remove_index(&self, id: SegmentId, name: IndexName) -> io::Result<()> {
        files::remove(&self.index_path(id, name))
    }

    /// Looks at the index files that a segment should have: those that are good, with their lengths. Those that are not
    /// are removed, and built again when that is decided.
    pub(crate) fn good_indexes(&self, segment: &Wanted) -> BTreeMap<IndexName, u64> {
        let mut good = BTreeMap::new();
        for index in &segment.indexes {
            let name = IndexName::of(segment, index);
            let path = self.index_path(segment.id(), name);
            match check(&path, index) {
                Ok(None) => {}
                Ok(Some(bytes)) => _ = good.insert(name, bytes),
                Err(error) => {
                    tracing::warn!(%error, %segment, %index, "an index file is not what it should be; it is built again");
                    if let Err(error) = files::remove(&path) {
                        tracing::warn!(%error, %segment, "a damaged index file cannot be removed");
                    }
                }
            }
        }
        good
    }

    /// Builds an index of a segment, under a temporary name first. Gives the length of its file.
    ///
    /// # Errors
    /// Those of the engine, such as `column_not_found`; `segment_request_resource_failed` when the disk is full;
    /// `cancelled` when it was called off.
    pub(crate) fn build_index(
        &self,
        segment: &Wanted,
        name: IndexName,
        memory: &Memory,
        off: &CancellationToken,
    ) -> Result<u64, Error> {
        let named = segment.indexes.iter().find(|index| IndexName::of(segment, index) == name);
        let index = named.ok_or_else(|| Error::new(ErrorCode::Cancelled, "no such index is wanted"))?;
        let path = self.index_path(segment.id(), name);
        let temporary = Temporary(path.with_extension(TEMPORARY));
        let failed = |error: Error| error.context(format_args!("{segment}: {index}"));
        let unwritable = |error: io::Error| failed(unwritable(self.root(), &error));
        let built = index.index().map_err(failed)?;
        let mut file = File::create(&temporary.0).map_err(unwritable)?;
        let parquet = self.path(segment.id());
        let written = rows::build_index(&parquet, &built, &mut file, memory, &|| off.is_cancelled());
        written.map_err(|error| match file.write_all(&[0]) {
            // Whether a disk is full only the system says, and the engine's error is no longer the system's.
            Err(full) if error.code() == ErrorCode::NodeIoError && files::is_full(&full) => unwritable(full),
            _ => failed(error),
        })?;
        file.sync_all().and_then(|()| rename_durably(&temporary.0, &path)).map_err(unwritable)?;
        file.metadata().map(|metadata| metadata.len()).map_err(unwritable)
    }
}

/// A file that goes when it is dropped, unless it was given another name.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = files::remove(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a temporary file stays until the next start");
        }
    }
}

/// Length of an index's file that is good; `None`: there is none.
fn check(path: &Path, index: &WantedIndex) -> Result<Option<u64>, Error> {
    let unreadable =
        |error: io::Error| Error::new(ErrorCode::NodeIoError, format!("its file cannot be read: {error}"));
    let bytes = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    rows::check_index(path, &index.index()?)?;
    Ok(Some(bytes))
}

fn unwritable(folder: &Path, error: &io::Error) -> Error {
    let place = folder.display();
    if files::is_full(error) {
        let text =
            format!("the disk of {place} is full, with {} bytes free now; free some", files::free(folder));
        return Error::new(ErrorCode::SegmentRequestResourceFailed, text);
    }
    Error::new(ErrorCode::SegmentLoadFailed, format!("its file cannot be written in {place}: {error}"))
}
