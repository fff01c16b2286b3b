//! Parts that fail while a query runs, and what becomes of its rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use pointsman_engine::{
    Catalog, EngineSettings, FailedPart, PlannedQuery, QueryError, Rerouted, Routed, Router, Statement,
    WorkerSettings,
};
use pointsman_ids::{
    CollectionId, Error, ErrorCode, NodeKey, Result, SegmentId, UnavailableCause, feed::CollectionEntry,
};
use tonic::{
    Request, Status,
    service::{InterceptorLayer, Routes},
    transport::{Server, server::TcpIncoming},
};
use url::Url;

use crate::{
    cluster::{Cluster, RouterOf},
    compare, data,
    relay::Relay,
};

const COUNT: &str = "SELECT count(*), sum(l_quantity), min(l_comment) FROM lineitem";
const ROWS: &str = "SELECT l_orderkey, l_linenumber, l_comment FROM lineitem";

/// Statements whose nodes only scan, in many ways; with all that stands above in the broker.
const SINGLE_STAGE: &[&str] = &[
    COUNT,
    ROWS,
    "SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity > 40",
    "SELECT l_shipmode, l_returnflag, sum(l_extendedprice) FROM lineitem GROUP BY l_shipmode, l_returnflag",
    "SELECT l_orderkey, l_linenumber FROM lineitem ORDER BY l_extendedprice, l_orderkey, l_linenumber LIMIT 50",
    "SELECT l_orderkey, l_linenumber, l_comment FROM lineitem ORDER BY l_comment, l_orderkey, l_linenumber",
    "SELECT count(*) FROM (SELECT 1 FROM lineitem UNION ALL SELECT 1 FROM orders)",
    "SELECT (SELECT max(l_quantity) FROM lineitem) q, (SELECT max(l_shipdate) FROM lineitem) s, count(*) n FROM orders",
    "SELECT o_orderpriority, count(*) FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY o_orderpriority",
];

/// Routes around the nodes that failed, for as long as it may.
#[derive(Debug)]
struct Around {
    of: RouterOf,
    /// How often a segment may be routed, the first time included.
    attempts: usize,
    failed: Mutex<Vec<FailedPart>>,
    lacks: Mutex<BTreeMap<SegmentId, BTreeSet<usize>>>,
}

impl Around {
    fn new(of: RouterOf) -> Arc<Self> {
        Arc::new(Self { of, attempts: 9, failed: Mutex::default(), lacks: Mutex::default() })
    }

    fn failed(&self) -> Vec<FailedPart> {
        self.failed.lock().expect("a lock").clone()
    }

    fn node(&self, url: &Url) -> usize {
        self.of.nodes.iter().position(|(_, known)| known == url).expect("a node")
    }
}

impl Router for Around {
    fn route(&self, collection: &CollectionEntry, segments: &[u32]) -> Result<Routed> {
        self.of.route(collection, segments)
    }

    fn stage_nodes(&self) -> Vec<(NodeKey, Url)> {
        self.of.stage_nodes()
    }

    fn reroute(&self, failed: &FailedPart) -> Rerouted {
        self.failed.lock().expect("a lock").push(failed.clone());
        let all = self.failed();
        let mut lacks = self.lacks.lock().expect("a lock");
        for (scan, at) in failed.scans.iter().flat_map(|scan| scan.lacking.iter().map(move |at| (scan, at))) {
            let segment = scan.collection.segments[*at as usize].id;
            lacks.entry(segment).or_default().insert(self.node(&failed.node));
        }
        let mut of = self.of.clone();
        let gone = all.iter().filter(|part| !matches!(part.error, QueryError::NotLoaded { .. }));
        of.excluded.extend(gone.map(|part| self.node(&part.node)));
        for (segment, nodes) in &*lacks {
            of.holders.get_mut(segment).expect("a segment").retain(|node| !nodes.contains(node));
        }
        let routed = failed.scans.iter().map(|scan| {
            let mut own = of.clone();
            for at in &scan.segments {
                let was = |part: &&FailedPart| {
                    part.scans
                        .iter()
                        .any(|one| one.collection.name == scan.collection.name && one.segments.contains(at))
                };
                if all.iter().filter(was).count() >= self.attempts {
                    own.holders.insert(scan.collection.segments[*at as usize].id, vec![]);
                }
            }
            let mut routed = own.route(&scan.collection, &scan.segments)?;
            routed.unavailable.iter_mut().for_each(|one| one.cause = UnavailableCause::RetriesUsedUp);
            Ok(routed)
        });
        Rerouted::Parts(routed.collect::<Result<_>>().expect("a choice"))
    }
}

