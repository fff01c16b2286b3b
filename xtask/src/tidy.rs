//! Rules of CONTRIBUTING.md that a program can check by reading.

use std::{fs, path::Path};

use cargo_metadata::{Metadata, Package};

/// Lines of a source file at most; a longer one has a room hidden in it.
const MAX_LINES: usize = 600;

/// Marks of unfinished things. Split, so that this file does not hold them.
const UNFINISHED: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "XX"), concat!("TB", "D")];

/// Reads every source file and manifest of the workspace, and the documents beside them.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn breaches(metadata: &Metadata) -> anyhow::Result<Vec<String>> {
    let root = metadata.workspace_root.as_std_path();
    let mut found = Vec::new();
    for package in metadata.workspace_packages() {
        let folder = package.manifest_path.parent().map_or(root, |folder| folder.as_std_path());
        read_all(folder, "rs", &mut |path, text| found.extend(source(&shown(root, path), text)))?;
        found.extend(manifest(package, &fs::read_to_string(&package.manifest_path)?));
    }
    read_all(&root.join("docs"), "md", &mut |path, text| found.extend(unfinished(&shown(root, path), text)))?;
    read_all(&root.join("proto"), "proto", &mut |path, text| {
        found.extend(unfinished(&shown(root, path), text))
    })?;
    found.extend(metrics(root)?);
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    found.extend(invariants(root, &architecture)?);
    Ok(found)
}

fn source(path: &str, text: &str) -> Vec<String> {
    let mut found = unfinished(path, text);
    if !text.starts_with("//!") {
        found.push(format!("{path}: the first line is no `//!` that says what the file is for"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        found.push(format!("{path}: {lines} lines, at most {MAX_LINES}"));
    }
    for (mark, why) in [
        (concat!("#[", "ignore"), "a test that is not run tests nothing"),
        (concat!("#[", "allow("), "write #[expect(..., reason = \"...\")], which ends when its cause does"),
    ] {
        // Generated code may hold what it likes: `expect` would fail where a lint does not fire.
        let holds_generated =
            text.contains("include_proto!") || text.contains("include!(concat!(env!(\"OUT_DIR\")");
        if text.contains(mark) && !holds_generated {
            found.push(format!("{path}: {mark}: {why}"));
        }
    }
    found
}

fn unfinished(path: &str, text: &str) -> Vec<String> {
    let marks = UNFINISHED.iter().filter(|mark| text.contains(**mark));
    marks.map(|mark| format!("{path}: holds {mark}: finish it, or write an issue")).collect()
}

fn manifest(package: &Package, text: &str) -> Vec<String> {
    let mut found = unfinished(&package.name, text);
    if !text.contains("[lints]\nworkspace = true") {
        found.push(format!("{}: does not inherit the lints of the workspace", package.name));
    }
    if package.description.as_deref().unwrap_or_default().is_empty() {
        found.push(format!("{}: has no description", package.name));
    }
    found
}

/// Every invariant of ARCHITECTURE.md is quoted by the code or the test that keeps it.
fn invariants(root: &Path, architecture: &str) -> anyhow::Result<Vec<String>> {
    let mut ids: Vec<String> = architecture.lines().filter_map(invariant).collect();
    for folder in ["crates", "tests"] {
        read_all(&root.join(folder), "rs", &mut |_, text| ids.retain(|id| !text.contains(id.as_str())))?;
    }
    Ok(ids.iter().map(|id| format!("ARCHITECTURE.md: {id} is quoted by no code and no test")).collect())
}

/// Every metric is in docs/metrics.md, and nothing else is.
fn metrics(root: &Path) -> anyhow::Result<Vec<String>> {
    let page = fs::read_to_string(root.join("docs/metrics.md"))?;
    let mut names = Vec::new();
    read_all(&root.join("crates"), "rs", &mut |path, text| {
        if path.ends_with("metrics.rs") {
            names.extend(text.split('"').filter(|word| is_metric(word)).map(str::to_owned));
        }
    })?;
    let listed: Vec<&str> = page.split('`').filter(|word| is_metric(word)).collect();
    let missing = names.iter().filter(|name| !listed.contains(&name.as_str()));
    let stale = listed.iter().filter(|name| !names.iter().any(|known| known == *name));
    let missing = missing.map(|name| format!("docs/metrics.md: lacks {name}"));
    Ok(missing.chain(stale.map(|name| format!("docs/metrics.md: {name} is in no metrics.rs"))).collect())
}

fn is_metric(word: &str) -> bool {
    word.starts_with("pointsman_")
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The id of the line `| BR-1 | ...`.
fn invariant(line: &str) -> Option<String> {
    let cell = line.strip_prefix("| ")?.split(" |").next()?;
    let (side, number) = cell.split_once('-')?;
    let id = side.len() == 2 && side.chars().all(|c| c.is_ascii_uppercase()) && number.parse::<u32>().is_ok();
    id.then(|| cell.to_owned())
}

fn read_all(folder: &Path, extension: &str, each: &mut impl FnMut(&Path, &str)) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            read_all(&path, extension, each)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            each(&path, &fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_breach() {
        assert_eq!(source("a.rs", "//! Says what it is for.\n"), [] as [String; 0]);
        let long = format!("//! Long.\n{}", "\n".repeat(MAX_LINES));
        let ignored = format!("//! Tests.\n{}ignore]\n", "#[");
        let allowed = format!("//! Lints.\n{}allow(dead_code)]\n", "#[");
        let open = format!("//! {}: all of it\n", UNFINISHED[0]);
        for text in ["fn main() {}\n", &long, &ignored, &allowed, &open] {
            assert_eq!(source("a.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn only_rows_of_the_table_are_invariants() {
        assert_eq!(invariant("| BR-12 | Nothing is sent twice. |"), Some("BR-12".into()));
        assert_eq!(invariant("| 0 | `ids` |"), None);
        assert_eq!(invariant("BR-1 stands in a text"), None);
    }
}
