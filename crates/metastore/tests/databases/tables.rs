//! Tables of either database, as a program sees them that knows nothing of ours.

use std::collections::BTreeMap;

use sqlx::{
    AssertSqlSafe, Column as _, Connection, Executor, PgConnection, Row, SqliteConnection, TypeInfo as _,
    ValueRef as _,
};

use crate::fixture::Fixture;

/// Rows by table, each value as text; truth values as 0 and 1, bytes as hexadecimal digits.
pub(crate) type Content = BTreeMap<String, Vec<Vec<String>>>;

/// A column: name, and whether it takes numbers, texts, bytes or truth values.
pub(crate) type Columns = BTreeMap<String, String>;

const OURS: &str = "_sqlx_migrations";

/// The columns of every table.
pub(crate) async fn columns(fixture: &Fixture) -> BTreeMap<String, Columns> {
    let sqlite = "SELECT m.name, c.name, c.type FROM sqlite_master m, pragma_table_info(m.name) c \
                  WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'";
    let postgres = "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), CAST(data_type AS TEXT) \
                    FROM information_schema.columns WHERE table_schema = 'public'";
    let rows: Vec<(String, String, String)> = if fixture.is_sqlite() {
        let mut connection = SqliteConnection::connect(&fixture.url).await.unwrap();
        sqlx::query_as(sqlite).fetch_all(&mut connection).await.unwrap()
    } else {
        let mut connection = PgConnection::connect(&fixture.url).await.unwrap();
        sqlx::query_as(postgres).fetch_all(&mut connection).await.unwrap()
    };
    let mut tables = BTreeMap::<String, Columns>::new();
    for (table, column, kind) in rows.into_iter().filter(|(table, ..)| table != OURS) {
        tables.entry(table).or_default().insert(column, kind.to_lowercase());
    }
    tables
}

/// What every table holds.
pub(crate) async fn content(fixture: &Fixture) -> Content {
    let mut content = Content::new();
    for (table, columns) in columns(fixture).await {
        let names: Vec<String> = columns.into_keys().collect();
        let sql = AssertSqlSafe(format!("SELECT {} FROM {table}", names.join(", ")));
        let mut rows: Vec<Vec<String>> = if fixture.is_sqlite() {
            let mut connection = SqliteConnection::connect(&fixture.url).await.unwrap();
            let rows = connection.fetch_all(sqlx::raw_sql(sql)).await.unwrap();
            rows.iter().map(|row| (0..names.len()).map(|at| sqlite(row, at)).collect()).collect()
        } else {
            let mut connection = PgConnection::connect(&fixture.url).await.unwrap();
            let rows = connection.fetch_all(sqlx::query(sql)).await.unwrap();
            rows.iter().map(|row| (0..names.len()).map(|at| postgres(row, at)).collect()).collect()
        };
        rows.sort();
        content.insert(table, rows);
    }
    content
}

fn sqlite(row: &sqlx::sqlite::SqliteRow, at: usize) -> String {
    let value = row.try_get_raw(at).unwrap();
    match value.type_info().name() {
        _ if value.is_null() => "NULL".into(),
        "INTEGER" => row.get::<i64, _>(at).to_string(),
        "BLOB" => hex::encode(row.get::<Vec<u8>, _>(at)),
        _ => row.get(at),
    }
}

fn postgres(row: &sqlx::postgres::PgRow, at: usize) -> String {
    let value = row.try_get_raw(at).unwrap();
    match row.column(at).type_info().name() {
        _ if value.is_null() => "NULL".into(),
        "INT8" => row.get::<i64, _>(at).to_string(),
        "BOOL" => u8::from(row.get::<bool, _>(at)).to_string(),
        "BYTEA" => hex::encode(row.get::<Vec<u8>, _>(at)),
        _ => row.get(at),
    }
}

/// Columns of an SQLite table in which no two rows are the same, or that refer to another table.
async fn keys(fixture: &Fixture, table: &str) -> Vec<String> {
    if !fixture.is_sqlite() {
        return Vec::new();
    }
    let mut connection = SqliteConnection::connect(&fixture.url).await.unwrap();
    let sql = "SELECT name FROM pragma_table_info($1) WHERE pk > 0 UNION SELECT i.name \
               FROM pragma_index_list($1) l, pragma_index_info(l.name) i WHERE l.\"unique\" \
               UNION SELECT \"from\" FROM pragma_foreign_key_list($1)";
    sqlx::query_scalar(sql).bind(table).fetch_all(&mut connection).await.unwrap()
}

/// Puts two rows more into every table, whatever its columns mean; into those that take no more, nothing.
pub(crate) async fn fill(fixture: &Fixture) {
    for (table, columns) in columns(fixture).await {
        let keys = keys(fixture, &table).await;
        for number in [101, 102] {
            let value = |(column, kind): (&String, &String)| match kind.as_str() {
                // It may be a truth value, which SQLite does not know.
                "integer" if !keys.contains(column) => "1".into(),
                "bigint" | "integer" => number.to_string(),
                "boolean" => "TRUE".into(),
                "bytea" => format!("'\\x00ff{number}0'"),
                "blob" => format!("x'00ff{number}0'"),
                "text" => format!("'{column} \"{number}\" \\N\t\n ö'"),
                other => panic!("column {column} of {table}: {other}"),
            };
            let values: Vec<String> = columns.iter().map(value).collect();
            let names: Vec<&str> = columns.keys().map(String::as_str).collect();
            let sql = format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), values.join(", "));
            if fixture.is_sqlite() {
                let mut connection = SqliteConnection::connect(&fixture.url).await.unwrap();
                let sql = format!("PRAGMA foreign_keys = OFF; {sql}");
                let _full = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await;
            } else {
                let mut connection = PgConnection::connect(&fixture.url).await.unwrap();
                let sql = format!("SET session_replication_role = replica; {sql}");
                let _full = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await;
            }
        }
    }
}
