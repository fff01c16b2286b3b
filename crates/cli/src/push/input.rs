//! What the command line names: files, folders and URLs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use pointsman_ids::SegmentName;
use url::Url;

use crate::Failure;

/// Longest name of a segment.
const MAX_NAME: usize = 128;

/// A file that becomes a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    /// Where it is.
    pub(crate) source: Source,
    /// What it holds.
    pub(crate) kind: Kind,
    /// Name of the segment.
    pub(crate) name: SegmentName,
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// On this machine.
    File(PathBuf),
    /// Elsewhere.
    Url(Url),
}

/// What a file holds, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Parquet.
    Parquet,
    /// CSV with a header.
    Csv,
}

impl Input {
    /// The file as the person knows it.
    pub(crate) fn label(&self) -> String {
        match &self.source {
            Source::File(path) => path.display().to_string(),
            Source::Url(url) => url.as_str().split(['?', '#']).next().unwrap_or_default().to_owned(),
        }
    }
}

/// Finds every file that the command line names, folders in order of path.
///
/// # Errors
/// Names what does not exist, is neither Parquet nor CSV, or would give two segments one name.
pub(crate) fn expand(named: &[String]) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for text in named {
        match Url::parse(text) {
            Ok(url) if text.contains("://") && url.scheme() != "file" => inputs.push(from_url(url)?),
            Ok(url) if url.scheme() == "file" => {
                let path =
                    url.to_file_path().map_err(|()| Failure::Usage(format!("'{text}' names no file")))?;
                from_path(&path, &mut inputs)?;
            }
            _ => from_path(Path::new(text), &mut inputs)?,
        }
    }
    let mut names: BTreeMap<&str, &Input> = BTreeMap::new();
    for input in &inputs {
        if let Some(other) = names.insert(input.name.as_str(), input) {
            let (name, first, second) = (&input.name, other.label(), input.label());
            let text = format!(
                "{first} and {second} would both become segment '{name}'; push them one after the other under other file names"
            );
            return Err(Failure::Usage(text).into());
        }
    }
    Ok(inputs)
}

fn from_url(url: Url) -> anyhow::Result<Input> {
    let file =
        url.path_segments().and_then(|mut segments| segments.next_back()).unwrap_or_default().to_owned();
    let kind = kind(Path::new(&file)).ok_or_else(|| unknown_kind(url.as_str()))?;
    Ok(Input { name: segment_name(Path::new(&file))?, kind, source: Source::Url(url) })
}

fn from_path(path: &Path, inputs: &mut Vec<Input>) -> anyhow::Result<()> {
    let shown = || path.display().to_string();
    if !fs::metadata(path).with_context(shown)?.is_dir() {
        let kind = kind(path).ok_or_else(|| unknown_kind(&shown()))?;
        let name = segment_name(Path::new(path.file_name().unwrap_or_default()))?;
        inputs.push(Input { source: Source::File(path.to_owned()), kind, name });
        return Ok(());
    }
    let before = inputs.len();
    let mut files = Vec::new();
    walk(path, &mut files)?;
    files.sort();
    for file in files {
        if let Some(kind) = kind(&file) {
            let name = segment_name(file.strip_prefix(path).unwrap_or(&file))?;
            inputs.push(Input { source: Source::File(file), kind, name });
        }
    }
    if inputs.len() == before {
        return Err(
            Failure::Usage(format!("the folder {} holds no .parquet and no .csv file", shown())).into()
        );
    }
    Ok(())
}

/// All files below, but for hidden ones. Links to folders are not followed, so that the walk ends.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn kind(path: &Path) -> Option<Kind> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "parquet" => Some(Kind::Parquet),
        "csv" => Some(Kind::Csv),
        _ => None,
    }
}

fn unknown_kind(what: &str) -> Failure {
    Failure::Usage(format!("{what} is neither Parquet nor CSV: its name must end in .parquet or .csv"))
}

/// A path without its extension as a lawful name: folders are parted by `.`, other characters become `_`, and what is
/// too long keeps its beginning and gets a checksum.
fn segment_name(path: &Path) -> Result<SegmentName, pointsman_ids::Error> {
    let stem = path.with_extension("");
    let parts: Vec<_> = stem.iter().map(|part| part.to_string_lossy()).collect();
    let text = parts.join(".");
    let lawful = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut name: String = text.chars().map(|c| if lawful(c) { c } else { '_' }).collect();
    if name.starts_with(['.', '-']) {
        name.insert(0, '_');
    }
    if name.len() > MAX_NAME {
        let sum = blake3::hash(text.as_bytes()).to_hex();
        let end = name.floor_char_boundary(MAX_NAME - 9);
        name = format!("{}-{}", &name[..end], &sum[..8]);
    }
    SegmentName::new(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str) -> String {
        segment_name(Path::new(path)).unwrap().to_string()
    }

    #[test]
    fn names_come_from_files_and_are_lawful() {
        assert_eq!(name("orders.parquet"), "orders");
        assert_eq!(name("2026/11/orders 1.csv"), "2026.11.orders_1");
        assert_eq!(name("-größe 1.csv"), "_-größe_1");
        let long = name(&format!("{}.csv", "x".repeat(200)));
        assert_eq!(long.len(), MAX_NAME);
        assert_ne!(long, name(&format!("{}.csv", "x".repeat(201))));
    }

    #[test]
    fn a_folder_gives_all_its_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("b/.hidden")).unwrap();
        for file in ["c.csv", "a.PARQUET", "b/x.parquet", "b/readme.md", "b/.hidden/y.csv", ".z.csv"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let inputs = expand(&[dir.path().display().to_string()]).unwrap();
        let found: Vec<_> = inputs.iter().map(|input| (input.name.as_str(), input.kind)).collect();
        assert_eq!(found, [("a", Kind::Parquet), ("b.x", Kind::Parquet), ("c", Kind::Csv)]);
    }

    #[test]
    fn urls_are_named_after_their_last_part() {
        let url = "https://example.org/data/orders.parquet?token=secret".to_owned();
        let inputs = expand(&[url]).unwrap();
        assert_eq!(inputs[0].name.as_str(), "orders");
        assert_eq!(inputs[0].label(), "https://example.org/data/orders.parquet");
    }

    #[test]
    fn what_cannot_be_pushed_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |file: &str| dir.path().join(file).display().to_string();
        fs::write(path("a.txt"), "").unwrap();
        fs::write(path("a.csv"), "").unwrap();
        fs::write(path("a.parquet"), "").unwrap();
        let error = |named: &[String]| format!("{:#}", expand(named).unwrap_err());
        assert!(error(&[path("a.txt")]).contains("must end in .parquet or .csv"));
        assert!(error(&[path("none.csv")]).contains("none.csv"));
        assert!(error(&[path("a.csv"), path("a.parquet")]).contains("segment 'a'"));
        fs::create_dir(path("empty")).unwrap();
        assert!(error(&[path("empty")]).contains("holds no .parquet"));
    }
}
