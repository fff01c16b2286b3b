//! One `pointsman dev` per data directory.

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use anyhow::Context;

use crate::Failure;

const NAME: &str = "lock";

/// Held while the directory is in use. The system lets go of it however the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the directory.
    ///
    /// # Errors
    /// [`Failure::Failed`] when another process has it.
    pub(super) fn take(data_dir: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join(NAME);
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.with_context(|| path.display().to_string())?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                let dir = data_dir.display();
                let text =
                    format!("another `pointsman dev` runs from {dir}; stop it, or name another --data-dir");
                Err(Failure::Failed(text).into())
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        let error = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains("another `pointsman dev`"), "{error}");
        drop(lock);
        Lock::take(dir.path()).unwrap();
    }
}
