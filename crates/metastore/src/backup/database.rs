//! A database that a backup is made of, or restored into: one transaction on a connection of its own.

use std::time::Duration;

use futures::TryStreamExt as _;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Postgres, Sqlite, Transaction,
    migrate::MigrateError, postgres::PgPoolOptions, sqlite::SqlitePoolOptions,
};

use super::{
    BackupError,
    cell::{self, Cell, CellRow},
    shape::Table,
};
use crate::{
    Error,
    address::{self, Address},
    dialect::{self, Dialect},
    schema,
    session::within,
};

/// Longest wait for a connection, a lock or the next row.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest wait until a server takes a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// A transaction, which is rolled back unless it is committed.
#[derive(Debug)]
pub(super) struct Database {
    transaction: InDatabase,
    /// Its URL without a password.
    pub(super) name: String,
}

#[derive(Debug)]
enum InDatabase {
    Postgres(Transaction<'static, Postgres>),
    Sqlite(Transaction<'static, Sqlite>),
}

impl Database {
    /// Opens a metastore for reading: everything is as it is at one moment.
    pub(super) async fn open(url: &str) -> Result<Self, BackupError> {
        Self::begin(url, false).await
    }

    /// Opens a metastore, which may be an empty database, for writing.
    pub(super) async fn create(url: &str) -> Result<Self, BackupError> {
        Self::begin(url, true).await
    }

    async fn begin(url: &str, writes: bool) -> Result<Self, BackupError> {
        let address = Address::parse(url)?;
        let name = address.name().to_owned();
        let begin = |dialect: &Dialect| if writes { dialect.begin } else { dialect.begin_snapshot };
        let transaction = match &address {
            Address::Postgres { options, .. } => {
                let lock = format!("{}ms", PATIENCE.as_millis());
                let options = options.as_ref().clone().options([("lock_timeout", lock)]);
                // A pool would ask again and again, and not tell what is wrong.
                let tried = within(CONNECT, options.connect()).await;
                let tried = tried.map_err(|source| address.refuse(source))?;
                within(CONNECT, tried.close()).await?;
                let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE);
                let pool = pool.connect_with(options).await;
                let pool = pool.map_err(|source| address.refuse(source))?;
                InDatabase::Postgres(pool.begin_with(begin(&dialect::POSTGRES)).await?)
            }
            Address::Sqlite { path, .. } => {
                let options = address::sqlite(path, PATIENCE, writes).await;
                // References are checked at the end, when everything is there.
                let options = options.map_err(|source| address.refuse(source))?.foreign_keys(false);
                let pool = SqlitePoolOptions::new().max_connections(1).acquire_timeout(PATIENCE);
                let pool = pool.connect_with(options).await;
                let pool = pool.map_err(|source| address.refuse(source))?;
                InDatabase::Sqlite(pool.begin_with(begin(&dialect::SQLITE)).await?)
            }
        };
        Ok(Self { transaction, name })
    }

    pub(super) fn dialect(&self) -> &'static Dialect {
        match self.transaction {
            InDatabase::Postgres(_) => &dialect::POSTGRES,
            InDatabase::Sqlite(_) => &dialect::SQLITE,
        }
    }

    /// Versions of the schema that were applied; none in a database that has none of our tables.
    pub(super) async fn applied(&mut self) -> Result<Vec<i64>, BackupError> {
        let is_there = match self.transaction {
            InDatabase::Postgres(_) => "SELECT CAST(to_regclass('_sqlx_migrations') IS NOT NULL AS INTEGER)",
            InDatabase::Sqlite(_) => "SELECT count(*) FROM sqlite_master WHERE name = '_sqlx_migrations'",
        };
        if self.number(is_there).await? == 0 {
            return Ok(Vec::new());
        }
        let rows = self.rows("SELECT version FROM _sqlx_migrations ORDER BY version").await?;
        Ok(rows.iter().filter_map(|row| int(row.first())).collect())
    }

    /// The same of a metastore.
    pub(super) async fn versions(&mut self) -> Result<Vec<i64>, BackupError> {
        let versions = self.applied().await?;
        if versions.is_empty() {
            let text = format!("the database '{}' holds no metastore", self.name);
            return Err(Error::Schema(text).into());
        }
        Ok(versions)
    }

    /// The lease's epoch, and the database's clock, milliseconds since the Unix epoch.
    pub(super) async fn epoch_and_time(&mut self) -> Result<(u64, u64), BackupError> {
        let epoch = self.number("SELECT epoch FROM lease").await?;
        let now = self.number(self.dialect().now).await?;
        Ok((epoch.unsigned_abs(), now.unsigned_abs()))
    }

