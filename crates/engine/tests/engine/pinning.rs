//! Scans run where the router says, whatever the plan around them looks like.

use std::collections::BTreeSet;

use pointsman_ids::ErrorCode;

use crate::{cluster::Cluster, compare, shapes::SHAPES};

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
async fn queries_run_side_by_side() {
    let cluster = Cluster::tpch(3, 2);
    let plain = compare::plain(&cluster).await;
    let answers = (0..48).map(|n| compare::same(&cluster, &plain, SHAPES[n % SHAPES.len()]));
    futures::future::join_all(answers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_about_tables_join_collections_or_are_refused_clearly() {
    let cluster = Cluster::tpch(3, 2);
    let sql = "SELECT count(*) FROM region, information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(compare::rows(&cluster.run(sql).await.expect("rows")), ["40"]);
    // Here the planner would send the table about tables to nodes.
    let sql = "SELECT table_name FROM information_schema.tables JOIN region ON table_name = 'n' || lower('ATION') \
               WHERE r_name = 'ASIA'";
    let refused = cluster.run(sql).await.expect_err("it cannot be sent to nodes");
    assert_eq!(refused.code(), ErrorCode::SqlInvalid);
    assert!(refused.to_string().contains("information_schema"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_who_was_asked_for_what() {
    let mut cluster = Cluster::tpch(3, 2);
    let planned = cluster
        .plan("SELECT count(*) FROM lineitem JOIN orders ON l_orderkey = o_orderkey")
        .await
        .expect("a plan");
    let scans = planned.scans();
    let names: Vec<_> = scans.iter().map(|scan| scan.collection.name.as_str()).collect();
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

async fn explained(cluster: &Cluster, sql: &str) -> String {
    compare::rows(&cluster.run(&format!("EXPLAIN {sql}")).await.expect("rows")).join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_would_scan_nothing_are_not_sent() {
    let tasks = |plan: &str, scanned: &str| {
        let stage = plan.split("┌─────").find(|stage| stage.contains(scanned)).expect("a stage");
        stage.split_once("tasks=").and_then(|(_, rest)| rest.split_once(',')).expect("tasks").0.to_owned()
    };
    let sql = "SELECT n_name, count(*) FROM lineitem JOIN supplier ON l_suppkey = s_suppkey \
               JOIN nation ON s_nationkey = n_nationkey GROUP BY n_name";
    let plan = explained(&Cluster::tpch(3, 2), sql).await;
    assert_eq!(tasks(&plan, "nation/part-1"), "1", "{plan}");
    assert_eq!(tasks(&plan, "lineitem/part-1"), "3", "{plan}");
    let alone = Cluster::tpch(1, 1);
    let plan = explained(&alone, "SELECT count(*) FROM lineitem").await;
    assert_eq!(tasks(&plan, "lineitem/part-1"), "1", "{plan}");
    let plan =
        explained(&alone, "SELECT l_comment FROM lineitem WHERE l_orderkey = 1 AND l_orderkey = 2").await;
    assert!(!plan.contains("Stage"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn few_rows_are_put_together_by_the_broker() {
    let cluster = Cluster::tpch(3, 2);
    let stages = async |sql: &str| cluster.plan(sql).await.expect("a plan").stages();
    assert_eq!(stages("SELECT s_nationkey, count(*) FROM supplier GROUP BY s_nationkey").await, 1);
    assert_eq!(stages("SELECT l_comment, count(*) FROM lineitem GROUP BY l_comment").await, 2);
    // The branches of a union share their stage, and what they scan stays where it is.
    let united = "SELECT s_nationkey, count(*) FROM supplier GROUP BY s_nationkey \
                  UNION ALL SELECT n_nationkey, n_regionkey FROM nation";
    assert_eq!(stages(united).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_the_distributed_plan() {
    let cluster = Cluster::tpch(3, 2);
    let sql = "SELECT l_returnflag, count(*) FROM lineitem GROUP BY l_returnflag";
    let plan = explained(&cluster, sql).await;
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
