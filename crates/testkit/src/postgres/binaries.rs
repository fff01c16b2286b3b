//! Where the server's programs are, and who may run them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use nix::unistd::{Gid, Uid, User};

/// Where Debian puts server binaries, one folder per major version.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";

/// Users that may run the server in place of root, which it refuses; the first that exists is taken.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// Programs of a server that are used.
const PROGRAMS: [&str; 4] = ["initdb", "postgres", "pg_basebackup", "pg_ctl"];

/// Who may run the server when this is root; none when it is not.
pub(super) fn unprivileged_user() -> anyhow::Result<Option<(Uid, Gid)>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    for name in UNPRIVILEGED {
        if let Some(user) = User::from_name(name)? {
            return Ok(Some((user.uid, user.gid)));
        }
    }
    bail!("PostgreSQL refuses root, and there is no user {} to run it", UNPRIVILEGED.join(" or "))
}

/// The folder of installed server binaries: in `PATH`, else the newest version in Debian's folder.
///
/// # Errors
/// There is none.
pub fn server_binaries() -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain(debian_versions(Path::new(DEBIAN_FOLDER)))
        .find(|folder| PROGRAMS.iter().all(|program| folder.join(program).is_file()));
    found.with_context(|| {
        format!("no PostgreSQL server binaries ({}) in PATH or {DEBIAN_FOLDER}/*/bin", PROGRAMS.join(", "))
    })
}

/// The folders of installed versions, newest first.
fn debian_versions(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9", "17", "15", "notes"] {
            fs::create_dir(root.path().join(version)).unwrap();
        }
        let expected: Vec<PathBuf> =
            ["17", "15", "9"].iter().map(|version| root.path().join(version).join("bin")).collect();
        assert_eq!(debian_versions(root.path()), expected);
    }
}
