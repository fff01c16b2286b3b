//! What the broker makes of nodes that are ill: fail-open, suspicions, bounds, figures.

use std::{cell::RefCell, time::Duration};

use pointsman_proto::broker::v1::{GetStatusRequest, broker_status_client::BrokerStatusClient};
use pointsman_settings::BrokerSettings;
use serde_json::{Value, json};

use crate::cluster::{Cluster, codes, complete, until};

const SUM: &str = "SELECT sum(id) FROM t";

/// Every segment on one worker alone, and no probe for a long time.
async fn single(adapt: impl FnOnce(&mut BrokerSettings)) -> Cluster {
    let adapt = |settings: &mut BrokerSettings| {
        settings.failure_detector.initial_delay = Duration::from_secs(600);
        settings.failure_detector.max_delay = Duration::ZERO;
        adapt(settings);
    };
    Cluster::start(1, |_| vec![0], adapt).await
}

async fn node(cluster: &Cluster, at: usize) -> Value {
    cluster.broker.get("/debug/nodes").await.1["nodes"][at].clone()
}

/// Hangs the only worker until the broker has excluded it, and wakes it again.
async fn exclude(cluster: &Cluster) {
    assert_eq!(complete(&cluster.sql(SUM).await), &json!([[4950]]));
    cluster.workers[0].hang();
    until("the node that hangs is excluded", async || {
        let _failed = cluster.sql("SET timeoutMs = 100; SELECT sum(id) FROM t").await;
        node(cluster, 0).await["routable"] == json!(false)
    })
    .await;
    cluster.workers[0].wake();
}

#[tokio::test]
async fn with_fail_open_an_excluded_node_answers_and_the_coverage_says_so() {
    let cluster = single(|settings| settings.fail_open.enabled = true).await;
    exclude(&cluster).await;
    let answer = cluster.sql(SUM).await;
    assert_eq!(complete(&answer), &json!([[4950]]));
    let coverage = &answer["coverage"];
    assert_eq!((&coverage["segments_fail_open"], &coverage["segments_answered"]), (&json!(4), &json!(4)));
    assert_eq!(node(&cluster, 0).await["routable"], json!(false), "a success brings nobody back");
    let (_, page) = cluster.broker.get("/debug/route?collection=t&request_id=0").await;
    let segment = &page["scans"][0]["segments"][0];
    assert_eq!((&segment["outcome"], &segment["node"]), (&json!("fail_open"), &json!("n0")), "{segment}");
    assert_eq!(page["scans"][0]["parts"][0]["fail_open"], json!(["s0", "s1", "s2", "s3"]));
    // A request of several stages has a switch of its own.
    assert_eq!(codes(&cluster.sql("SET useMultistageEngine = true; SELECT sum(id) FROM t").await), [305]);
}

#[tokio::test]
async fn fail_open_that_was_tried_in_vain_is_told_with_the_segments_that_are_missing() {
    // Two groups, and each segment in one of them alone; `t` is large enough for a join whose rows flow between nodes.
    let adapt = |settings: &mut BrokerSettings| {
        settings.fail_open.enabled = true;
        settings.fail_open.multi_stage = true;
    };
    let mut cluster = Cluster::start(2, |segment| vec![usize::from(segment >= 2)], adapt).await;
    cluster.workers[1].kill();
    until("the dead node is excluded", async || {
        cluster.sql(SUM).await;
        node(&cluster, 1).await["routable"] == json!(false)
    })
    .await;
    let join = "SELECT a.id % 7 AS k, sum(b.id) FROM t a JOIN t b ON a.id = b.id GROUP BY k";
    for sql in [SUM, join, &format!("SET allow_partial = false; {join}")] {
        let answer = cluster.sql(sql).await;
        assert_eq!(codes(&answer).last(), Some(&305), "{answer}");
        let coverage = &answer["coverage"];
        assert_eq!(
            (&coverage["segments_fail_open"], &coverage["segments_unavailable"]),
            (&json!(2), &json!(2)),
            "{sql}: {answer}"
        );
        let tried =
            [json!({"collection": "t", "segment": "s2"}), json!({"collection": "t", "segment": "s3"})];
        assert_eq!(coverage["fail_open"], json!(tried));
        assert_eq!(coverage["unavailable"][0]["nodes"], json!(["local/n1"]), "{sql}: {answer}");
    }
}

#[tokio::test]
async fn without_fail_open_the_segments_are_reported() {
    let cluster = single(|_| {}).await;
    exclude(&cluster).await;
    let answer = cluster.sql(SUM).await;
    assert_eq!(codes(&answer), [305], "{answer}");
    let missing = &answer["coverage"]["unavailable"][0];
    assert_eq!((&missing["cause"], &missing["nodes"]), (&json!("all_excluded"), &json!(["local/n0"])));
}

#[tokio::test]
async fn the_configuration_of_the_cluster_overrides_the_brokers_switch() {
    let mut cluster = single(|_| {}).await;
    exclude(&cluster).await;
    let set = |text: Option<&str>| {
        let text = text.map(str::to_owned);
        move |snapshot: &mut pointsman_ids::feed::Snapshot| {
            let config = text.map(|text| ("broker.fail_open.enabled".to_owned(), text));
            snapshot.config = config.into_iter().collect();
        }
    };
    cluster.change(set(Some("TRUE"))).await;
    assert_eq!(complete(&cluster.sql(SUM).await), &json!([[4950]]));
    cluster.change(set(Some("false"))).await;
    assert_eq!(codes(&cluster.sql(SUM).await), [305]);
    cluster.change(set(Some("true"))).await;
    assert_eq!(complete(&cluster.sql(SUM).await), &json!([[4950]]));
    cluster.change(set(None)).await;
    assert_eq!(codes(&cluster.sql(SUM).await), [305], "the broker's own value counts again");
}

