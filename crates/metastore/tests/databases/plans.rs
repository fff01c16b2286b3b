//! Statements find rows by index: every one that asks by a value, taken out of the sources, is explained by both
//! databases.

use std::{fs, path::Path};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row, SqliteConnection};

use crate::fixture::{Fixture, on_postgres, on_sqlite};

/// Tables that are read whole, since they have one row, a few, or one batch.
const WHOLE: [&str; 3] = ["lease", "stop_leases", "pushed_segments"];

/// The statements of the metastore that have a value, and the one that makes the connection's own table.
fn statements() -> (Vec<String>, String) {
    let mut texts = Vec::new();
    read(&Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("src"), &mut texts);
    let table = texts.iter().find(|text| text.starts_with("CREATE TEMPORARY TABLE")).cloned();
    let verbs = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
    texts.retain(|text| verbs.iter().any(|verb| text.starts_with(verb)) && text.contains("$1"));
    // What is put together from parts is about tables of one row, or a handful.
    texts.retain(|text| {
        !text.contains('{') || !["lease", "counters"].iter().any(|table| text.contains(table))
    });
    let parts: Vec<_> = texts.iter().filter(|text| text.contains('{')).collect();
    assert!(parts.is_empty(), "these cannot be explained: {parts:?}");
    assert!(texts.len() > 30, "statements are missing: {texts:?}");
    (texts, table.expect("the table of pushes"))
}

/// Texts in the sources below a folder; those of backups read whole tables and are left out.
fn read(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let content = || fs::read_to_string(&path).unwrap();
        match path.extension().and_then(|extension| extension.to_str()) {
            None if path.ends_with("backup") => {}
            None => read(&path, into),
            Some("sql") => into.push(content()),
            _ => into.extend(literals(&content())),
        }
    }
}

/// The texts between quotation marks, as the compiler reads them.
fn literals(source: &str) -> Vec<String> {
    let (mut literals, mut rest) = (Vec::new(), source.chars().peekable());
    let mut open: Option<String> = None;
    let mut comment = false;
    while let Some(c) = rest.next() {
        match (&mut open, c) {
            (Some(text), '\\') => match rest.next() {
                Some('\n') => while rest.next_if(|c| c.is_whitespace()).is_some() {},
                Some(escaped) => text.push(escaped),
                None => {}
            },
            (Some(_), '"') => literals.extend(open.take()),
            (Some(text), c) => text.push(c),
            (None, '\n') => comment = false,
            (None, '/') if rest.peek() == Some(&'/') => comment = true,
            (None, '\'') if rest.peek() == Some(&'"') => drop(rest.next()),
            (None, '"') if !comment => open = Some(String::new()),
            (None, _) => {}
        }
    }
    literals
}

#[test]
fn literals_are_read_as_the_compiler_does() {
    let source = "a(\"x \\\"y\\\" \\\n      z\", '\"'); // \"no\n b(\"SELECT 1\")";
    assert_eq!(literals(source), ["x \"y\" z", "SELECT 1"]);
}

/// How SQLite finds the rows; `None` when it does not know the statement.
async fn sqlite_plan(connection: &mut SqliteConnection, sql: &str) -> Option<Vec<String>> {
    let explain = format!("EXPLAIN QUERY PLAN {sql}");
    let rows = sqlx::query(AssertSqlSafe(explain)).fetch_all(connection).await.ok()?;
    Some(rows.iter().map(|row| row.get("detail")).collect())
}

/// How PostgreSQL finds the rows, whatever the values; `None` when it does not know the statement.
async fn postgres_plan(connection: &mut PgConnection, sql: &str) -> Option<String> {
    let prepare = format!("DEALLOCATE ALL; PREPARE explained AS {sql}");
    connection.execute(sqlx::raw_sql(AssertSqlSafe(prepare))).await.ok()?;
    let count = (1..20).filter(|number| sql.contains(&format!("${number}"))).count();
    let explain = format!("EXPLAIN EXECUTE explained({})", vec!["NULL"; count].join(", "));
    let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(connection).await.unwrap();
    Some(rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n"))
}

/// Tables that a plan reads whole and should not.
fn read_whole<'p>(plan: impl IntoIterator<Item = &'p str>, mark: &str) -> Vec<&'p str> {
    let scanned = plan.into_iter().filter_map(|line| line.split(mark).nth(1)?.split(' ').next());
    scanned.filter(|table| !WHOLE.contains(table) && !table.starts_with("json_")).collect()
}

#[tokio::test]
async fn both_databases_find_rows_by_index() {
    async fn rule(postgres: Fixture) {
        let (statements, table) = statements();
        postgres.open().await;
        let mut postgres = PgConnection::connect(&postgres.url).await.unwrap();
        // Of an empty table any plan is a good one; this asks whether there is an index at all.
        postgres.execute("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off").await.unwrap();
        postgres.execute(sqlx::raw_sql(AssertSqlSafe(table))).await.unwrap();
        on_sqlite(async |sqlite: Fixture| {
            sqlite.open().await;
            let mut sqlite = SqliteConnection::connect(&sqlite.url).await.unwrap();
            for sql in statements {
                let plans = (postgres_plan(&mut postgres, &sql).await, sqlite_plan(&mut sqlite, &sql).await);
                let (postgres, sqlite) = &plans;
                assert!(postgres.is_some() || sqlite.is_some(), "neither database knows: {sql}");
                let whole = read_whole(postgres.iter().flat_map(|plan| plan.lines()), "Seq Scan on ");
                assert!(whole.is_empty(), "PostgreSQL reads {whole:?} whole: {sql}\n{plans:?}");
                let whole = read_whole(sqlite.iter().flatten().map(String::as_str), "SCAN ");
                assert!(whole.is_empty(), "SQLite reads {whole:?} whole: {sql}\n{plans:?}");
            }
        })
        .await;
    }
    on_postgres(rule).await;
}

/// Whatever the server guesses about a table that has many rows and just grew.
#[tokio::test]
async fn postgresql_finds_segments_among_many_by_index() {
    async fn rule(fixture: Fixture) {
        fixture.open().await;
        let (statements, table) = statements();
        let mut connection = PgConnection::connect(&fixture.url).await.unwrap();
        connection.execute(sqlx::raw_sql(AssertSqlSafe(table))).await.unwrap();
        // Many collections of few: one that is most of its table is read whole, and rightly so.
        sqlx::raw_sql(
            "SET plan_cache_mode = force_generic_plan; \
             INSERT INTO segments (id, collection, name, partition_name, shard, object, row_count, byte_count, \
             checksum, statistics, created_at) \
             SELECT n, n % 500, 's' || n, 'p', 'h', 'o', 1, 1, '\\x00', '{}', 0 FROM generate_series(1, 50000) n; \
             INSERT INTO pushed_segments (position, name) SELECT n, 's' || n FROM generate_series(1, 20000) n; \
             ANALYZE segments",
        )
        .execute(&mut connection)
        .await
        .unwrap();
        let mut explained = 0;
        for sql in statements.iter().filter(|sql| sql.contains("segments")) {
            let Some(plan) = postgres_plan(&mut connection, sql).await else { continue };
            explained += 1;
            let whole = read_whole(plan.lines(), "Seq Scan on ");
            assert!(whole.is_empty(), "{sql}\n{plan}");
        }
        assert!(explained >= 7, "{explained}");
    }
    on_postgres(rule).await;
}
