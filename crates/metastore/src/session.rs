//! One call's connection: statements with a limit in time, the same text for both databases.

use std::{io, time::Duration};

use sqlx::{
    Arguments, Database, Encode, Executor, FromRow, IntoArguments, PgConnection, Postgres, SqlSafeStr,
    SqlStr, Sqlite, Type, pool::PoolConnection, postgres::PgRow, sqlite::SqliteRow,
};

use crate::{
    Error, Result,
    dialect::{self, Dialect},
};

/// A connection of one of the two databases.
#[derive(Debug)]
pub(crate) enum Connection {
    Postgres(PoolConnection<Postgres>),
    Sqlite(PoolConnection<Sqlite>),
}

/// A value of a statement. `$1` is the first in both databases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bind<'a> {
    Int(i64),
    Text(&'a str),
    Bool(bool),
    Bytes(&'a [u8]),
    /// A number or NULL.
    OptionalInt(Option<i64>),
}

impl From<Option<i64>> for Bind<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::OptionalInt(value)
    }
}

impl From<i64> for Bind<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a str> for Bind<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Bind<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(value)
    }
}

impl From<bool> for Bind<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// A row that either database can give.
pub(crate) trait Row:
    for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin
{
}

impl<T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin> Row for T {}

/// One call's connection. It goes back to its pool by [`Session::finish`] or [`Session::commit`] alone. Dropped
/// otherwise, by an error, a limit or a caller that went away, it is closed, and the database rolls back.
#[derive(Debug)]
pub(crate) struct Session {
    /// Present until the session ends.
    connection: Option<Connection>,
    /// Longest wait for the answer to one statement.
    limit: Duration,
    /// What is committed makes a new revision.
    revises: bool,
}

impl Session {
    pub(crate) fn new(connection: Connection, limit: Duration) -> Self {
        Self { connection: Some(connection), limit, revises: false }
    }

    /// The same, of a transaction that changes what is stored.
    pub(crate) fn revising(mut self) -> Self {
        self.revises = true;
        self
    }

    /// The connection to PostgreSQL, for what is done there in a way of its own, and the longest wait for an answer.
    pub(crate) fn postgres(&mut self) -> Option<(&mut PgConnection, Duration)> {
        match &mut self.connection {
            Some(Connection::Postgres(connection)) => Some((connection, self.limit)),
            _ => None,
        }
    }

