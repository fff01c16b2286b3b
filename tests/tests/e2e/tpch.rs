//! Answers are right.

use anyhow::Context;
use pointsman_bench::Plain;
use pointsman_engine::tpch;
use pointsman_testkit::comparable;

/// Every query of TPC-H has the same rows through the cluster as in plain DataFusion over the same files.
#[test]
fn all_queries_of_tpch_equal_plain_datafusion() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let plain = runtime.block_on(Plain::open(&cluster.data_dir().join("objects"), 2))?;
    let sql = cluster.sql();
    let mut different = Vec::new();
    for number in 1..=22 {
        let query = tpch::query(number).context("TPC-H has 22 queries")?;
        let right = comparable(runtime.block_on(plain.rows(query))?);
        let rows = sql.query(query).with_context(|| format!("query {number}"))?.comparable()?;
        if rows != right {
            different.push(format!("query {number}: {rows:?} instead of {right:?}"));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
    Ok(())
}

/// Names of tables, columns and plans are there for the client that looks around.
#[test]
fn the_catalog_and_the_plan_can_be_read_by_sql() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    let sql = cluster.sql();
    let text = |query: &str| anyhow::Ok(sql.query(query)?.comparable()?.join("\n"));
    let tables = text("SHOW TABLES")?;
    for table in tpch::TABLES {
        assert!(tables.contains(table), "{tables}");
    }
    let columns = text("SELECT column_name FROM information_schema.columns WHERE table_name = 'region'")?;
    assert!(columns.contains("r_regionkey") && columns.contains("r_name"), "{columns}");
    let plan = text("EXPLAIN SELECT l_returnflag, count(*) FROM lineitem GROUP BY l_returnflag")?;
    assert!(plan.contains("Stage"), "{plan}");
    // Statistics leave out what cannot match; nothing is asked then, and the answer is whole.
    let answer = sql.query("SELECT count(*) FROM orders WHERE o_orderkey < 0")?;
    assert_eq!((answer.comparable()?, answer.num_segments_queried), (comparable([vec!["0".to_owned()]]), 0));
    Ok(())
}
