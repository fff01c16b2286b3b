//! The node's folder: one process at a time, and the incarnation.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use pointsman_clock::WallTime;
use pointsman_ids::Incarnation;
use tokio::time::{Instant, sleep};

/// Name of the file whose lock says that a process works here, and which holds its number.
const LOCK: &str = "lock";

/// How long a folder may still be held by a process that is going, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);
/// Name of the file that holds the last incarnation.
const INCARNATION: &str = "incarnation";

/// Why a folder could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process works in it.
    #[error("{} is used by another node that runs{}; stop that one, or give each node its own `node.data_dir`", .path.display(), by(.process))]
    Taken {
        /// The folder.
        path: PathBuf,
        /// Number of the process, if it is known.
        process: Option<u32>,
    },
    /// The number of the last start cannot be read.
    #[error("{} holds '{text}' and not a number; restore it, or remove it when no older process of this node runs", .path.display())]
    Incarnation {
        /// The file.
        path: PathBuf,
        /// What stands in it.
        text: String,
    },
    /// The file system refused.
    #[error("{doing} {}", .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the file system says.
        #[source]
        source: io::Error,
    },
}

fn by(process: &Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" (process {process})"))
}

/// A folder that this process alone works in, until the value is dropped.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// As [`Self::open`], but waits a while for a process that is just going: the lock of one that was killed ends a
    /// moment after its successor may start.
    pub(crate) async fn open_patiently(path: &Path) -> Result<Self, DataDirError> {
        let end = Instant::now() + PATIENCE;
        loop {
            match Self::open(path) {
                Err(DataDirError::Taken { .. }) if Instant::now() < end => sleep(PAUSE).await,
                opened => return opened,
            }
        }
    }

    /// Creates the folder if it is missing, and takes it.
    fn open(path: &Path) -> Result<Self, DataDirError> {
        let failed = |doing, source| DataDirError::Io { doing, path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(|error| failed("creating the folder", error))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK))
            .map_err(|error| failed("opening the lock in", error))?;
        match lock.try_lock() {
            Ok(()) => {
                // The lock says that somebody works here, the number only who: without it, all goes on.
                let _unknown = lock.set_len(0).and_then(|()| writeln!(&lock, "{}", std::process::id()));
                Ok(Self { path: path.to_owned(), _lock: lock })
            }
            Err(TryLockError::WouldBlock) => {
                let number = fs::read_to_string(path.join(LOCK)).ok();
                let process = number.and_then(|number| number.trim().parse().ok());
                Err(DataDirError::Taken { path: path.to_owned(), process })
            }
            Err(TryLockError::Error(error)) => Err(failed("locking", error)),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The incarnation of this start, stored before it is given: higher than every one before, and not below the
    /// wall clock's milliseconds, so that it also grows when the folder was lost.
    pub(crate) fn next_incarnation(&self, now: WallTime) -> Result<Incarnation, DataDirError> {
        let path = self.path.join(INCARNATION);
        let failed = |doing, source| DataDirError::Io { doing, path: path.clone(), source };
        let last = match fs::read_to_string(&path) {
            Ok(text) => text
                .trim()
                .parse::<u64>()
                .map_err(|_| DataDirError::Incarnation { path: path.clone(), text: text.trim().into() })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(failed("reading", error)),
        };
        let next = next(last, now);
        write_durably(&path, next.to_string().as_bytes()).map_err(|error| failed("writing", error))?;
        Ok(Incarnation(next))
    }
}

fn next(last: u64, now: WallTime) -> u64 {
    last.saturating_add(1).max(now.0 / 1_000_000)
}

/// Replaces a file so that after a crash at any moment either the old or the new content is there, whole.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    rename_durably(&temporary, path)
}

/// Renames a file that is on disk, and makes the new name last.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    match to.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_incarnation_grows_also_when_the_clock_was_set_back() {
        assert_eq!(next(0, WallTime(5_000_000)), 5);
        assert_eq!(next(5, WallTime(5_000_000)), 6);
        assert_eq!(next(900, WallTime(5_000_000)), 901);
    }

    #[test]
    fn every_start_has_a_higher_incarnation() {
        let folder = tempfile::tempdir().unwrap();
        let start = || DataDir::open(folder.path()).unwrap().next_incarnation(WallTime(7_000_000)).unwrap();
        assert_eq!((start(), start(), start()), (Incarnation(7), Incarnation(8), Incarnation(9)));
    }

    #[test]
    fn a_second_process_is_refused_naming_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataDir::open(folder.path()).unwrap();
        let error = DataDir::open(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains(&folder.path().display().to_string()) && error.contains("data_dir"),
            "{error}"
        );
        assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
        drop(first);
        DataDir::open(folder.path()).unwrap();
    }

    #[test]
    fn a_damaged_incarnation_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(INCARNATION), "4x").unwrap();
        let error =
            DataDir::open(folder.path()).unwrap().next_incarnation(WallTime(1)).unwrap_err().to_string();
        assert!(error.contains("'4x'"), "{error}");
    }
}
