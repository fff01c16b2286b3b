//! Whose fault it was, and what happens to the work of others.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use datafusion::{
    arrow::datatypes::{DataType, Field, Schema},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileScanConfigBuilder, ParquetSource},
        source::DataSourceExec,
    },
    execution::{SessionStateBuilder, object_store::ObjectStoreUrl},
    physical_plan::{ExecutionPlan, execute_stream},
    prelude::{SessionConfig, SessionContext},
};
use datafusion_distributed::{DistributedExec, DistributedExt, NetworkCoalesceExec, SessionStateBuilderExt};
use futures::{StreamExt, TryStreamExt};
use pointsman_engine::{EngineSettings, QueryError, WorkerSettings};
use pointsman_ids::ErrorCode;
use url::Url;

use crate::{
    cluster::{Cluster, Node},
    compare, data,
};

const SCAN: &str = "SELECT count(*), sum(l_quantity) FROM lineitem";

/// Waits until the condition holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_names_all_segments_that_it_lacks() {
    let cluster = Cluster::tpch(2, 1);
    let (first, third) = (cluster.segment("lineitem", 0).id, cluster.segment("lineitem", 2).id);
    let node = cluster.nodes.iter().find(|node| node.store.held().contains(&first)).expect("a holder");
    node.store.forget(first);
    node.store.forget(third);
    let error = cluster.run(SCAN).await.expect_err("segments are missing");
    assert_eq!(error.code(), ErrorCode::SegmentNotLoaded);
    let QueryError::NotLoaded { node: culprit, segments } = error else { panic!("{error}") };
    assert_eq!(culprit, Some(node.url.clone()));
    assert_eq!(segments.iter().map(|segment| segment.id).collect::<Vec<_>>(), [first, third]);
    assert_eq!(segments[0].collection, "lineitem");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_is_named_and_the_others_answer_without_it() {
    let mut cluster = Cluster::tpch(3, 2);
    let plain = compare::plain(&cluster).await;
    let sql = pointsman_engine::tpch::query(3).expect("a query");
    compare::same(&cluster, &plain, sql).await;
    cluster.nodes[1].kill();
    for _ in 0..3 {
        let error = cluster.run(sql).await.expect_err("a node is gone");
        let QueryError::Unreachable { nodes, .. } = error else { panic!("{error}") };
        assert_eq!(nodes, [cluster.nodes[1].url.clone()]);
    }
    cluster.router.excluded = BTreeSet::from([1]);
    compare::same(&cluster, &plain, sql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_never_reached_is_named() {
    let mut cluster = Cluster::tpch(3, 2);
    cluster.nodes[2].kill();
    let error = cluster.run(SCAN).await.expect_err("a node is gone");
    let QueryError::Unreachable { nodes, .. } = error else { panic!("{error}") };
    assert_eq!(nodes, [cluster.nodes[2].url.clone()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_connections_and_says_nothing_is_named() {
    let mut cluster = Cluster::tpch(3, 2);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = Url::parse(&format!("http://{}", silent.local_addr().expect("an address"))).expect("a URL");
    let mute = tokio::spawn(async move {
        let mut kept = vec![];
        while let Ok(connection) = silent.accept().await {
            kept.push(connection);
        }
    });
    cluster.router.nodes[1].1 = url.clone();
    let begun = Instant::now();
    for sql in [SCAN, pointsman_engine::tpch::query(5).expect("a query")] {
        let error = cluster.run(sql).await.expect_err("a node says nothing");
        let QueryError::Unreachable { nodes, .. } = error else { panic!("{error}") };
        assert_eq!(nodes, std::slice::from_ref(&url));
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    mute.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_under_a_query_is_named() {
    let mut cluster = Cluster::tpch(2, 1);
    let planned =
        cluster.plan("SELECT a.l_comment FROM lineitem a CROSS JOIN lineitem b").await.expect("a plan");
    let mut rows = planned.execute().expect("rows");
    rows.next().await.expect("a batch").expect("rows");
    cluster.nodes[0].kill();
    let error = loop {
        match rows.next().await.expect("an error") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let QueryError::Unreachable { nodes, .. } = error else { panic!("{error}") };
    assert_eq!(nodes, [cluster.nodes[0].url.clone()]);
    assert!(rows.next().await.is_none(), "nothing follows an error");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_rows_ends_the_work_on_nodes() {
    let cluster = Cluster::tpch(2, 1);
    cluster.run(SCAN).await.expect("rows");
    let idle: Vec<_> = cluster.nodes.iter().map(|node| node.tasks()).collect();
    let planned =
        cluster.plan("SELECT a.l_comment FROM lineitem a CROSS JOIN lineitem b").await.expect("a plan");
    let mut rows = planned.execute().expect("rows");
    rows.next().await.expect("a batch").expect("rows");
    assert!(cluster.nodes.iter().zip(&idle).any(|(node, idle)| node.tasks() > *idle), "nothing runs");
    drop(rows);
    for (node, idle) in cluster.nodes.iter().zip(&idle) {
        // Connections that the query opened between nodes stay, with a few tasks each.
        eventually("the end of the work", || node.tasks() <= idle + 12).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_gives_no_row_can_be_stopped() {
    let cluster = Cluster::tpch(2, 1);
    cluster.run(SCAN).await.expect("rows");
    let idle: Vec<_> = cluster.nodes.iter().map(|node| node.tasks()).collect();
    for sql in [
        "SELECT count(*) FROM lineitem a, lineitem b WHERE a.l_comment < b.l_comment",
        "SELECT count(*) FROM lineitem a, lineitem b WHERE a.l_comment || b.l_comment = 'nothing'",
    ] {
        let mut rows = cluster.plan(sql).await.expect("a plan").execute().expect("rows");
        let busy = Duration::from_secs(2); // A tenth of what it takes, at most.
        let row = tokio::time::timeout(busy, rows.next()).await;
        assert!(row.is_err(), "it takes far longer, and keeps the node reachable: {row:?}\n{sql}");
        drop(rows);
        for (node, idle) in cluster.nodes.iter().zip(&idle) {
            eventually("the end of the work", || node.tasks() <= idle + 12).await;
        }
        // Threads that are still busy with it would keep others waiting.
        let begun = Instant::now();
        cluster.run(SCAN).await.expect("rows");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}: {sql}", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_in_the_broker_can_be_stopped() {
    let cluster = Cluster::tpch(1, 1);
    let sql = "SELECT count(*) FROM range(1, 50000) a, range(1, 50000) b WHERE a.value + b.value = -1";
    let mut rows = cluster.plan(sql).await.expect("a plan").execute().expect("rows");
    let begun = Instant::now();
    tokio::time::timeout(Duration::from_secs(1), rows.next()).await.expect_err("it takes far longer");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_is_the_nodes_fault_and_suspected() {
    let cluster = Cluster::tpch(2, 1);
    let orders = cluster.tables.iter().find(|table| table.name == "orders").expect("a table");
    let (segment, path) = (cluster.segment("orders", 3).id, &orders.files[3].path);
    let mut bytes = std::fs::read(path).expect("a file");
    bytes[4..].fill(0x5a);
    std::fs::write(path, bytes).expect("written");
    let node = cluster.nodes.iter().find(|node| node.store.held().contains(&segment)).expect("a holder");
    let error = cluster.run("SELECT sum(o_totalprice) FROM orders").await.expect_err("the file is corrupt");
    let QueryError::NodeFailed { node: culprit, memory: false, .. } = error else { panic!("{error:?}") };
    assert_eq!(culprit, Some(node.url.clone()));
    assert!(node.store.suspected().contains(&segment));
    let others = cluster.nodes.iter().filter(|other| other.key != node.key);
    assert!(others.into_iter().all(|other| other.store.suspected().is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_query_blame_no_node() {
    let cluster = Cluster::tpch(2, 1);
    for sql in [
        "SELECT sum(1 / (l_linenumber - l_linenumber)) FROM lineitem",
        "SELECT count(CAST(l_comment AS BIGINT)) FROM lineitem",
        "SELECT count(CAST(l_orderkey AS TINYINT)) FROM lineitem",
    ] {
        let error = cluster.run(sql).await.expect_err(sql);
        assert!(
            matches!(&error, QueryError::Query(error) if error.code() == ErrorCode::Unknown),
            "{error:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_limited_in_the_broker_and_on_nodes() {
    const SORT: &str = "SELECT l_comment FROM lineitem ORDER BY l_comment";
    let start = |broker: u64, worker: u64| {
        let folder = tempfile::tempdir().expect("a folder");
        let tables = data::write(folder.path());
        let engine = EngineSettings { memory_limit: broker, ..EngineSettings::default() };
        Cluster::start(
            folder,
            tables,
            2,
            1,
            engine,
            WorkerSettings { memory_limit: worker, ..WorkerSettings::default() },
        )
    };
    let error = start(1 << 30, 400 << 10).run(SORT).await.expect_err("nodes have no memory");
    assert!(matches!(&error, QueryError::NodeFailed { node: Some(_), memory: true, .. }), "{error:?}");
    let mut tight = start(400 << 10, 1 << 30);
    tight.router.stages = false;
    let error = tight.run(SORT).await.expect_err("the broker has no memory");
    assert!(matches!(&error, QueryError::MemoryLimit { .. }), "{error:?}");
    assert_eq!(error.code(), ErrorCode::QueryMemoryLimit);
}

/// Sends a plan of its own making to a worker, as anybody could who reaches its port.
async fn send(worker: &Url, plan: Arc<dyn ExecutionPlan>) -> String {
    struct Workers(Url);
    impl datafusion_distributed::WorkerResolver for Workers {
        fn get_urls(&self) -> datafusion::error::Result<Vec<Url>> {
            Ok(vec![self.0.clone()])
        }
    }
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new())
        .with_default_features()
        .with_distributed_planner()
        .with_distributed_worker_resolver(Workers(worker.clone()))
        .build();
    let context = SessionContext::new_with_state(state);
    let below = NetworkCoalesceExec::try_new(plan, 2, 1).expect("a stage");
    let head = Arc::new(datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec::new(
        Arc::new(below),
    ));
    let rows = execute_stream(Arc::new(DistributedExec::new(head)), context.task_ctx());
    let rows: Result<Vec<_>, _> = rows.expect("a stream").try_collect().await;
    rows.expect_err("the worker must refuse").to_string()
}

fn scan(store: &str, path: &str) -> Arc<dyn ExecutionPlan> {
    let schema = Arc::new(Schema::new(vec![Field::new("n_nationkey", DataType::Int64, true)]));
    let url = ObjectStoreUrl::parse(store).expect("a store");
    let config = FileScanConfigBuilder::new(url, Arc::new(ParquetSource::new(schema)))
        .with_file(PartitionedFile::new(path.to_owned(), 4_000))
        .build();
    DataSourceExec::from_data_source(config)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reads_no_file_for_anybody() {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = data::write(folder.path());
    let file = tables.iter().find(|table| table.name == "nation").expect("a table").files[0].path.clone();
    let path = file.to_str().expect("a path").trim_start_matches('/');
    for (store, path) in [
        ("file://", path),
        ("http://127.0.0.1:1", "x.parquet"),
        ("seg://other", "1/nation/part-1"),
        ("seg://local", "etc/passwd"),
        ("seg://local", "1/nation"),
        ("seg://local", "1/nation/part-1"),
    ] {
        let node = Node::start("n1", WorkerSettings::default());
        let refused = send(&node.url, scan(store, path)).await;
        let reasons = ["nothing is read from", "the plan was refused", "segment_not_loaded"];
        assert!(reasons.iter().any(|reason| refused.contains(reason)), "{store}/{path}: {refused}");
    }
}
