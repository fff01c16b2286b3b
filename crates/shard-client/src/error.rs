//! The error of requests by shard: a code of the house with the retriable bit and the class that came with it.

use std::{fmt::Display, time::Duration};

use pointsman_ids::{Error, ErrorClass, ErrorCode};

/// Result with [`ShardError`].
pub type Result<T, E = ShardError> = std::result::Result<T, E>;

/// Why a request by shard has no answer. Its identity is the code; more text keeps code, retriable bit and class.
///
/// A node may say of an error that it is the request's fault whatever its code is elsewhere, so bit and class travel
/// beside the code. `Display` shows the message alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct ShardError {
    error: Error,
    retriable: bool,
    class: ErrorClass,
    retry_after: Option<Duration>,
}

impl ShardError {
    /// An error of this code, with the bit and the class that the table gives it.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Error::new(code, message).into()
    }

    /// What has no code of ours: `unknown`, which is terminal.
    pub fn foreign(what: impl Display) -> Self {
        Self::new(ErrorCode::Unknown, what.to_string())
    }

    /// The same error, of another class: what a node said of it.
    #[must_use]
    pub fn with_class(self, class: ErrorClass) -> Self {
        Self { class, ..self }
    }

    /// The same error with another retriable bit: what a node said of it.
    #[must_use]
    pub fn with_retriable(self, retriable: bool) -> Self {
        Self { retriable, ..self }
    }

    /// The same error, with what was being done in front of its text.
    #[must_use]
    pub fn context(self, doing: impl Display) -> Self {
        Self { error: self.error.context(doing), ..self }
    }

    /// The same error, with more behind its text.
    pub(crate) fn because(self, seen: impl Display) -> Self {
        let error = Error::new(self.code(), format!("{}; {seen}", self.message()));
        Self { error, ..self }
    }

    /// The error's identity.
    pub fn code(&self) -> ErrorCode {
        self.error.code()
    }

    /// After how long trying again makes sense; `None`: nobody said so. Only a client whose retries are limited in time
    /// says it ([`Settings::retry_time`](crate::Settings::retry_time)), and only of what may succeed later.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The same error, if it may pass with word that trying again makes sense after this time and not before.
    pub(crate) fn retry_after_at_least(self, after: Duration) -> Self {
        let retry_after = self.retriable.then(|| self.retry_after.map_or(after, |known| known.max(after)));
        Self { retry_after, ..self }
    }

    /// The text for people.
    pub fn message(&self) -> &str {
        self.error.message()
    }

    /// Whether the same request may succeed later. An error that is not retriable is terminal.
    pub fn is_retriable(&self) -> bool {
        self.retriable
    }

    /// Who has to act.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// Whether the request itself is wrong, so that no node is to blame.
    pub fn is_input(&self) -> bool {
        self.class == ErrorClass::Input
    }

    /// Whether it only says that the caller went away or had no more time.
    pub(crate) fn is_callers(&self) -> bool {
        matches!(self.code(), ErrorCode::Cancelled | ErrorCode::DeadlineExceeded)
    }

    pub(crate) fn deadline(waited_for: impl Display) -> Self {
        Self::new(ErrorCode::DeadlineExceeded, format!("the deadline passed: {waited_for}"))
    }
}

impl From<Error> for ShardError {
    fn from(error: Error) -> Self {
        let code = error.code();
        Self { error, retriable: code.is_retriable(), class: code.class(), retry_after: None }
    }
}
