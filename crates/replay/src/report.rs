//! How outcomes are told, and what the exit status is.

use std::fmt;

use crate::{Outcome, ScenarioError};

/// How outcomes are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// What failed, and explanations if there are any.
    #[default]
    Text,
    /// One JSON object per step.
    Json,
}

impl Format {
    /// The lines that tell an outcome; none when all is well and nothing was to be explained.
    pub fn lines(self, file: &str, outcome: &Outcome) -> Vec<String> {
        match self {
            Self::Text => text_lines(file, outcome),
            Self::Json => outcome.steps.iter().map(|step| step.to_json(file).to_string()).collect(),
        }
    }
}

fn text_lines(file: &str, outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for step in &outcome.steps {
        let place = format!("{file}: step {} (line {}, {})", step.number, step.line, step.action);
        lines.extend(step.failures.iter().map(|failure| format!("{place}: {failure}")));
        if !step.explanation.is_empty() {
            lines.push(format!("{place}:"));
            lines.extend(step.explanation.iter().map(|line| format!("  {line}")));
        }
    }
    lines
}

/// How many files passed and failed. Displayed as the last line of every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    passed: usize,
    failed: usize,
    unusable: usize,
}

impl Tally {
    /// Counts a file.
    pub fn count(&mut self, outcome: &Result<Outcome, ScenarioError>) {
        match outcome {
            Ok(outcome) if outcome.passed() => self.passed += 1,
            Ok(_) => self.failed += 1,
            Err(_) => self.unusable += 1,
        }
    }

    /// 0: everything was as expected; 1: something was not; 2: some file is no scenario.
    pub fn exit_status(self) -> u8 {
        match self {
            Self { unusable: 1.., .. } => 2,
            Self { failed: 1.., .. } => 1,
            _ => 0,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed + self.unusable)
    }
}
