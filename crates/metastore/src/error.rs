//! Why a call of the metastore failed.

use pointsman_ids::{Epoch, ErrorCode};

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of the metastore failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The writer's lease is over: another coordinator has a newer epoch. Nothing was written.
    #[error("epoch {ours} is fenced off by epoch {newest}: another coordinator is active")]
    Fenced {
        /// The epoch of the writer.
        ours: Epoch,
        /// The newest epoch that the database knows.
        newest: Epoch,
    },
    /// The request contradicts what is stored. Nothing was written.
    #[error(transparent)]
    Refused(#[from] pointsman_ids::Error),
    /// The database could not be reached, or gave up before it wrote anything.
    #[error("the metastore is not available")]
    Unavailable(#[source] sqlx::Error),
    /// A write was cut off: it may be there or not. Read back before deciding.
    #[error("the outcome of a write is unknown")]
    OutcomeUnknown(#[source] Option<sqlx::Error>),
    /// The database holds a schema that this version cannot work with.
    #[error("{0}")]
    Schema(String),
    /// A stored row makes no sense.
    #[error("a row of {table} is corrupt: {what}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// What is wrong, naming the row.
        what: String,
    },
    /// The URL names no metastore.
    #[error("{0}")]
    Url(String),
}

impl From<Error> for pointsman_ids::Error {
    /// Keeps the code of a refusal; the rest is `service_not_ready` where waiting helps, else `service_internal`.
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Refused(refused) => return refused.clone(),
            Error::Fenced { .. } | Error::Unavailable(_) | Error::OutcomeUnknown(_) => ErrorCode::ServiceNotReady,
            Error::Schema(_) | Error::Corrupt { .. } | Error::Url(_) => ErrorCode::ServiceInternal,
        };
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::new(code, text)
    }
}
