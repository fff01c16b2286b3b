//! The connections to a database, and how calls begin.

use std::fmt;

use pointsman_ids::Epoch;
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

use crate::{
    Error, OpenOptions, Result,
    server::{Server, is_another},
    session::{Connection, Session},
    stored::{Origin, int},
};

/// The metastore on either database.
pub(crate) struct Store {
    pools: Pools,
    options: OpenOptions,
    /// Its URL without a password.
    name: String,
    pub(crate) server: Server,
}

/// Connections that wait for work.
pub(crate) enum Pools {
    Postgres(PgPool),
    /// One connection writes, so that writers queue here, in order, and not inside SQLite.
    Sqlite {
        reader: SqlitePool,
        writer: SqlitePool,
    },
}

impl Store {
    pub(crate) fn new(pools: Pools, options: OpenOptions, name: String, server: Server) -> Self {
        Self { pools, options, name, server }
    }

    /// A session for one statement that only reads.
    pub(crate) async fn reading(&self) -> Result<Session> {
        let connection = match &self.pools {
            Pools::Postgres(pool) => pool.acquire().await.map(Connection::Postgres),
            Pools::Sqlite { reader, .. } => reader.acquire().await.map(Connection::Sqlite),
        };
        Ok(Session::new(connection.map_err(Error::Unavailable)?, self.options.statement))
    }

    /// A session inside a transaction in which everything is as it was at one moment.
    pub(crate) async fn snapshot(&self) -> Result<Session> {
        let mut session = self.reading().await?;
        session.control(session.dialect().begin_snapshot).await.map_err(Error::of_statement)?;
        Ok(session)
    }

    /// A session inside a transaction that may write the lease, and nothing else.
    pub(crate) async fn transaction(&self) -> Result<Session> {
        let connection = match &self.pools {
            Pools::Postgres(pool) => pool.acquire().await.map(Connection::Postgres),
            Pools::Sqlite { writer, .. } => writer.acquire().await.map(Connection::Sqlite),
        };
        let mut session = Session::new(connection.map_err(Error::Unavailable)?, self.options.statement);
        session.control(session.dialect().begin).await.map_err(Error::of_statement)?;
        Ok(session)
    }

    /// A session inside a transaction of the holder of the lease. Nobody else writes until it ends, and nobody takes
    /// the lease over.
    pub(crate) async fn writing(&self, epoch: Epoch) -> Result<Session> {
        let ours = int("the epoch", epoch.0)?;
        let mut session = self.transaction().await?;
        if let Some(take_turn) = session.dialect().take_turn {
            session.control(take_turn).await.map_err(Error::of_statement)?;
        }
        let sql = format!(
            "SELECT epoch, server, {} FROM lease{}",
            self.server.expression,
            session.dialect().shared
        );
        let row: Option<(i64, String, String)> = session.row("lease", AssertSqlSafe(sql), &[]).await?;
        let (newest, before, now) = row.ok_or_else(no_lease_row)?;
        if newest != ours {
            let newest = Epoch(Origin::new("lease", "the only one").number("epoch", newest)?);
            return Err(session.refuse(Error::Fenced { ours: epoch, newest }).await);
        }
        if is_another(&before, &now) {
            return Err(session.refuse(Error::AnotherServer { before, now }).await);
        }
        Ok(session.revising())
    }
}

/// The lease's row, which the first migration wrote, is gone.
pub(crate) fn no_lease_row() -> Error {
    Error::Corrupt { table: "lease", what: "its only row is missing".into() }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
