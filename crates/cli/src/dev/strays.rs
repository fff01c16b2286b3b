//! Nodes that somebody started by hand beside `pointsman dev`: they are no children of it, and outlive it.

use std::{
    fs::{File, TryLockError},
    io::Read,
    path::Path,
};

use super::layout::Layout;
use crate::output;

/// Says which nodes run on when all children have ended.
pub(super) fn tell(layout: &Layout) {
    for (name, _) in &layout.nodes {
        match holder(&layout.component_dir(name)) {
            None => {}
            Some(Some(process)) => output::note(format_args!(
                "{name} was started by hand and runs on (process {process}); `kill {process}` stops it, and until then \
                 `pointsman dev` cannot start it"
            )),
            Some(None) => output::note(format_args!(
                "{name} was started by hand and runs on; stop it, until then `pointsman dev` cannot start it"
            )),
        }
    }
}

/// The process that works in a node's folder, with its number if it has written it; `None`: there is none.
fn holder(folder: &Path) -> Option<Option<u32>> {
    let mut lock = File::options().read(true).open(folder.join("lock")).ok()?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let mut number = String::new();
            let read = lock.read_to_string(&mut number);
            Some(read.ok().and_then(|_| number.trim().parse().ok()))
        }
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_held_names_its_process() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(holder(folder.path()), None, "nobody was ever here");
        let path = folder.path().join("lock");
        std::fs::write(&path, "4711\n").unwrap();
        assert_eq!(holder(folder.path()), None, "whoever was here has gone");
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        assert_eq!(holder(folder.path()), Some(Some(4711)));
        std::fs::write(&path, "").unwrap();
        assert_eq!(holder(folder.path()), Some(None));
    }
}
