//! What texts may say.

use std::time::{Duration, Instant};

use pointsman_engine::Statement;
use pointsman_ids::ErrorCode;

use crate::{cluster::Cluster, compare};

#[test]
fn statements_that_do_not_just_read_collections_are_refused() {
    for sql in [
        "",
        ";",
        "SELECT 1; SELECT 2",
        "INSERT INTO nation VALUES (1)",
        "UPDATE nation SET n_name = 'x'",
        "DELETE FROM nation",
        "DROP TABLE nation",
        "CREATE TABLE t AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/etc'",
        "COPY nation TO '/tmp/nation.parquet'",
        "COPY (SELECT 1) TO 'x.csv'",
        "EXPLAIN COPY nation TO '/tmp/x'",
        "EXPLAIN INSERT INTO nation VALUES (1)",
        "EXPLAIN ANALYZE EXPLAIN SELECT 1",
        "SET datafusion.execution.batch_size = 1",
        "RESET datafusion.execution.batch_size",
        "SHOW ALL",
        "SHOW datafusion.execution.batch_size",
        "PREPARE p AS SELECT 1",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM \"/etc/passwd\"",
        "SELECT * FROM 'http://127.0.0.1/x.parquet'",
        "SELECT * FROM \"s3://bucket/x.parquet\"",
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM other.nation",
        "SELECT * INTO t FROM nation",
        "SELECT * FROM nation FOR UPDATE",
        "WITH x AS (SELECT 1) INSERT INTO nation SELECT * FROM x",
        "BEGIN",
        "SELECT",
        "SELEKT 1",
    ] {
        let refused = Statement::check(sql).expect_err(sql);
        assert_eq!(refused.code(), ErrorCode::SqlInvalid, "{sql}: {refused}");
        assert!(!refused.message().is_empty());
    }
}