async fn plan(cluster: &Cluster, router: &Arc<Around>, sql: &str) -> PlannedQuery {
    let statement = Statement::check(sql).expect("a statement");
    let planned = cluster.engine.plan(&statement, &cluster.catalog, Arc::clone(router) as _).await;
    planned.unwrap_or_else(|error| panic!("{error}\n{sql}"))
}

async fn all(planned: &PlannedQuery) -> Result<Vec<RecordBatch>, QueryError> {
    planned.execute()?.try_collect().await
}

/// A cluster whose broker does everything but scan.
fn cluster(nodes: usize, replicas: usize) -> Cluster {
    let mut cluster = Cluster::tpch(nodes, replicas);
    cluster.router.stages = false;
    cluster
}

fn with_buffer(nodes: usize, replicas: usize, retry_buffer: usize) -> Cluster {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = data::write(folder.path());
    let settings = EngineSettings { retry_buffer, ..EngineSettings::default() };
    let mut cluster = Cluster::start(folder, tables, nodes, replicas, settings, WorkerSettings::default());
    cluster.router.stages = false;
    cluster
}

/// Segments that the answer rests on and those that are missing, of all collections.
fn segments(planned: &PlannedQuery) -> (usize, usize) {
    let scans = planned.scans();
    let answered = scans.iter().flat_map(|scan| &scan.parts).map(|part| part.segments.len()).sum();
    (answered, scans.iter().map(|scan| scan.unavailable.len()).sum())
}

