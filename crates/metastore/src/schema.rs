//! The schema: migrations that are part of the program, and what their errors mean.

use std::time::Duration;

use sqlx::{
    Connection, PgConnection, SqliteConnection,
    migrate::{MigrateError, Migrator},
};

use crate::{BackupError, Error, session::within};

pub(crate) static POSTGRES: Migrator = sqlx::migrate!("../../migrations/postgres");
pub(crate) static SQLITE: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// Counters that number changes, and nothing that has a name.
pub(crate) const COUNTERS_OF_CHANGES: &str = "'revision', 'purge', 'history'";

/// The migrations of these versions; `None`: all.
///
/// # Errors
/// There is none of one of these versions.
pub(crate) fn only(known: &Migrator, versions: Option<&[i64]>) -> Result<Migrator, BackupError> {
    let Some(versions) = versions else {
        return Ok(Migrator::with_migrations(known.iter().cloned().collect()));
    };
    if let Some(unknown) = versions.iter().find(|version| !known.version_exists(**version)) {
        return Err(BackupError::Newer(format!(
            "its schema has a version {unknown}, which is not known here"
        )));
    }
    let wanted = known.iter().filter(|migration| versions.contains(&migration.version));
    Ok(Migrator::with_migrations(wanted.cloned().collect()))
}

/// Brings a PostgreSQL database up to date. Two at once take turns by an advisory lock, which ends with the
/// connection.
pub(crate) async fn postgres(connection: &mut PgConnection, limit: Duration) -> Result<(), MigrateError> {
    migrate(limit, POSTGRES.run_direct(None, connection, false)).await
}

/// Brings an SQLite database up to date. Two at once take turns by one transaction around everything.
pub(crate) async fn sqlite(connection: &mut SqliteConnection, limit: Duration) -> Result<(), MigrateError> {
    migrate(limit, async {
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        SQLITE.run_direct(None, &mut *transaction, false).await?;
        Ok(transaction.commit().await?)
    })
    .await
}

async fn migrate(
    limit: Duration,
    work: impl Future<Output = Result<(), MigrateError>>,
) -> Result<(), MigrateError> {
    within(limit, async { Ok(work.await) }).await?
}

/// What went wrong with the schema, and what helps; the error itself when it was not the schema.
pub(crate) fn explain(url: &str, error: MigrateError) -> Result<Error, sqlx::Error> {
    let newest = [&POSTGRES, &SQLITE].iter().flat_map(|known| known.iter()).map(|known| known.version).max();
    let newest = newest.unwrap_or_default();
    let text = match error {
        MigrateError::VersionMissing(version) if version > newest => format!(
            "the schema of the metastore '{url}' has version {version}, and this program knows versions up to {newest}: \
             use a newer program, or restore a backup from before the upgrade"
        ),
        MigrateError::VersionMissing(version) => format!(
            "the schema of the metastore '{url}' has a version {version} that this program does not know: \
             the database belongs to another program; name another one"
        ),
        MigrateError::VersionMismatch(version) => format!(
            "version {version} of the schema of the metastore '{url}' is not the one of this program (its checksum \
             differs): use the program that made the database, or restore a backup"
        ),
        MigrateError::Dirty(version) => format!(
            "version {version} of the schema of the metastore '{url}' was applied in part: restore a backup"
        ),
        MigrateError::ExecuteMigration(why, version) if why.as_database_error().is_some() => format!(
            "version {version} of the schema cannot be applied to the metastore '{url}' ({why}): \
             it must be an empty database or one of this program, and its user must be allowed to create tables"
        ),
        MigrateError::ExecuteMigration(why, _) | MigrateError::Execute(why) => return Err(why),
        other => format!("the schema of the metastore '{url}' cannot be brought up to date: {other}"),
    };
    Ok(Error::Schema(text))
}
