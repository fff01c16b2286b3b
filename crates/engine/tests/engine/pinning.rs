//! Scans run where the router says, whatever the plan around them looks like.

use std::collections::BTreeSet;

use pointsman_ids::ErrorCode;

use crate::{cluster::Cluster, compare};

/// Plans that would scan in the wrong place without care: one partition, one task, unions, single-task neighbours.
const SHAPES: [&str; 22] = [
    "SELECT * FROM nation",
    "SELECT count(*) FROM lineitem",
    "SELECT min(l_orderkey), max(l_shipdate) FROM lineitem",
    "SELECT * FROM region UNION ALL SELECT * FROM region",
    "SELECT n_name FROM nation UNION ALL SELECT s_name FROM supplier",
    "SELECT n_nationkey FROM nation UNION ALL VALUES (1), (2)",
    "SELECT n_nationkey FROM nation UNION ALL SELECT 1",
    "SELECT count(*) FROM nation FULL OUTER JOIN region ON n_regionkey > r_regionkey",
    "SELECT count(*) FROM nation FULL OUTER JOIN region ON n_regionkey = r_regionkey",
    "SELECT count(*) FROM nation, region",
    "SELECT n_name FROM nation WHERE n_regionkey NOT IN (SELECT r_regionkey FROM region WHERE r_name LIKE 'A%')",
    "SELECT n_name FROM nation EXCEPT SELECT n_name FROM nation WHERE n_regionkey = 1",
    "SELECT n_name FROM nation INTERSECT SELECT n_name FROM nation WHERE n_regionkey < 3",
    "SELECT o_orderkey FROM orders ORDER BY o_totalprice DESC, o_orderkey LIMIT 7",
    "SELECT o_orderpriority, count(DISTINCT o_custkey) FROM orders GROUP BY o_orderpriority",
    "SELECT o_orderpriority, o_orderstatus, count(*) FROM orders GROUP BY ROLLUP (o_orderpriority, o_orderstatus)",
    "SELECT s_nationkey, rank() OVER (PARTITION BY s_nationkey ORDER BY s_acctbal) FROM supplier",
    "SELECT s_suppkey FROM supplier LEFT JOIN nation ON s_nationkey = n_nationkey AND n_name = 'FRANCE'",
    "SELECT (SELECT max(r_regionkey) FROM region), n_name FROM nation",
    "SELECT stddev(l_quantity), avg(l_discount) FROM lineitem",
    "SELECT n_name, v.x FROM nation JOIN (VALUES (1, 'a'), (2, 'b')) AS v(k, x) ON n_nationkey = v.k",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_shape_of_plan_scans_on_nodes_and_is_right() {
    let cluster = Cluster::tpch(3, 2);
    let plain = compare::plain(&cluster).await;
    for sql in SHAPES {
        compare::same(&cluster, &plain, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shape_works_with_one_node_too() {
    let cluster = Cluster::tpch(1, 1);
    let plain = compare::plain(&cluster).await;
    for sql in SHAPES {
        compare::same(&cluster, &plain, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_who_was_asked_for_what() {
    let mut cluster = Cluster::tpch(3, 2);
    let planned = cluster
        .plan("SELECT count(*) FROM lineitem JOIN orders ON l_orderkey = o_orderkey")
        .await
        .expect("a plan");
    let names: Vec<_> = planned.scans().iter().map(|scan| scan.collection.name.as_str()).collect();
    assert_eq!(names, ["lineitem", "orders"]);
    assert_eq!(planned.scans()[0].asked, [0, 1, 2, 3, 4, 5]);
    assert_eq!(planned.total_rows(), 60_175 + 15_000);
    assert_eq!(planned.nodes().len(), 3);
    assert!(planned.stages() > 1);

    cluster.router.excluded = BTreeSet::from([0, 1]);
    let planned = cluster.plan("SELECT count(*) FROM lineitem").await.expect("a plan");
    let scan = &planned.scans()[0];
    let served: usize = scan.parts.iter().map(|part| part.segments.len()).sum();
    assert_eq!((served, scan.unavailable.len()), (4, 2));
    assert_eq!(planned.nodes(), [cluster.nodes[2].url.clone()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_whose_segments_all_lack_a_node_is_empty() {
    let mut cluster = Cluster::tpch(2, 1);
    cluster.router.excluded = BTreeSet::from([0, 1]);
    let planned = cluster.plan("SELECT * FROM lineitem").await.expect("a plan");
    assert!(planned.nodes().is_empty() && planned.stages() == 0);
    assert_eq!(compare::rows(&cluster.run("SELECT count(*) FROM lineitem").await.expect("rows")), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn recursion_over_collections_is_refused_when_it_is_planned() {
    let cluster = Cluster::tpch(1, 1);
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n JOIN region ON i = r_regionkey) SELECT * FROM n";
    let refused = cluster.run(sql).await.expect_err("must be refused");
    assert_eq!(refused.code(), ErrorCode::SqlInvalid);
    assert!(refused.to_string().contains("recursive"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_the_distributed_plan() {
    let cluster = Cluster::tpch(3, 2);
    let sql = "SELECT l_returnflag, count(*) FROM lineitem GROUP BY l_returnflag";
    let plan = compare::rows(&cluster.run(&format!("EXPLAIN {sql}")).await.expect("rows")).join("\n");
    for part in
        ["logical_plan", "DistributedExec", "NetworkShuffleExec", "t2: DataSourceExec", "lineitem/part-1"]
    {
        assert!(plan.contains(part), "{part} is not in\n{plan}");
    }
    let analyzed =
        compare::rows(&cluster.run(&format!("EXPLAIN ANALYZE {sql}")).await.expect("rows")).join("\n");
    assert!(analyzed.contains("output_rows") && analyzed.contains("DistributedExec"), "{analyzed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn scanned_rows_are_counted() {
    use futures::TryStreamExt;
    let cluster = Cluster::tpch(3, 2);
    let planned = cluster.plan("SELECT sum(l_quantity) FROM lineitem").await.expect("a plan");
    let rows: Vec<_> = planned.execute().expect("rows").try_collect().await.expect("rows");
    assert_eq!(rows.len(), 1);
    assert_eq!(planned.scanned_rows(std::time::Duration::from_secs(5)).await, Some(60_175));
}
