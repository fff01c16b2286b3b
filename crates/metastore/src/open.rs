//! Opens a metastore by its URL.

use std::{sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions, Connection,
    migrate::MigrateError,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use crate::{
    Result, SharedMetastore,
    address::{self, Address},
    schema,
    server::Server,
    session::within,
    store::{Pools, Store},
};

/// Connections that PostgreSQL sees from one metastore: one writes, some read, one renews the lease.
const POSTGRES_CONNECTIONS: u32 = 6;

/// Connections that read an SQLite file at once.
const SQLITE_READERS: u32 = 4;

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
    let address = Address::parse(url)?;
    let store = match &address {
        Address::Postgres { options: connect, .. } => open_postgres(&address, connect, options).await?,
        Address::Sqlite { path, .. } => open_sqlite(&address, path, options).await?,
    };
    Ok(Arc::new(store))
}

async fn open_postgres(address: &Address, connect: &PgConnectOptions, options: OpenOptions) -> Result<Store> {
    let refuse = |source| address.refuse(source);
    let mut connection = within(options.acquire, connect.connect()).await.map_err(refuse)?;
    let migrated = schema::postgres(&mut connection, options.migration).await;
    let server = match &migrated {
        Ok(()) => Server::of(&mut connection, options.acquire).await,
        Err(_) => Server::UNKNOWN,
    };
    // It only hurries the server; it notices by itself when we are gone.
    let _ = within(options.acquire, connection.close()).await;
    migrated.map_err(|error| schema::explain(address.name(), error).unwrap_or_else(refuse))?;

    // The server gives up on its own, too, and with it the locks of a client that vanished.
    let limit = format!("{}ms", options.statement.as_millis());
    let limits = [("statement_timeout", limit.clone()), ("idle_in_transaction_session_timeout", limit)];
    let pool = PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS)
        .acquire_timeout(options.acquire)
        .connect_lazy_with(connect.clone().options(limits));
    Ok(Store::new(Pools::Postgres(pool), options, address.name().to_owned(), server))
}

async fn open_sqlite(address: &Address, path: &str, options: OpenOptions) -> Result<Store> {
    let refuse = |source| address.refuse(source);
    let connect = address::sqlite(path, options.acquire, true).await.map_err(refuse)?;
    let migrated = migrate_sqlite(&connect, options).await;
    migrated.map_err(|error| schema::explain(address.name(), error).unwrap_or_else(refuse))?;

    let pool =
        |connections| SqlitePoolOptions::new().max_connections(connections).acquire_timeout(options.acquire);
    let writer = pool(1).connect_lazy_with(connect.clone());
    let reader = pool(SQLITE_READERS).connect_lazy_with(connect.pragma("query_only", "ON"));
    Ok(Store::new(Pools::Sqlite { reader, writer }, options, address.name().to_owned(), Server::UNKNOWN))
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
