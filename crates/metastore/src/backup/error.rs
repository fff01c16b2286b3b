//! Why a backup or a restore failed.

use std::io;

use crate::Error;

/// Why a backup, a restore or a copy failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The metastore could not be opened, read or written.
    #[error(transparent)]
    Metastore(#[from] Error),
    /// The database gave up in the middle.
    #[error("the database gave up")]
    Database(#[from] sqlx::Error),
    /// The file cannot be read or written.
    #[error("the file cannot be read or written")]
    File(#[from] io::Error),
    /// The file is no backup of a metastore.
    #[error("this is no backup of a metastore ({0})")]
    Foreign(String),
    /// A newer program made the backup or the metastore.
    #[error("{0}: use a newer program")]
    Newer(String),
    /// The file is cut or damaged.
    #[error("the backup is damaged {place}: {what}")]
    Damaged {
        /// The last place that is whole.
        place: String,
        /// What was found there.
        what: String,
    },
    /// Somebody holds the lease.
    #[error("coordinator '{holder}' holds the lease of the metastore '{url}'; stop all coordinators first")]
    Held {
        /// The metastore, without a password.
        url: String,
        /// Who.
        holder: String,
    },
    /// There is something that would be lost.
    #[error(
        "the metastore '{url}' is not empty (table {table} has rows); what it holds would be lost. --force replaces it"
    )]
    NotEmpty {
        /// The metastore, without a password.
        url: String,
        /// One of its tables that has rows.
        table: String,
    },
    /// A metastore was to be copied into itself.
    #[error("'{0}' is the metastore that is copied; name another one to copy it to")]
    Itself(String),
    /// A column of the schema has a type that no backup can hold.
    #[error("a backup cannot hold {0}")]
    Unknown(String),
}
