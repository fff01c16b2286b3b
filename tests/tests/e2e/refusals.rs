//! No SQL text ends a process, and no statement reads anything but segments.

use pointsman_testkit::is_alive;
use serde_json::json;

/// SQ-1: each of these is refused with a code and a text, and the broker answers on.
#[test]
fn refused_statements_leave_the_broker_alive() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    let sql = cluster.sql();
    let pid = cluster.ready().broker.pid;
    let long_sum = format!("SELECT {} FROM region", vec!["1"; 20_000].join(" + "));
    let deep = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    let long_list =
        format!("SELECT count(*) FROM region WHERE r_regionkey IN ({})", vec!["1"; 20_000].join(","));
    let unions = vec!["SELECT 1"; 2_000].join(" UNION ALL ");
    let wide = format!("SELECT {} FROM region", vec!["r_name"; 5_000].join(", "));
    let huge = format!("SELECT '{}'", "x".repeat(300 * 1024));
    for statement in [
        long_sum.as_str(),
        &deep,
        &long_list,
        &unions,
        &wide,
        &huge,
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM 'http://127.0.0.1:1/x.parquet'",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "CREATE TABLE t AS SELECT 1",
        "COPY (SELECT 1) TO '/tmp/pointsman-copied.csv'",
        "INSERT INTO region SELECT * FROM region",
        "DROP TABLE region",
        "SELECT",
        "SELECT 1; SELECT 2",
        "-- nothing",
    ] {
        let answer = sql.ask(statement)?;
        let start: String = statement.chars().take(60).collect();
        assert!(answer.code().is_some(), "not refused: {start}");
        assert!(answer.result_table.is_none(), "rows for {start}");
        assert!(is_alive(pid), "the broker ended at {start}");
        assert_eq!(sql.query("SELECT count(*) FROM region")?.rows()?, [vec![json!(5)]], "after {start}");
    }
    assert!(!std::path::Path::new("/tmp/pointsman-copied.csv").exists());
    Ok(())
}

/// What is wrong with a request has the code that clients know.
#[test]
fn wrong_requests_have_their_codes() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    let sql = cluster.sql();
    for (statement, code) in
        [("SELECT * FROM nowhere", 190), ("SELECT no_such_column FROM region", 710), ("SELEC 1", 150)]
    {
        assert_eq!(sql.ask(statement)?.code(), Some(code), "{statement}");
    }
    assert_eq!(sql.post("/query/sql", "no json")?.0, 400);
    assert_eq!(sql.post("/query/sql", "{}")?.0, 400);
    assert_eq!(sql.get("/health")?.0, 200);
    assert_eq!(sql.get("/ready")?.0, 200);
    let (status, metrics) = sql.get("/metrics")?;
    assert!(status == 200 && metrics.contains("# TYPE"), "{status} {metrics}");
    Ok(())
}