fn nodes(planned: &PlannedQuery) -> BTreeSet<Url> {
    planned.scans().iter().flat_map(|scan| &scan.parts).map(|part| part.url.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_gone_costs_its_own_part_only() {
    let mut cluster = cluster(3, 2);
    let clean = plan(&cluster, &Around::new(cluster.router.clone()), COUNT).await;
    let wanted = compare::rows(&all(&clean).await.expect("rows"));
    let scanned = clean.scanned_rows(Duration::from_secs(5)).await.expect("figures");
    cluster.nodes[1].kill();
    let router = Around::new(cluster.router.clone());
    let planned = plan(&cluster, &router, COUNT).await;
    assert_eq!(planned.stages(), 1);
    assert_eq!(compare::rows(&all(&planned).await.expect("rows")), wanted);
    let gone = cluster.nodes[1].url.clone();
    let failed = router.failed();
    assert_eq!(failed.iter().map(|part| part.node.clone()).collect::<Vec<_>>(), std::slice::from_ref(&gone));
    assert!(matches!(failed[0].error, QueryError::Unreachable { .. }), "{failed:?}");
    assert!(failed[0].scans[0].lacking.is_empty());
    assert_eq!(failed[0].scans[0].segments.len(), 2, "only its own segments were routed again");
    assert!(!nodes(&planned).contains(&gone), "the final routing is without it");
    assert_eq!(segments(&planned), (6, 0));
    assert_eq!(planned.running(), BTreeSet::new());
    assert_eq!(planned.scanned_rows(Duration::from_secs(5)).await, Some(scanned), "nothing is counted twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_those_of_a_clean_run_wherever_a_node_breaks_off() {
    let cluster = cluster(3, 2);
    for sql in SINGLE_STAGE {
        let mut router = cluster.router.clone();
        let whole = Relay::start(&cluster.nodes[1].url, u64::MAX).await;
        router.nodes[1].1 = whole.url.clone();
        let clean = plan(&cluster, &Around::new(router.clone()), sql).await;
        if clean.stages() != 1 {
            continue;
        }
        let wanted = compare::rows(&all(&clean).await.expect("rows"));
        let bytes = whole.passed();
        let positions = (1..=6).map(|sixth| bytes * sixth / 6);
        for limit in [1, 50, 100, 200, 400, 800].into_iter().chain(positions) {
            let relay = Relay::start(&cluster.nodes[1].url, limit).await;
            router.nodes[1].1 = relay.url.clone();
            let around = Around::new(router.clone());
            let planned = plan(&cluster, &around, sql).await;
            let got = all(&planned).await.unwrap_or_else(|error| panic!("{error}\n{sql}\ncut at {limit}"));
            assert_eq!(compare::rows(&got), wanted, "cut at {limit} of {bytes}: {sql}");
            // Figures follow the rows: a node that breaks off under them has done its work.
            if limit <= 50 || (bytes > 100_000 && limit < bytes / 2) {
                assert!(!around.failed().is_empty(), "nothing broke at {limit} of {bytes}: {sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_kept_when_several_nodes_take_over() {
    let sql = "SELECT l_comment, l_orderkey, l_linenumber FROM lineitem ORDER BY 1, 2, 3";
    let mut cluster = cluster(3, 3);
    // All of it on one node, so that two take over.
    cluster.router.holders.values_mut().for_each(|holders| holders.sort_unstable());
    cluster.router.excluded = BTreeSet::from([0, 1]);
    let wanted = all(&plan(&cluster, &Around::new(cluster.router.clone()), sql).await).await.expect("rows");
    let relay = Relay::start(&cluster.nodes[2].url, 300_000).await;
    let mut router = cluster.router.clone();
    router.nodes[2].1 = relay.url.clone();
    #[derive(Debug)]
    struct Others(RouterOf);
    impl Router for Others {
        fn route(&self, collection: &CollectionEntry, segments: &[u32]) -> Result<Routed> {
            self.0.route(collection, segments)
        }
        fn stage_nodes(&self) -> Vec<(NodeKey, Url)> {
            vec![]
        }
        fn reroute(&self, failed: &FailedPart) -> Rerouted {
            let others = RouterOf { excluded: BTreeSet::from([2]), ..self.0.clone() };
            let routed = failed.scans.iter().map(|scan| others.route(&scan.collection, &scan.segments));
            Rerouted::Parts(routed.collect::<Result<_>>().expect("a choice"))
        }
    }
    let statement = Statement::check(sql).expect("a statement");
    let planned = cluster.engine.plan(&statement, &cluster.catalog, Arc::new(Others(router))).await;
    let planned = planned.expect("a plan");
    let got = all(&planned).await.expect("rows");
    assert_eq!(nodes(&planned).len(), 2, "two nodes took over");
    let schema = wanted[0].schema();
    let concat = |batches| arrow::compute::concat_batches(&schema, batches).expect("one batch");
    assert_eq!(concat(&got), concat(&wanted), "the same rows in the same order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_a_node_lacks_is_read_elsewhere_and_the_others_stay() {
    let cluster = cluster(2, 2);
    let router = Around::new(cluster.router.clone());
    let wanted = compare::rows(&all(&plan(&cluster, &router, COUNT).await).await.expect("rows"));
    let planned = plan(&cluster, &router, COUNT).await;
    let scans = planned.scans();
    let part = scans[0].parts[0].clone();
    assert_eq!(part.segments.len(), 6);
    let node = cluster.nodes.iter().find(|node| node.url == part.url).expect("a node");
    node.store.forget(cluster.segment("lineitem", part.segments[1] as usize).id);
    assert_eq!(compare::rows(&all(&planned).await.expect("rows")), wanted);
    let failed = router.failed();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].error.code(), ErrorCode::SegmentNotLoaded);
    assert_eq!(failed[0].scans[0].segments, part.segments);
    assert_eq!(failed[0].scans[0].lacking, [part.segments[1]]);
    let scans = planned.scans();
    let kept = scans[0].parts.iter().find(|part| part.url == node.url).expect("a part");
    assert_eq!(kept.segments, [0, 2, 3, 4, 5]);
    assert_eq!(segments(&planned), (6, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_failures_in_a_row_are_made_good() {
    let mut cluster = cluster(3, 3);
    let router = Around::new(cluster.router.clone());
    let wanted = compare::rows(&all(&plan(&cluster, &router, COUNT).await).await.expect("rows"));
    cluster.nodes[0].kill();
    let relay = Relay::start(&cluster.nodes[1].url, 200).await;
    let mut two = cluster.router.clone();
    two.nodes[1].1 = relay.url.clone();
    let router = Around::new(two);
    let planned = plan(&cluster, &router, COUNT).await;
    assert_eq!(compare::rows(&all(&planned).await.expect("rows")), wanted);
    assert_eq!(nodes(&planned), BTreeSet::from([cluster.nodes[2].url.clone()]));
    let gone: BTreeSet<_> = router.failed().into_iter().map(|part| part.node).collect();
    assert_eq!(gone, BTreeSet::from([cluster.nodes[0].url.clone(), relay.url.clone()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_whose_retries_have_run_out_is_missing_and_nothing_else() {
    let mut cluster = cluster(2, 1);
    let gone = cluster.nodes[1].store.held();
    cluster.nodes[1].kill();
    let router = Around::new(cluster.router.clone());
    let planned = plan(&cluster, &router, "SELECT count(*) FROM lineitem").await;
    let got = compare::rows(&all(&planned).await.expect("rows"));
    let lineitem = cluster.snapshot.collection("lineitem").expect("a collection");
    let left = lineitem.segments.iter().filter(|segment| !gone.contains(&segment.id));
    let left: u64 = left.map(|segment| segment.rows).sum();
    assert_eq!(got, [left.to_string()]);
    assert_eq!(planned.scanned_rows(Duration::from_secs(5)).await, Some(left), "what was read is told");
    assert_eq!(segments(&planned), (3, 3));
    assert!(
        planned.scans()[0].unavailable.iter().all(|one| one.cause == UnavailableCause::RetriesUsedUp),
        "{:?}",
        planned.scans()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_has_seen_is_made_good_however_small_the_buffer() {
    let cluster = with_buffer(3, 2, 64 << 10);
    let wanted = compare::rows(
        &all(&plan(&cluster, &Around::new(cluster.router.clone()), ROWS).await).await.expect("rows"),
    );
    let relay = Relay::start(&cluster.nodes[1].url, 300).await;
    let mut router = cluster.router.clone();
    router.nodes[1].1 = relay.url.clone();
    let around = Around::new(router);
    let rows = all(&plan(&cluster, &around, ROWS).await).await.expect("rows");
    assert_eq!(compare::rows(&rows), wanted);
    assert_eq!(around.failed().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_beyond_the_buffer_cannot_be_taken_back() {
    let cluster = with_buffer(2, 2, 64 << 10);
    let mut router = cluster.router.clone();
    // Whatever is handed over comes from one node.
    router.holders.values_mut().for_each(|holders| *holders = vec![1]);
    let whole = Relay::start(&cluster.nodes[1].url, u64::MAX).await;
    router.nodes[1].1 = whole.url.clone();
    all(&plan(&cluster, &Around::new(router.clone()), ROWS).await).await.expect("rows");
    // What is held back is less than the second batch of one segment, so the others have come whole.
    let relay = Relay::holding(&cluster.nodes[1].url, whole.passed() * 19 / 20).await;
    router.nodes[1].1 = relay.url.clone();
    let around = Around::new(router);
    let planned = plan(&cluster, &around, ROWS).await;
    let mut rows = planned.execute().expect("a start");
    let first = rows.try_next().await.expect("rows").expect("rows");
    assert!(first.num_rows() > 0, "rows beyond the buffer are handed over before the end");
    relay.cut();
    let error = rows.try_collect::<Vec<_>>().await.expect_err("rows that are missing");
    let QueryError::Unreachable { nodes, .. } = &error else { panic!("{error}") };
    assert_eq!(nodes, std::slice::from_ref(&relay.url));
    assert_eq!(around.failed(), [], "nobody is asked for what cannot be made good");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_is_the_querys_own_is_not_routed_again() {
    let cluster = cluster(2, 2);
    let router = Around::new(cluster.router.clone());
    let planned = plan(&cluster, &router, "SELECT count(CAST(l_comment AS BIGINT)) FROM lineitem").await;
    let error = all(&planned).await.expect_err("no number");
    assert!(matches!(error, QueryError::Query(_)), "{error:?}");
    assert_eq!(router.failed(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_router_leaves_to_the_query_fails_with_the_parts_error() {
    let mut cluster = cluster(2, 2);
    cluster.nodes[1].kill();
    let error = cluster.run(COUNT).await.expect_err("this router makes nothing good");
    let QueryError::Unreachable { nodes, .. } = error else { panic!("{error}") };
    assert_eq!(nodes, [cluster.nodes[1].url.clone()]);
}

/// Clusters number their collections each on their own, so two of one query may have one number.
#[tokio::test(flavor = "multi_thread")]
async fn collections_of_one_number_are_told_apart() {
    let mut cluster = cluster(3, 2);
    for entry in &mut cluster.snapshot.collections {
        Arc::make_mut(entry).id = CollectionId(1);
    }
    cluster.catalog = Arc::new(Catalog::build(&cluster.snapshot, None));
    cluster.nodes[1].kill();
    let sql = "SELECT count(*) FROM (SELECT 1 FROM lineitem UNION ALL SELECT 1 FROM orders)";
    let planned = plan(&cluster, &Around::new(cluster.router.clone()), sql).await;
    let rows: u64 = ["lineitem", "orders"]
        .iter()
        .flat_map(|name| &cluster.snapshot.collection(name).expect("a collection").segments)
        .map(|segment| segment.rows)
        .sum();
    assert_eq!(compare::rows(&all(&planned).await.expect("rows")), [rows.to_string()]);
    assert!(!nodes(&planned).contains(&cluster.nodes[1].url), "the final routing is without it");
    for scan in &*planned.scans() {
        let mut served: Vec<_> = scan.parts.iter().flat_map(|part| part.segments.clone()).collect();
        served.sort_unstable();
        assert_eq!(served, scan.asked, "{}", scan.collection.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_flow_between_nodes_are_not_made_good_part_by_part() {
    let mut cluster = Cluster::tpch(3, 2);
    let router = Around::new(cluster.router.clone());
    let sql = "SELECT l_shipmode, count(*) FROM lineitem GROUP BY l_shipmode";
    let planned = plan(&cluster, &router, sql).await;
    assert!(planned.stages() > 1);
    cluster.nodes[1].kill();
    all(&planned).await.expect_err("a node is gone");
    assert_eq!(router.failed(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_one_node_cannot_read_is_read_elsewhere() {
    let cluster = cluster(2, 2);
    let router = Around::new(cluster.router.clone());
    let wanted = compare::rows(&all(&plan(&cluster, &router, COUNT).await).await.expect("rows"));
    let planned = plan(&cluster, &router, COUNT).await;
    let part = planned.scans()[0].parts[0].clone();
    let node = cluster.nodes.iter().find(|node| node.url == part.url).expect("a node");
    node.store.spoil(cluster.segment("lineitem", part.segments[0] as usize).id);
    assert_eq!(compare::rows(&all(&planned).await.expect("rows")), wanted);
    let failed = router.failed();
    assert!(matches!(failed[0].error, QueryError::NodeFailed { .. }), "{failed:?}");
    assert_eq!(failed.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_rows_ends_the_tasks_that_took_over() {
    let mut cluster = cluster(2, 2);
    all(&plan(&cluster, &Around::new(cluster.router.clone()), COUNT).await).await.expect("rows");
    cluster.nodes[1].kill();
    let idle = cluster.nodes[0].tasks();
    let sql =
        "SELECT count(*) FROM lineitem a, (VALUES (1), (2)) AS v WHERE a.l_comment || v.column1 = 'nothing'";
    for _ in 0..5 {
        let planned = plan(&cluster, &Around::new(cluster.router.clone()), sql).await;
        let mut rows = planned.execute().expect("rows");
        let _ = tokio::time::timeout(Duration::from_millis(5), rows.try_next()).await;
    }
    crate::failures::eventually("the end of the work", || cluster.nodes[0].tasks() <= idle + 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_time_is_up_what_has_come_is_the_answer() {
    let cluster = cluster(2, 1);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = Url::parse(&format!("http://{}", silent.local_addr().expect("an address"))).expect("a URL");
    let mut router = cluster.router.clone();
    router.nodes[1].1 = url.clone();
    let planned = plan(&cluster, &Around::new(router), "SELECT count(*) FROM lineitem").await;
    let mut rows = planned.execute().expect("rows");
    tokio::time::timeout(Duration::from_millis(500), rows.try_next()).await.expect_err("one is silent");
    assert_eq!(planned.running(), BTreeSet::from([url]));
    planned.time_is_up();
    let rows: Vec<_> = rows.try_collect().await.expect("what has come");
    let held = cluster.nodes[0].store.held();
    let lineitem = cluster.snapshot.collection("lineitem").expect("a collection");
    let answered = lineitem.segments.iter().filter(|segment| held.contains(&segment.id));
    assert_eq!(compare::rows(&rows), [answered.map(|segment| segment.rows).sum::<u64>().to_string()]);
    assert_eq!(segments(&planned), (3, 3));
    let scans = planned.scans();
    let missing = &scans[0].unavailable[0];
    assert_eq!(
        (missing.cause, &missing.nodes),
        (UnavailableCause::NodeSilent, &vec![cluster.nodes[1].key.clone()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lacks_thousands_of_segments_hides_none_of_them() {
    const SEGMENTS: usize = 3000;
    let folder = tempfile::tempdir().expect("a folder");
    let file = data::write(folder.path()).into_iter().find(|table| table.name == "region").expect("a table");
    let table = data::from_files("many", vec![file.files[0].path.clone(); SEGMENTS]);
    let rows = file.files[0].rows * SEGMENTS as u64;
    let mut cluster =
        Cluster::start(folder, vec![table], 2, 2, EngineSettings::default(), WorkerSettings::default());
    cluster.router.stages = false;
    let router = Around::new(cluster.router.clone());
    let planned = plan(&cluster, &router, "SELECT count(r_name) FROM many").await;
    for segment in cluster.nodes[0].store.held() {
        cluster.nodes[0].store.forget(segment);
    }
    let got = compare::rows(&all(&planned).await.expect("rows"));
    assert_eq!(got, [rows.to_string()]);
    let failed = router.failed();
    assert!(failed.iter().all(|part| part.node == cluster.nodes[0].url), "{}", failed.len());
    assert_eq!(segments(&planned), (SEGMENTS, 0));
    assert_eq!(nodes(&planned), BTreeSet::from([cluster.nodes[1].url.clone()]));
}

/// The address of a worker that takes no work.
fn refusing(code: ErrorCode) -> Url {
    let refuse = move |_: Request<()>| -> Result<Request<()>, Status> {
        Err(pointsman_proto::status(&Error::new(code, "not now")))
    };
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = incoming.local_addr().expect("an address");
    let server = Server::builder().layer(InterceptorLayer::new(refuse)).add_routes(Routes::default());
    tokio::spawn(server.serve_with_incoming(incoming));
    Url::parse(&format!("http://{address}")).expect("a URL")
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_node_does_not_take_is_done_elsewhere_and_the_node_is_not_ill() {
    let cluster = cluster(3, 2);
    let clean = plan(&cluster, &Around::new(cluster.router.clone()), COUNT).await;
    let wanted = compare::rows(&all(&clean).await.expect("rows"));
    for (code, is_busy) in [(ErrorCode::ServiceTooManyRequests, true), (ErrorCode::NodeNotServing, false)] {
        let mut router = cluster.router.clone();
        router.nodes[1].1 = refusing(code);
        let around = Around::new(router.clone());
        let planned = plan(&cluster, &around, COUNT).await;
        assert_eq!(compare::rows(&all(&planned).await.expect("rows")), wanted);
        let failed = around.failed();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(failed[0].error.code(), code);
        // Where nodes ask each other, the one who refused is named, and not the one who asked.
        router.stages = true;
        let sql = "SELECT l_shipmode, count(*) FROM lineitem GROUP BY l_shipmode";
        let error = cluster.run_with(sql, router.clone()).await.expect_err("one takes no work");
        let QueryError::Refused { node, busy, message } = error else { panic!("{error:?}") };
        assert_eq!((&node, busy, message.as_str()), (&router.nodes[1].1, is_busy, "not now"));
    }
}