    /// Holds the lease still, if this is a transaction that writes.
    ///
    /// # Errors
    /// Somebody has it.
    pub(super) async fn refuse_holder(&mut self, lock: &str) -> Result<(), BackupError> {
        let now = self.dialect().now;
        let sql = format!("SELECT holder, CAST(expires_at > ({now}) AS INTEGER) FROM lease{lock}");
        match self.rows(&sql).await?.pop().as_deref() {
            Some([Cell::Text(holder), Cell::Int(1)]) => {
                Err(BackupError::Held { url: self.name.clone(), holder: holder.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Hands on every row of a table.
    pub(super) async fn read(
        &mut self,
        table: &Table,
        mut each: impl FnMut(CellRow) -> Result<(), BackupError> + Send,
    ) -> Result<(), BackupError> {
        let (columns, key) = (table.columns.join(", "), table.key.join(", "));
        let sql = format!("SELECT {columns} FROM {} ORDER BY {key}", table.name);
        let query = sqlx::raw_sql(AssertSqlSafe(sql));
        match &mut self.transaction {
            InDatabase::Postgres(transaction) => {
                let mut rows = query.fetch(&mut **transaction);
                while let Some(row) = within(PATIENCE, rows.try_next()).await? {
                    each(cell::of_postgres(&row)?)?;
                }
            }
            InDatabase::Sqlite(transaction) => {
                let mut rows = query.fetch(&mut **transaction);
                while let Some(row) = within(PATIENCE, rows.try_next()).await? {
                    each(cell::of_sqlite(&row)?)?;
                }
            }
        }
        Ok(())
    }

    /// Adds rows to a table.
    pub(super) async fn add(
        &mut self,
        table: &str,
        columns: &[String],
        rows: &[CellRow],
    ) -> Result<(), BackupError> {
        let names = columns.join(", ");
        match &mut self.transaction {
            InDatabase::Postgres(transaction) => {
                let sql = format!("COPY {table} ({names}) FROM STDIN");
                let text = copy_text(rows);
                let copied = async {
                    let mut copy = transaction.copy_in_raw(&sql).await?;
                    copy.send(text).await?;
                    copy.finish().await
                };
                within(PATIENCE, copied).await?;
            }
            InDatabase::Sqlite(transaction) => {
                let places: Vec<String> = (1..=columns.len()).map(|place| format!("${place}")).collect();
                let sql = format!("INSERT INTO {table} ({names}) VALUES ({})", places.join(", "));
                for row in rows {
                    let query =
                        row.iter().fold(sqlx::query(AssertSqlSafe(sql.clone())), |query, cell| match cell {
                            Cell::Null => query.bind(None::<i64>),
                            Cell::Int(value) => query.bind(*value),
                            Cell::Text(value) => query.bind(value.clone()),
                            Cell::Bytes(value) => query.bind(value.clone()),
                        });
                    within(PATIENCE, query.execute(&mut **transaction)).await?;
                }
            }
        }
        Ok(())
    }

    /// Applies these versions of the schema, as far as they are not applied; `None`: all.
    pub(super) async fn migrate(&mut self, versions: Option<&[i64]>) -> Result<(), BackupError> {
        let migrated = match &mut self.transaction {
            InDatabase::Postgres(transaction) => {
                let known = schema::only(&schema::POSTGRES, versions)?;
                known.run_direct(None, &mut **transaction, false).await
            }
            InDatabase::Sqlite(transaction) => {
                let known = schema::only(&schema::SQLITE, versions)?;
                known.run_direct(None, &mut **transaction, false).await
            }
        };
        migrated.map_err(|why: MigrateError| match schema::explain(&self.name, why) {
            Ok(error) => error.into(),
            Err(error) => BackupError::Database(error),
        })
    }

    /// References that lead nowhere; PostgreSQL does not let any in.
    pub(super) async fn check_references(&mut self) -> Result<(), BackupError> {
        if let InDatabase::Postgres(_) = self.transaction {
            return Ok(());
        }
        let broken = self.rows("PRAGMA foreign_key_check").await?;
        match broken.first().and_then(|row| row.first()) {
            Some(table) => {
                Err(BackupError::Foreign(format!("a row of {table:?} refers to something that is not there")))
            }
            None => Ok(()),
        }
    }

    /// Runs statements.
    pub(super) async fn execute(&mut self, sql: &str) -> Result<(), BackupError> {
        let query = sqlx::raw_sql(AssertSqlSafe(sql));
        match &mut self.transaction {
            InDatabase::Postgres(transaction) => {
                within(PATIENCE, transaction.execute(query)).await?;
            }
            InDatabase::Sqlite(transaction) => {
                within(PATIENCE, transaction.execute(query)).await?;
            }
        }
        Ok(())
    }

    /// The one number that a statement gives; 0 when it gives none.
    pub(super) async fn number(&mut self, sql: &str) -> Result<i64, BackupError> {
        let rows = self.rows(sql).await?;
        Ok(rows.first().and_then(|row| int(row.first())).unwrap_or_default())
    }

    async fn rows(&mut self, sql: &str) -> Result<Vec<CellRow>, BackupError> {
        let query = sqlx::raw_sql(AssertSqlSafe(sql));
        match &mut self.transaction {
            InDatabase::Postgres(transaction) => {
                let rows = within(PATIENCE, query.fetch_all(&mut **transaction)).await?;
                rows.iter().map(cell::of_postgres).collect()
            }
            InDatabase::Sqlite(transaction) => {
                let rows = within(PATIENCE, query.fetch_all(&mut **transaction)).await?;
                rows.iter().map(cell::of_sqlite).collect()
            }
        }
    }

    pub(super) async fn commit(self) -> Result<(), BackupError> {
        match self.transaction {
            InDatabase::Postgres(transaction) => transaction.commit().await?,
            InDatabase::Sqlite(transaction) => transaction.commit().await?,
        }
        Ok(())
    }
}

fn int(cell: Option<&Cell>) -> Option<i64> {
    match cell {
        Some(Cell::Int(value)) => Some(*value),
        _ => None,
    }
}

/// Rows as `COPY ... FROM STDIN` reads them.
fn copy_text(rows: &[CellRow]) -> Vec<u8> {
    let mut text = Vec::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            if at > 0 {
                text.push(b'\t');
            }
            cell.copy_text(&mut text);
        }
        text.push(b'\n');
    }
    text
}
