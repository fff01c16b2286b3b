//! Opens a metastore by its URL.

use std::{
    io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use sqlx::{
    ConnectOptions, Connection,
    migrate::MigrateError,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::{
    Error, Result, SharedMetastore, schema,
    session::within,
    store::{Pools, Store},
};

/// Connections that PostgreSQL sees from one metastore: one writes, some read, one renews the lease.
const POSTGRES_CONNECTIONS: u32 = 6;

/// Connections that read an SQLite file at once.
const SQLITE_READERS: u32 = 4;

/// What a URL should look like.
const LAWFUL: &str = "right are postgres://USER:PASSWORD@HOST:5432/DATABASE and sqlite:PATH";

/// Limits of a metastore's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Longest wait for a free and living connection.
    pub acquire: Duration,
    /// Longest wait for the answer to one statement; a call is a handful of statements.
    pub statement: Duration,
    /// Longest wait for the schema to be brought up to date when the metastore is opened.
    pub migration: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            acquire: Duration::from_secs(3),
            statement: Duration::from_secs(5),
            migration: Duration::from_secs(60),
        }
    }
}

/// Opens `postgres://USER:PASSWORD@HOST:PORT/DATABASE` or `sqlite:PATH`, and brings its schema up to date. An SQLite
/// file and its folder are created when they are missing; a PostgreSQL database must be there.
///
/// # Errors
/// `Url` when it names no metastore; `Open` when it cannot be reached or read; `Schema` when it holds a schema that
/// this version cannot work with. All name the URL without its password.
pub async fn open(url: &str, options: OpenOptions) -> Result<SharedMetastore> {
    match url.split_once(':') {
        Some(("postgres" | "postgresql", _)) => open_postgres(url, options).await,
        Some(("sqlite", path)) => open_sqlite(path.strip_prefix("//").unwrap_or(path), options).await,
        // No more of the text than this: it may hold a password.
        Some((scheme, _)) => {
            Err(Error::Url(format!("a metastore's URL cannot begin with '{scheme}:'; {LAWFUL}")))
        }
        None => Err(Error::Url(format!("a metastore's URL begins with its kind; {LAWFUL}"))),
    }
}

async fn open_postgres(url: &str, options: OpenOptions) -> Result<SharedMetastore> {
    let unreadable =
        |why: sqlx::Error| Error::Url(format!("the metastore's URL cannot be read: {why}; {LAWFUL}"));
    let connect = PgConnectOptions::from_str(url).map_err(unreadable)?.application_name("pointsman");
    let Some(database) = connect.get_database() else {
        return Err(Error::Url(format!("the metastore's URL names no database; {LAWFUL}")));
    };
    let name = format!(
        "postgres://{}@{}:{}/{database}",
        connect.get_username(),
        connect.get_host(),
        connect.get_port()
    );
    let refuse = |source| Error::Open { url: name.clone(), remedy: postgres_remedy(&source), source };
    // Statements are not logged: those of a large push are large.
    let connect = connect.disable_statement_logging();
    let mut connection = within(options.acquire, connect.connect()).await.map_err(refuse)?;
    let migrated = schema::postgres(&mut connection, options.migration).await;
    // It only hurries the server; it notices by itself when we are gone.
    let _ = within(options.acquire, connection.close()).await;
    migrated.map_err(|error| schema::explain(&name, error).unwrap_or_else(refuse))?;

    // The server gives up on its own, too, and with it the locks of a client that vanished.
    let limit = format!("{}ms", options.statement.as_millis());
    let limits = [("statement_timeout", limit.clone()), ("idle_in_transaction_session_timeout", limit)];
    let pool = PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS)
        .acquire_timeout(options.acquire)
        .connect_lazy_with(connect.options(limits));
    Ok(Arc::new(Store::new(Pools::Postgres(pool), options, name)))
}

fn postgres_remedy(error: &sqlx::Error) -> &'static str {
    let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default();
    match &*code {
        "28P01" | "28000" => "check user, password and the server's pg_hba.conf",
        "3D000" => "create the database first: CREATE DATABASE",
        "42501" => "its user must own the database, or be allowed to create tables in it",
        _ => "check that PostgreSQL runs there and takes connections",
    }
}

async fn open_sqlite(path: &str, options: OpenOptions) -> Result<SharedMetastore> {
    let name = format!("sqlite:{path}");
    if path.is_empty() || path == ":memory:" || path.contains('?') {
        return Err(Error::Url(format!(
            "'{name}' names no file for the metastore, and nothing else is taken; {LAWFUL}"
        )));
    }
    let refuse = |source| Error::Open { url: name.clone(), remedy: sqlite_remedy(&source), source };
    let path = prepare(Path::new(path)).await.map_err(|error| refuse(error.into()))?;
    let connect = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // Nothing that was acknowledged is lost by a power failure.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(options.acquire)
        .disable_statement_logging();
    migrate_sqlite(&connect, options)
        .await
        .map_err(|error| schema::explain(&name, error).unwrap_or_else(refuse))?;

    let pool =
        |connections| SqlitePoolOptions::new().max_connections(connections).acquire_timeout(options.acquire);
    let writer = pool(1).connect_lazy_with(connect.clone());
    let reader = pool(SQLITE_READERS).connect_lazy_with(connect.pragma("query_only", "ON"));
    Ok(Arc::new(Store::new(Pools::Sqlite { reader, writer }, options, name)))
}

/// Makes the file's folder. The path becomes absolute, so that SQLite does not take it for one of its own URLs.
async fn prepare(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    if tokio::fs::metadata(&path).await.is_ok_and(|found| found.is_dir()) {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if let Some(folder) = path.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    Ok(path)
}

/// The switch of a new file to write-ahead logging fails at once, without waiting, while another process does the
/// same; so it is tried again.
async fn migrate_sqlite(connect: &SqliteConnectOptions, options: OpenOptions) -> Result<(), MigrateError> {
    let deadline = tokio::time::Instant::now() + options.acquire;
    loop {
        let migrated = try_migrate_sqlite(connect, options).await;
        let busy = match &migrated {
            Err(MigrateError::Execute(sqlx::Error::Database(error))) => {
                error.code().and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
            }
            _ => false,
        };
        if !busy || tokio::time::Instant::now() >= deadline {
            return migrated;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn try_migrate_sqlite(
    connect: &SqliteConnectOptions,
    options: OpenOptions,
) -> Result<(), MigrateError> {
    let mut connection = within(options.acquire, connect.connect()).await?;
    schema::sqlite(&mut connection, options.migration).await?;
    Ok(connection.close().await?)
}

fn sqlite_remedy(error: &sqlx::Error) -> &'static str {
    match error {
        sqlx::Error::Io(error) if error.kind() == io::ErrorKind::IsADirectory => {
            "name a file inside the folder"
        }
        sqlx::Error::Io(_) => "check that its folder may be created and written",
        sqlx::Error::Database(error) if error.code().as_deref() == Some("26") => {
            "the file is no SQLite database; name another one, or move it away"
        }
        _ => "check that file and folder may be read and written, and that no other program holds the file",
    }
}
