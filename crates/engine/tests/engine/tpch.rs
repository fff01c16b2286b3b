//! All 22 queries.

use pointsman_engine::tpch;

use crate::{cluster::Cluster, compare};

#[tokio::test(flavor = "multi_thread")]
async fn all_queries_are_answered_as_by_plain_datafusion() {
    let mut cluster = Cluster::tpch(3, 2);
    let plain = compare::plain(&cluster).await;
    for number in 1..=22 {
        cluster.router.turn = number;
        compare::same(&cluster, &plain, tpch::query(number).expect("a query")).await;
    }
    for node in &cluster.nodes {
        let strangers: Vec<_> = node.store.opened().difference(&node.store.held()).copied().collect();
        assert!(strangers.is_empty(), "{} was asked for {strangers:?}, which it does not hold", node.key);
        assert!(!node.store.opened().is_empty(), "{} was never asked", node.key);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_answers_alone() {
    let cluster = Cluster::tpch(1, 1);
    let plain = compare::plain(&cluster).await;
    for number in [1, 2, 6, 13, 15, 21] {
        compare::same(&cluster, &plain, tpch::query(number).expect("a query")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_merges_alone_when_no_node_takes_upper_stages() {
    let mut cluster = Cluster::tpch(3, 2);
    cluster.router.stages = false;
    let plain = compare::plain(&cluster).await;
    for number in [1, 3, 6, 13, 16, 18, 22] {
        let sql = tpch::query(number).expect("a query");
        compare::same(&cluster, &plain, sql).await;
        assert_eq!(cluster.plan(sql).await.expect("a plan").stages(), 1);
    }
}
