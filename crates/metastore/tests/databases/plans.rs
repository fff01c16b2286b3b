//! Statements that run often use an index.

use sqlx::{Connection, PgConnection, Row, SqliteConnection};

use crate::fixture::{Fixture, on_postgres, on_sqlite};

const LISTING: &str = include_str!("../../src/segments_live.sql");

#[tokio::test]
async fn sqlite_lists_segments_by_index() {
    on_sqlite(async |fixture: Fixture| {
        fixture.open().await;
        let mut connection = SqliteConnection::connect(&fixture.url).await.unwrap();
        let sql = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {LISTING}"));
        let rows = sqlx::query(sql).bind(1_i64).fetch_all(&mut connection).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        assert_eq!(plan, ["SEARCH segments USING INDEX segments_live (collection=?)"]);
    })
    .await;
}

#[tokio::test]
async fn postgresql_lists_segments_by_index() {
    async fn rule(fixture: Fixture) {
        fixture.open().await;
        let mut connection = PgConnection::connect(&fixture.url).await.unwrap();
        // Two collections of many: without their statistics a small table is read whole, and rightly so.
        sqlx::raw_sql(
            "INSERT INTO segments (id, collection, name, partition_name, shard, object, row_count, byte_count, \
             checksum, statistics, created_at) \
             SELECT n, n % 500, 's' || n, 'p', 'h', 'o', 1, 1, '\\x00', '{}', 0 FROM generate_series(1, 50000) n; \
             ANALYZE segments",
        )
        .execute(&mut connection)
        .await
        .unwrap();
        let sql = sqlx::AssertSqlSafe(format!("EXPLAIN {LISTING}"));
        let rows = sqlx::query(sql).bind(1_i64).fetch_all(&mut connection).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("segments_live") && !plan.contains("Seq Scan"), "{plan}");
    }
    on_postgres(rule).await;
}
