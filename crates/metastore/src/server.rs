//! Which server the database is, so that a failover is noticed that may have lost the newest changes.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection};

use crate::session::within;

/// How a statement asks which server it runs on. The answer is a text; the empty one says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// An expression of SQL.
    pub(crate) expression: &'static str,
}

/// PostgreSQL: which cluster it is, and which timeline of it, which is another one after each promotion. What the control
/// file says of the timeline is late by a checkpoint; the name of the file that is written now is not.
const WHOLE: Server = Server {
    expression: "(SELECT system_identifier FROM pg_control_system()) || '/' || \
                 left(pg_walfile_name(pg_current_wal_lsn()), 8)",
};

const TIMELINE: Server = Server { expression: "'?/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)" };

impl Server {
    /// It cannot be asked, or there is none.
    pub(crate) const UNKNOWN: Self = Self { expression: "''" };

    /// What this server tells to our user. Every user may ask by default; where that was taken away, or where the server
    /// only looks like PostgreSQL, less is noticed.
    pub(crate) async fn of(connection: &mut PgConnection, limit: Duration) -> Self {
        let Err(whole) = Self::ask(connection, WHOLE, limit).await else { return WHOLE };
        let Err(timeline) = Self::ask(connection, TIMELINE, limit).await else {
            tracing::warn!(
                why = %whole,
                "the metastore does not tell which server it is: another one in its place is only noticed by the number of \
                 its timeline (GRANT EXECUTE ON FUNCTION pg_control_system() TO its user)"
            );
            return TIMELINE;
        };
        tracing::warn!(
            why = %timeline,
            "the metastore does not tell which server it is: a failover that loses the newest changes is only noticed by what \
             nodes and brokers have seen (GRANT EXECUTE ON FUNCTION pg_control_system(), pg_walfile_name(pg_lsn), \
             pg_current_wal_lsn() TO its user)"
        );
        Self::UNKNOWN
    }

    async fn ask(connection: &mut PgConnection, server: Self, limit: Duration) -> Result<(), sqlx::Error> {
        let sql = AssertSqlSafe(format!("SELECT {}", server.expression));
        within(limit, sqlx::query_scalar::<_, String>(sql).fetch_one(connection)).await.map(drop)
    }
}

/// Whether a server is certainly another one. One that does not tell is the same.
pub(crate) fn is_another(before: &str, now: &str) -> bool {
    !before.is_empty() && !now.is_empty() && before != now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_tell_is_the_same() {
        assert!(is_another("7/00000001", "7/00000002") && is_another("7/00000001", "8/00000001"));
        assert!(!is_another("7/00000001", "7/00000001") && !is_another("", "7/1") && !is_another("7/1", ""));
    }
}
