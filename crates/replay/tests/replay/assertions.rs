//! Files that are refused, and what their error says.

use pointsman_replay::{Options, replay};

/// The error of a file.
#[track_caller]
pub(crate) fn refusal(text: &str) -> String {
    match replay(text, "some/file.yaml", &Options::default()) {
        Ok(outcome) => panic!("not refused:\n{text}\n{outcome:?}"),
        Err(error) => error.to_string(),
    }
}

/// It names the file and this line, and has these parts.
#[track_caller]
pub(crate) fn assert_says(error: &str, line: u64, parts: &[&str]) {
    assert!(error.starts_with(&format!("some/file.yaml:{line}: ")), "line {line}: {error}");
    for part in parts {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}