    pub(crate) fn dialect(&self) -> &'static Dialect {
        match self.connection {
            Some(Connection::Postgres(_)) => &dialect::POSTGRES,
            _ => &dialect::SQLITE,
        }
    }

    /// Runs a statement without values in one round trip, as those around a transaction are.
    pub(crate) async fn control(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        let limit = self.limit;
        match self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)? {
            Connection::Postgres(connection) => {
                within(limit, connection.execute(sqlx::raw_sql(sql))).await?;
            }
            Connection::Sqlite(connection) => {
                within(limit, connection.execute(sqlx::raw_sql(sql))).await?;
            }
        }
        Ok(())
    }

    /// Runs a statement and says how many rows it changed.
    pub(crate) async fn execute(&mut self, sql: impl SqlSafeStr, values: &[Bind<'_>]) -> Result<u64> {
        self.run(sql.into_sql_str(), values).await.map_err(Error::of_statement)
    }

    async fn run(&mut self, sql: SqlStr, values: &[Bind<'_>]) -> Result<u64, sqlx::Error> {
        let limit = self.limit;
        match self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)? {
            Connection::Postgres(connection) => {
                let query = sqlx::query_with(sql, arguments::<Postgres>(values)?);
                Ok(within(limit, query.execute(&mut **connection)).await?.rows_affected())
            }
            Connection::Sqlite(connection) => {
                let query = sqlx::query_with(sql, arguments::<Sqlite>(values)?);
                Ok(within(limit, query.execute(&mut **connection)).await?.rows_affected())
            }
        }
    }

    /// Runs a statement and reads its rows, which are `table`'s.
    pub(crate) async fn rows<T: Row>(
        &mut self,
        table: &'static str,
        sql: impl SqlSafeStr,
        values: &[Bind<'_>],
    ) -> Result<Vec<T>> {
        self.fetch(sql.into_sql_str(), values).await.map_err(|error| match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                Error::Corrupt { table, what: error.to_string() }
            }
            error => Error::of_statement(error),
        })
    }

    async fn fetch<T: Row>(&mut self, sql: SqlStr, values: &[Bind<'_>]) -> Result<Vec<T>, sqlx::Error> {
        let limit = self.limit;
        match self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)? {
            Connection::Postgres(connection) => {
                let query = sqlx::query_as_with(sql, arguments::<Postgres>(values)?);
                within(limit, query.fetch_all(&mut **connection)).await
            }
            Connection::Sqlite(connection) => {
                let query = sqlx::query_as_with(sql, arguments::<Sqlite>(values)?);
                within(limit, query.fetch_all(&mut **connection)).await
            }
        }
    }

    /// Runs a statement that gives one row at most.
    pub(crate) async fn row<T: Row>(
        &mut self,
        table: &'static str,
        sql: impl SqlSafeStr,
        values: &[Bind<'_>],
    ) -> Result<Option<T>> {
        Ok(self.rows(table, sql, values).await?.pop())
    }

    /// Gives `count` new numbers of a kind, the first of which is returned.
    pub(crate) async fn new_numbers(&mut self, kind: &str, count: i64) -> Result<i64> {
        let sql = "UPDATE counters SET last = last + $2 WHERE kind = $1 RETURNING last";
        let row: Option<(i64,)> = self.row("counters", sql, &[kind.into(), count.into()]).await?;
        let missing = || Error::Corrupt { table: "counters", what: format!("there is no row '{kind}'") };
        Ok(row.ok_or_else(missing)?.0 - count + 1)
    }

    /// Makes a write last.
    pub(crate) async fn commit(mut self) -> Result<()> {
        // One message: nothing is gained by knowing how far it came.
        let revise = "UPDATE counters SET last = last + 1 WHERE kind = 'revision'; COMMIT";
        let sql = if self.revises { revise } else { "COMMIT" };
        self.control(sql).await.map_err(|error| Error::OutcomeUnknown(Some(error)))?;
        self.finish().await;
        Ok(())
    }

    /// Ends a transaction in which nothing was written.
    pub(crate) async fn finish_unchanged(mut self) -> Result<()> {
        self.control("ROLLBACK").await.map_err(Error::of_statement)?;
        self.finish().await;
        Ok(())
    }

    /// Undoes a write that turned out to contradict what is stored, and passes on why.
    pub(crate) async fn refuse(mut self, why: impl Into<Error>) -> Error {
        // A roll-back that fails leaves the connection to be closed, which rolls back as well.
        if self.control("ROLLBACK").await.is_ok() {
            self.finish().await;
        }
        why.into()
    }

    /// Gives the connection back. The pool's test of it has a limit too: a server that went silent would keep the
    /// connection's place in the pool for as long as TCP hopes.
    pub(crate) async fn finish(mut self) {
        let limit = self.limit;
        match self.connection.take() {
            Some(Connection::Postgres(mut connection)) => bounded(limit, connection.return_to_pool()).await,
            Some(Connection::Sqlite(mut connection)) => bounded(limit, connection.return_to_pool()).await,
            None => {}
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        match self.connection.take() {
            Some(Connection::Postgres(connection)) => drop(connection.detach()),
            Some(Connection::Sqlite(connection)) => drop(connection.detach()),
            None => {}
        }
    }
}

/// The values of a statement in the form of one database.
fn arguments<DB: Database>(values: &[Bind<'_>]) -> Result<DB::Arguments, sqlx::Error>
where
    DB::Arguments: IntoArguments<DB> + Arguments<Database = DB>,
    for<'v> i64: Encode<'v, DB> + Type<DB>,
    for<'v> Option<i64>: Encode<'v, DB> + Type<DB>,
    for<'v> bool: Encode<'v, DB> + Type<DB>,
    for<'v> &'v str: Encode<'v, DB> + Type<DB>,
    for<'v> &'v [u8]: Encode<'v, DB> + Type<DB>,
{
    let mut arguments = DB::Arguments::default();
    for value in values {
        match *value {
            Bind::Int(value) => arguments.add(value),
            Bind::Text(value) => arguments.add(value),
            Bind::Bool(value) => arguments.add(value),
            Bind::Bytes(value) => arguments.add(value),
            Bind::OptionalInt(value) => arguments.add(value),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

/// Waits for an answer, not for ever.
pub(crate) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let text = format!("no answer from the database within {limit:?}");
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
    })
}

async fn bounded(limit: Duration, work: impl Future<Output = ()>) {
    if tokio::time::timeout(limit, work).await.is_err() {
        tracing::warn!(?limit, "a connection to the metastore fell silent and was closed");
    }
}