/// A cluster whose connections are not pinged, so that silence alone tells.
async fn silent(workers: usize, limit: u32) -> Cluster {
    let adapt = |settings: &mut BrokerSettings| {
        settings.channel.keep_alive_time = Duration::from_secs(3600);
        settings.failure_detector.suspicion_limit = limit;
    };
    Cluster::start(workers, |segment| vec![usize::try_from(segment).unwrap() % workers], adapt).await
}

/// Asks impatiently until the deadline passes while exactly these nodes are silent. A machine that is slow has other
/// reasons for being late, of which nobody is suspected.
async fn are_silent(cluster: &Cluster, nodes: &str) -> Value {
    let last = RefCell::new(Value::Null);
    until("the deadline passes while they are silent", async || {
        let answer = cluster.sql("SET timeoutMs = 200; SELECT sum(id) FROM t").await;
        let is_theirs = answer["exceptions"][0]["message"] == json!(format!("{nodes} did not answer"));
        last.replace(answer);
        is_theirs
    })
    .await;
    let last = last.into_inner();
    assert_eq!(codes(&last), [427, 305], "{last}");
    last
}

#[tokio::test]
async fn the_only_silent_node_is_suspected_and_then_excluded() {
    let cluster = silent(2, 2).await;
    assert_eq!(complete(&cluster.sql(SUM).await), &json!([[4950]]));
    cluster.workers[0].hang();
    let answer = are_silent(&cluster, "1 nodes [n0]").await;
    assert_eq!(answer["coverage"]["unavailable"][0]["cause"], json!("node_silent"));
    until("it is suspected", async || node(&cluster, 0).await["suspicions"] == json!(1)).await;
    let suspected = node(&cluster, 0).await;
    assert_eq!((&suspected["routable"], suspected["suspicion"].is_string()), (&json!(true), true));
    let mut status = BrokerStatusClient::connect(cluster.broker.grpc.clone()).await.unwrap();
    let status = status.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.nodes[0].suspicions, status.nodes[1].suspicions), (1, 0));
    are_silent(&cluster, "1 nodes [n0]").await;
    until("the second in a row excludes it", async || node(&cluster, 0).await["routable"] == json!(false))
        .await;
    cluster.workers[0].wake();
}

#[tokio::test]
async fn a_complete_answer_ends_the_row_of_suspicions() {
    let cluster = silent(2, 3).await;
    assert_eq!(complete(&cluster.sql(SUM).await), &json!([[4950]]));
    cluster.workers[0].hang();
    are_silent(&cluster, "1 nodes [n0]").await;
    until("it is suspected", async || node(&cluster, 0).await["suspicions"] == json!(1)).await;
    cluster.workers[0].wake();
    until("it answered", async || {
        let _answer = cluster.sql(SUM).await;
        node(&cluster, 0).await["suspicions"] == json!(0)
    })
    .await;
}

#[tokio::test]
async fn several_silent_nodes_are_not_suspected() {
    let cluster = silent(2, 1).await;
    assert_eq!(complete(&cluster.sql(SUM).await), &json!([[4950]]));
    cluster.workers.iter().for_each(|worker| worker.hang());
    let answer = are_silent(&cluster, "2 nodes [n0, n1]").await;
    assert_eq!(answer["coverage"]["segments_unavailable"], json!(4));
    cluster.workers.iter().for_each(|worker| worker.wake());
    assert_eq!(complete(&cluster.sql(SUM).await), &json!([[4950]]), "nobody is excluded");
    assert_eq!(node(&cluster, 0).await["suspicions"], json!(0));
}

#[tokio::test]
async fn calls_beyond_the_bound_of_a_node_go_elsewhere() {
    let adapt = |settings: &mut BrokerSettings| settings.node.max_in_flight = 1;
    let cluster = Cluster::start(2, |segment| if segment == 0 { vec![0] } else { vec![0, 1] }, adapt).await;
    // Takes the only place of the first node.
    let long = "SELECT sum(a.id * b.id + c.id * d.id + e.id) FROM t a, t b, t c, t d, t e WHERE a.id < 25";
    let long = format!("SET timeoutMs = 4000; SET resource_group = 'g0'; {long}");
    let holding = cluster.sql(&long);
    let other = async {
        until("the long query holds its place", async || cluster.workers[0].store.is_used()).await;
        cluster.sql("SET timeoutMs = 3000; SELECT count(*) FROM t").await
    };
    let (_, answer) = tokio::join!(holding, other);
    assert_eq!(codes(&answer), [429, 305], "{answer}");
    assert_eq!(
        answer["exceptions"][1]["message"],
        json!("1 segments unavailable: [s0]"),
        "the others went elsewhere"
    );
    assert_eq!(answer["resultTable"]["rows"], json!([[75]]));
    assert_eq!(node(&cluster, 0).await["routable"], json!(true), "a node that is busy is not ill");
}