#[test]
fn collections_are_named() {
    let names = |sql: &str| {
        Statement::check(sql).expect(sql).collections().iter().cloned().collect::<Vec<_>>().join(",")
    };
    assert_eq!(names("WITH a AS (SELECT * FROM Orders) SELECT * FROM a, public.nation"), "nation,orders");
    assert_eq!(names("SELECT * FROM information_schema.tables"), "");
    assert_eq!(
        names(
            "SELECT * FROM generate_series(1, 3), region WHERE r_regionkey IN (SELECT n_regionkey FROM nation)"
        ),
        "nation,region"
    );
    assert_eq!(names("SHOW COLUMNS FROM nation"), "nation");
    assert_eq!(names("EXPLAIN SELECT * FROM nation"), "nation");
    assert_eq!(names("SELECT 1"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_have_their_own_codes() {
    let cluster = Cluster::tpch(1, 1);
    for (sql, code, name) in [
        ("SELECT * FROM nations", ErrorCode::CollectionNotFound, "nations"),
        ("SHOW COLUMNS FROM nations", ErrorCode::CollectionNotFound, "nations"),
        ("SELECT n_nam FROM nation", ErrorCode::ColumnNotFound, "n_nam"),
        ("SELECT * FROM nation WHERE nation.x = 1", ErrorCode::ColumnNotFound, "x"),
        ("SELECT nope(n_name) FROM nation", ErrorCode::SqlInvalid, "nope"),
        ("SELECT n_name, count(*) FROM nation", ErrorCode::SqlInvalid, "n_name"),
    ] {
        let refused = cluster.run(sql).await.expect_err(sql);
        assert_eq!(refused.code(), code, "{sql}: {refused}");
        assert!(refused.to_string().contains(name), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_columns_are_listed() {
    let cluster = Cluster::tpch(1, 1);
    let tables = compare::rows(&cluster.run("SHOW TABLES").await.expect("rows")).join("\n");
    assert!(tables.contains("pointsman|public|lineitem|BASE TABLE"), "{tables}");
    let columns = compare::rows(&cluster.run("SHOW COLUMNS FROM nation").await.expect("rows")).join("\n");
    assert!(columns.contains("n_nationkey|Int64"), "{columns}");
    let sql = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'region'";
    assert_eq!(compare::rows(&cluster.run(sql).await.expect("rows")), ["3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_ends_the_process_or_takes_long() {
    let cluster = Cluster::tpch(2, 1);
    let begun = Instant::now();
    let nested = |n: usize| format!("SELECT {}n_nationkey{} FROM nation", "(".repeat(n), ")".repeat(n));
    let subqueries = |n: usize| {
        (0..n)
            .fold("SELECT n_nationkey FROM nation".to_owned(), |sql, _| format!("SELECT * FROM ({sql}) AS t"))
    };
    let texts = [
        format!("SELECT {}", vec!["n_nationkey"; 2_000].join(" + ")),
        format!("SELECT 1{}", "+1".repeat(24_000)),
        nested(5_000),
        subqueries(5_000),
        format!("SELECT 1 WHERE 1 IN ({})", vec!["1"; 20_000].join(",")),
        format!("SELECT {} FROM nation", vec!["1"; 5_000].join(",")),
        vec!["SELECT 1"; 600].join(" UNION ALL "),
        format!(
            "SELECT 1 FROM nation {}",
            (0..70).map(|n| format!("CROSS JOIN nation n{n} ")).collect::<String>()
        ),
        format!("SELECT 1 FROM nation{}", (0..70).map(|n| format!(", nation n{n}")).collect::<String>()),
        "SELECT ".repeat(20_000),
        "WITH a AS (".repeat(5_000),
        "(".repeat(100_000),
        format!("SELECT {}1", "NOT ".repeat(20_000)),
        format!("SELECT {}1", "-".repeat(2) + &"+ ".repeat(20_000)),
        format!("SELECT CAST(1 AS {}INT{})", "ARRAY<".repeat(5_000), ">".repeat(5_000)),
        format!("SELECT {}", "CASE WHEN true THEN ".repeat(5_000)),
    ];
    for sql in &texts {
        let refused = cluster.run(sql).await.expect_err(&sql[..60]);
        assert_eq!(refused.code(), ErrorCode::SqlInvalid, "{refused}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_within_the_limits_runs() {
    let cluster = Cluster::tpch(2, 1);
    let answer =
        async |sql: &str| compare::rows(&cluster.run(sql).await.unwrap_or_else(|error| panic!("{error}")));
    let chain = vec!["n_nationkey"; 150].join(" + ");
    assert_eq!(answer(&format!("SELECT {chain} FROM nation WHERE n_nationkey = 1")).await, ["150"]);
    let terms =
        (0..200).map(|n| format!("n_nationkey = {n} AND n_regionkey < 9")).collect::<Vec<_>>().join(" OR ");
    assert_eq!(answer(&format!("SELECT count(*) FROM nation WHERE {terms}")).await, ["25"]);
    let list = (0..10_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(answer(&format!("SELECT count(*) FROM nation WHERE n_nationkey IN ({list})")).await, ["25"]);
    let nested = format!("SELECT {}1{} FROM region WHERE r_regionkey = 1", "(".repeat(99), ")".repeat(99));
    assert_eq!(answer(&nested).await, ["1"]);
    let subqueries =
        (0..90).fold("SELECT * FROM region".to_owned(), |sql, _| format!("SELECT * FROM ({sql}) AS t"));
    assert_eq!(answer(&subqueries).await.len(), 5);
    let union = vec!["SELECT r_regionkey FROM region"; 40].join(" UNION ALL ");
    assert_eq!(answer(&union).await.len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_too_deep_for_the_wire_is_the_texts_fault() {
    let cluster = Cluster::tpch(2, 1);
    let sql = format!("SELECT {}n_nationkey{} FROM nation", "abs(".repeat(95), ")".repeat(95));
    let refused = cluster.run(&sql).await.expect_err("too deep");
    assert_eq!(refused.code(), ErrorCode::SqlInvalid, "{refused}");
}
