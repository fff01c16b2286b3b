//! What is wrong with a scenario file.

use std::fmt;

/// A scenario that cannot be run: it is no YAML, has an unknown key, a wrong type, or names something undeclared.
///
/// Displayed as `FILE:LINE: KEY: WHAT`, without the parts that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    file: String,
    line: Option<u64>,
    key: String,
    what: String,
}

impl ScenarioError {
    /// An error about a file as a whole.
    pub(crate) fn of_file(file: &str, what: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), line: None, key: String::new(), what: what.to_string() }
    }

    pub(crate) fn at(line: u64, key: &str, what: impl fmt::Display) -> Self {
        Self { file: String::new(), line: Some(line), key: key.to_owned(), what: what.to_string() }
    }

    /// The same error, of this file. Parsers do not know the file.
    pub(crate) fn in_file(self, file: &str) -> Self {
        Self { file: file.to_owned(), ..self }
    }

    /// The file, as it was named to the command.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1; `None`: the error is about the file as a whole.
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// The way to the key, such as `steps[2].select.options`; empty when the error is about no key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong.
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for ScenarioError {}
