//! Where the programs under test are.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

/// The folder that holds the programs of this build: `debug` or `release` of the target directory.
///
/// # Errors
/// The running program does not lie in a target directory.
pub fn target_dir() -> anyhow::Result<PathBuf> {
    let own = env::current_exe().context("this program has no path")?;
    // Programs lie in `debug/`, tests in `debug/deps/`.
    let folder = own.parent().context("this program lies nowhere")?;
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    Ok(Path::new(folder).to_path_buf())
}

/// The program `name` of this build.
///
/// # Errors
/// It has not been built; the text says how.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = target_dir()?.join(name);
    if !path.is_file() {
        bail!("{} is not there: `cargo xtask test` builds it, or `cargo build --bin {name}`", path.display());
    }
    Ok(path)
}
