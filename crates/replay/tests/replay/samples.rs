//! The scenarios of the repository.

use std::{collections::BTreeMap, path::PathBuf};

use pointsman_replay::{Format, Options, Source, replay};

/// Every file under `scenarios/`, with its text.
pub(crate) fn texts() -> BTreeMap<PathBuf, String> {
    texts_of("")
}

/// The files of one kind.
pub(crate) fn texts_of(kind: &str) -> BTreeMap<PathBuf, String> {
    // Asked when it runs: checkouts may share what was built.
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let folder = own.join("../../scenarios").join(kind);
    let sources = Source::of(&folder).unwrap();
    let text = |source: Source| match &source {
        Source::File(path) => (path.clone(), source.read().unwrap()),
        Source::Stdin => unreachable!("a folder holds files"),
    };
    sources.into_iter().map(text).collect()
}

#[test]
fn every_scenario_comes_out_as_it_says() {
    let mut failures = Vec::new();
    let texts = texts();
    for (path, text) in &texts {
        let name = path.file_name().unwrap().to_string_lossy();
        match replay(text, &name, &Options::default()) {
            Ok(outcome) => failures.extend(Format::Text.lines(&name, &outcome)),
            Err(error) => failures.push(error.to_string()),
        }
    }
    assert!(texts.len() > 300, "only {} scenarios were found", texts.len());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn explaining_changes_nothing() {
    for (path, text) in texts() {
        let plain = replay(&text, "it", &Options::default()).unwrap();
        let explained = replay(&text, "it", &Options { explain: true }).unwrap();
        for (plain, explained) in plain.steps.iter().zip(&explained.steps) {
            assert_eq!(plain.values, explained.values, "{} step {}", path.display(), plain.number);
            let questions = [
                "select",
                "load_percentage",
                "replica_percentages",
                "readiness",
                "shard_leaders",
                "show_load",
                "execute",
                "execute_one_shard",
                "join",
            ];
            assert!(
                explained.explanation.is_empty() || questions.contains(&plain.action),
                "{} step {}",
                path.display(),
                plain.number
            );
        }
    }
}

#[test]
fn a_scenario_is_named_as_its_file() {
    for (path, text) in texts() {
        let name = replay(&text, "it", &Options::default()).unwrap().name;
        assert_eq!(path.file_stem().unwrap(), name.as_str(), "{}", path.display());
    }
}
