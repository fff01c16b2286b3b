//! `cargo xtask layers`: crates use only lower floors. The floor of a package stands in its manifest as
//! `[package.metadata.layer] floor`; ARCHITECTURE.md says what lives where.

use std::collections::BTreeMap;

use anyhow::bail;
use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::{cargo, tidy};

/// Names that invite everything, and so end up holding it.
const FORBIDDEN: [&str; 6] = ["common", "util", "utils", "core", "base", "shared"];

/// Prefix of package names.
const PREFIX: &str = "pointsman-";

/// Checks floors, names, and the rules that [`tidy`] knows.
///
/// # Errors
/// Names every breach.
pub(crate) fn run() -> anyhow::Result<()> {
    let metadata = cargo::metadata()?;
    let packages = metadata.workspace_packages();
    let mut breaches = breaches(&packages.iter().map(|package| Member::from(*package)).collect::<Vec<_>>());
    breaches.extend(tidy::breaches(&metadata)?);
    report(&breaches, &metadata)
}

fn report(breaches: &[String], metadata: &Metadata) -> anyhow::Result<()> {
    if breaches.is_empty() {
        println!(
            "{} packages: every arrow runs downwards, every rule is kept",
            metadata.workspace_members.len()
        );
        return Ok(());
    }
    for breach in breaches {
        println!("{breach}");
    }
    bail!("{} breaches", breaches.len())
}

/// What the rules need to know of a package.
struct Member {
    name: String,
    floor: Option<u64>,
    /// Names of normal and build dependencies.
    uses: Vec<String>,
}

impl From<&Package> for Member {
    fn from(package: &Package) -> Self {
        let uses =
            package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
        Self {
            name: package.name.to_string(),
            floor: package.metadata["layer"]["floor"].as_u64(),
            uses: uses.map(|dependency| dependency.name.clone()).collect(),
        }
    }
}

fn breaches(members: &[Member]) -> Vec<String> {
    let floors: BTreeMap<&str, u64> =
        members.iter().filter_map(|member| Some((member.name.as_str(), member.floor?))).collect();
    let mut found = Vec::new();
    for member in members {
        let name = &member.name;
        let short = name.strip_prefix(PREFIX).unwrap_or(name);
        if FORBIDDEN.contains(&short) {
            found
                .push(format!("{name}: the name says nothing; name the crate after what it decides or owns"));
        }
        let Some(floor) = member.floor else {
            found.push(format!(
                "{name}: no floor; write `[package.metadata.layer]` and `floor = N` in its manifest"
            ));
            continue;
        };
        for used in &member.uses {
            let Some(below) = floors.get(used.as_str()) else { continue };
            if *below >= floor {
                found.push(format!("{name} (floor {floor}) uses {used} (floor {below}): only lower floors"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, floor: Option<u64>, uses: &[&str]) -> Member {
        Member { name: name.into(), floor, uses: uses.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn arrows_run_downwards_only() {
        let down = [
            member("a", Some(0), &["serde"]),
            member("b", Some(1), &["a"]),
            member("c", Some(3), &["a", "b"]),
        ];
        assert_eq!(breaches(&down), [] as [String; 0]);
        let up = [member("a", Some(0), &["b"]), member("b", Some(1), &[])];
        assert_eq!(breaches(&up), ["a (floor 0) uses b (floor 1): only lower floors"]);
        let sideways = [member("a", Some(1), &["b"]), member("b", Some(1), &[])];
        assert_eq!(breaches(&sideways), ["a (floor 1) uses b (floor 1): only lower floors"]);
    }

    #[test]
    fn every_package_has_a_floor_and_a_name_that_says_something() {
        let found = breaches(&[member("pointsman-utils", Some(0), &[]), member("pointsman-ids", None, &[])]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("pointsman-utils: the name"), "{found:?}");
        assert!(found[1].starts_with("pointsman-ids: no floor"), "{found:?}");
    }
}
