//! The last wish on disk, so that a node that starts while the coordinator is away serves what it has.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::segment::{Desired, Wanted};
use crate::data_dir::write_durably;

/// Name of the file.
const FILE: &str = "desired.json";

/// The stored wish.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    path: PathBuf,
}

impl Wish {
    /// The wish of this folder.
    pub(crate) fn open(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE) }
    }

    /// Reads it, with version 0 since no coordinator said it to this process. `None`: there is none, or it cannot be
    /// read, which is no loss: the coordinator says it again.
    pub(crate) fn read(&self) -> Option<Desired> {
        let content = match std::fs::read(&self.path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return self.unreadable(&error),
        };
        match serde_json::from_slice::<Vec<Wanted>>(&content) {
            Ok(segments) => {
                Some(Desired { version: 0, segments: segments.into_iter().map(Arc::new).collect() })
            }
            Err(error) => self.unreadable(&error),
        }
    }

    fn unreadable(&self, error: &dyn std::error::Error) -> Option<Desired> {
        let why = pointsman_telemetry::chain(error);
        tracing::warn!(path = %self.path.display(), why, "the stored wish cannot be read; waiting for the coordinator");
        None
    }

    /// Replaces it. Blocks.
    pub(crate) fn write(&self, desired: &Desired) -> io::Result<()> {
        let segments: Vec<&Wanted> = desired.segments.iter().map(AsRef::as_ref).collect();
        write_durably(&self.path, &serde_json::to_vec(&segments)?)
    }
}
