//! Where scenarios come from: files, folders and standard input.

use std::{
    fmt, fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::ScenarioError;

/// Far beyond any scenario that a person reads; keeps a slip (a log, a device) from filling the memory.
const MAX_BYTES: u64 = 16 << 20;
/// Folders inside folders beyond this are a loop of links.
const MAX_FOLDERS: usize = 32;

/// One scenario's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard input, told as `-`.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("-"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl Source {
    /// The scenarios that an argument names: `-`, a file, or a folder with its `*.yaml` and `*.yml` files by name, those
    /// of inner folders included. A file that is not there comes back as a source and fails when it is read.
    ///
    /// # Errors
    /// The folder cannot be listed, or holds no scenario.
    pub fn of(argument: &Path) -> Result<Vec<Self>, ScenarioError> {
        if argument.as_os_str() == "-" {
            return Ok(vec![Self::Stdin]);
        }
        if !argument.is_dir() {
            return Ok(vec![Self::File(argument.to_owned())]);
        }
        let name = argument.display().to_string();
        let mut found = Vec::new();
        walk(argument, MAX_FOLDERS, &mut found).map_err(|error| ScenarioError::of_file(&name, error))?;
        if found.is_empty() {
            return Err(ScenarioError::of_file(&name, "no *.yaml or *.yml file in this folder"));
        }
        Ok(found)
    }

    /// The text.
    ///
    /// # Errors
    /// It cannot be read, is not UTF-8, or is longer than 16 MiB.
    pub fn read(&self) -> Result<String, ScenarioError> {
        let name = self.to_string();
        let refuse = |what: &dyn fmt::Display| ScenarioError::of_file(&name, what);
        let read = match self {
            Self::Stdin => limited(io::stdin().lock()),
            Self::File(path) => fs::File::open(path).and_then(limited),
        };
        let bytes = read.map_err(|error| refuse(&format_args!("cannot be read: {error}")))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(refuse(&"longer than 16 MiB, so it is no scenario"));
        }
        String::from_utf8(bytes).map_err(|error| refuse(&format_args!("not UTF-8: {error}")))
    }
}

fn limited(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<Source>) -> io::Result<()> {
    if depth == 0 {
        return Err(io::Error::other("too many folders inside each other"));
    }
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, depth - 1, found)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            found.push(Source::File(path));
        }
    }
    Ok(())
}
