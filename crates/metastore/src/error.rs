//! Why a call of the metastore failed.

use pointsman_ids::{Epoch, ErrorCode};
use sqlx::postgres::PgDatabaseError;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of the metastore failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The writer does not hold the lease: another coordinator has a newer epoch, or the database lost ours. Nothing
    /// was written.
    #[error(
        "epoch {ours} does not hold the lease of the active coordinator; the metastore's newest epoch is {newest}"
    )]
    Fenced {
        /// The epoch of the writer.
        ours: Epoch,
        /// The newest epoch that the database knows.
        newest: Epoch,
    },
    /// The database is another server than the one that gave the lease, or another timeline of it: the newest changes may
    /// be lost. Nothing was written. The lease has to be taken anew.
    #[error(
        "the metastore is server and timeline {now} now, and was {before} when the lease was taken: its newest changes may be lost"
    )]
    AnotherServer {
        /// The server that gave the lease.
        before: String,
        /// The one that answers now.
        now: String,
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
    /// The database rejected a statement for a reason that waiting does not cure. Nothing was written.
    #[error("the metastore rejected a statement")]
    Failed(#[source] sqlx::Error),
    /// The metastore could not be opened.
    #[error("the metastore '{url}' cannot be opened ({remedy})")]
    Open {
        /// Where it was looked for, without a password.
        url: String,
        /// What would help.
        remedy: &'static str,
        /// Why.
        source: sqlx::Error,
    },
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

impl Error {
    /// What a failed statement means as long as nothing was committed.
    pub(crate) fn of_statement(error: sqlx::Error) -> Self {
        if is_passing(&error) { Self::Unavailable(error) } else { Self::Failed(error) }
    }
}

impl Error {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::OutcomeUnknown(_) => true,
            Self::Open { source, .. } => is_passing(source),
            _ => false,
        }
    }
}

/// Whether the same may succeed later without anybody changing anything.
fn is_passing(error: &sqlx::Error) -> bool {
    use sqlx::Error as E;
    match error {
        E::Database(database) => {
            let code = database.code().unwrap_or_default();
            if database.try_downcast_ref::<PgDatabaseError>().is_some() {
                is_passing_postgres(&code)
            } else {
                is_passing_sqlite(&code)
            }
        }
        E::Io(_) | E::Tls(_) | E::Protocol(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed => true,
        _ => false,
    }
}

/// Connection lost, roll-back, shortage, shut-down and cancellation by time, and a server that only reads (a standby).
fn is_passing_postgres(code: &str) -> bool {
    ["08", "40", "53", "55", "57"].iter().any(|class| code.starts_with(class)) || code == "25006"
}

/// The primary code is in the lowest byte: busy, locked, I/O error, disk full, cannot open.
fn is_passing_sqlite(code: &str) -> bool {
    code.parse::<u32>().is_ok_and(|code| matches!(code & 0xff, 5 | 6 | 10 | 13 | 14))
}

impl From<Error> for pointsman_ids::Error {
    /// Keeps the code of a refusal; the rest is `service_not_ready` where waiting helps, else `service_internal`.
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Refused(refused) => return refused.clone(),
            Error::Fenced { .. }
            | Error::AnotherServer { .. }
            | Error::Unavailable(_)
            | Error::OutcomeUnknown(_) => ErrorCode::ServiceNotReady,
            Error::Open { source, .. } if is_passing(source) => ErrorCode::ServiceNotReady,
            Error::Open { .. }
            | Error::Failed(_)
            | Error::Schema(_)
            | Error::Corrupt { .. }
            | Error::Url(_) => ErrorCode::ServiceInternal,
        };
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            let said = cause.to_string();
            // Errors of sqlx repeat their source.
            if !text.ends_with(&said) {
                text = text + ": " + &said;
            }
            source = cause.source();
        }
        Self::new(code, text)
    }
}
