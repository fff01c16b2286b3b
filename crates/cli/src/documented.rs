//! Commands that help and documents show are commands that there are.

use std::{fs, path::PathBuf};

use clap::CommandFactory;

use crate::args::Args;

/// The command lines in a text: lines that begin with `pointsman`, up to a comment, a pipe or a file, with continuations.
fn commands(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().flat_map(|line| line.split(" && "));
    let commands = lines.filter_map(|line| line.trim().strip_prefix("pointsman "));
    let ends = [" #", " | ", " > "];
    let end = |line: &str| ends.iter().filter_map(|end| line.find(end)).min().unwrap_or(line.len());
    commands.map(|line| line[..end(line)].trim().to_owned()).collect()
}

/// Words as a shell reads them, quotes included.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (vec!["pointsman".to_owned()], String::new(), None);
    for character in line.chars() {
        match (character, quote) {
            (mark, Some(open)) if mark == open => quote = None,
            ('\'' | '"', None) => quote = Some(character),
            (' ', None) => words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty())),
            _ => word.push(character),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// How many commands the text shows; each must be one that is understood.
fn check(place: &str, text: &str) -> usize {
    let shown = commands(text);
    for line in &shown {
        match Args::read(words(line)) {
            // Help is no command, but it is understood.
            Err(error) if error.use_stderr() => panic!("{place} shows `pointsman {line}`:\n{error}"),
            _ => {}
        }
    }
    shown.len()
}

#[test]
fn every_example_of_the_help_is_understood() {
    fn examples(command: &clap::Command) -> usize {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        check(command.get_name(), &help) + command.get_subcommands().map(examples).sum::<usize>()
    }
    assert!(examples(&Args::command()) > 20);
}

#[test]
fn every_command_in_the_documents_is_understood() {
    // Asked when it runs: checkouts may share what was built.
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    for document in ["README.md", "docs/operating.md", "docs/rows.md"] {
        let text = fs::read_to_string(root.join(document)).expect("the document is there");
        assert!(check(document, &text) > 3, "{document}");
    }
}
