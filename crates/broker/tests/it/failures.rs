//! Nodes that die, hang and lack segments under queries.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use pointsman_ids::{Incarnation, SegmentId, catalog::SelectorKind, feed::CollectionEntry};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Broker, Cluster, change_collection, codes, complete, settings, until};

const SUM: &str = "SELECT sum(id) FROM t";

fn is_sum(answer: &Value) {
    assert_eq!(complete(answer), &json!([[4950]]));
}

#[tokio::test]
async fn a_node_that_dies_costs_no_query() {
    let mut cluster = Cluster::replicated().await;
    // Nobody has called it yet, so nobody knows.
    cluster.workers[0].kill();
    let answer = cluster.sql(SUM).await;
    is_sum(&answer);
    assert_eq!(answer["numServersQueried"], json!(1));
    assert_eq!(answer["coverage"]["nodes_failed"], json!(1));
    // The detector hears of it, and later queries do not even try.
    until("the dead node is excluded", async || {
        let nodes = cluster.broker.get("/debug/nodes").await.1;
        nodes["nodes"][0]["routable"] == json!(false) && nodes["nodes"][0]["evidence"].is_string()
    })
    .await;
    let answer = cluster.sql(SUM).await;
    is_sum(&answer);
    assert_eq!(answer["coverage"]["nodes_failed"], json!(0));
}

#[tokio::test]
async fn a_part_that_fails_is_run_again_without_the_rest() {
    // Nobody is excluded, so that the dead node is asked however soon its end is noticed.
    let mut cluster = Cluster::start(
        2,
        |_| vec![0, 1],
        |settings| settings.failure_detector.kind = pointsman_settings::DetectorKind::None,
    )
    .await;
    let body = json!({"sql": "SELECT sum(id), count(*) FROM t", "trace": true}).to_string();
    let clean = cluster.broker.post(&body, &[]).await.1;
    assert_eq!(clean["traceInfo"]["stages"], json!(1), "{clean}");
    cluster.workers[0].kill();
    let answer = cluster.broker.post(&body, &[]).await.1;
    assert_eq!(complete(&answer), complete(&clean));
    assert_eq!(answer["traceInfo"]["attempts"], json!(1), "the query itself ran once: {answer}");
    assert_eq!(answer["numDocsScanned"], clean["numDocsScanned"]);
    let coverage = &answer["coverage"];
    assert_eq!((&coverage["segments_asked"], &coverage["segments_answered"]), (&json!(4), &json!(4)));
    assert_eq!(
        (&coverage["nodes_asked"], &coverage["nodes_answered"], &coverage["nodes_failed"]),
        (&json!(1), &json!(1), &json!(1))
    );
}

#[tokio::test]
async fn a_budget_that_is_used_up_leaves_segments_missing() {
    // Ten retries in ten seconds are granted whatever is sent.
    let mut cluster = Cluster::start(
        2,
        |_| vec![0, 1],
        |settings| {
            settings.query.retry_ratio = 0.0;
            settings.failure_detector.kind = pointsman_settings::DetectorKind::None;
        },
    )
    .await;
    cluster.workers[0].kill();
    let mut answers = vec![];
    while answers.len() < 40
        && !answers.last().is_some_and(|answer: &Value| answer["partialResult"] == json!(true))
    {
        answers.push(cluster.sql(SUM).await);
    }
    let last = answers.pop().unwrap();
    answers.iter().for_each(is_sum);
    assert!(answers.len() >= 10, "{} queries were made good", answers.len());
    assert_eq!(codes(&last), [425, 305], "{last}");
    assert_eq!(last["coverage"]["unavailable"][0]["cause"], json!("retries_used_up"));
}

#[tokio::test]
async fn nodes_that_die_under_running_queries_cost_none() {
    let mut cluster = Cluster::replicated().await;
    let url = format!("{}/query/sql", cluster.broker.url);
    let client = reqwest::Client::new();
    let answered: Arc<[AtomicUsize; 4]> = Arc::default();
    let stop = CancellationToken::new();
    let loops: Vec<_> = (0..answered.len())
        .map(|own| {
            let (client, url) = (client.clone(), url.clone());
            let (answered, stop) = (Arc::clone(&answered), stop.clone());
            tokio::spawn(async move {
                while !stop.is_cancelled() {
                    let sql = json!({"sql": "SELECT a.id % 7 AS k, sum(b.id) FROM t a JOIN t b ON a.id = b.id GROUP BY k"});
                    let answer = client.post(&url).body(sql.to_string()).send().await.unwrap();
                    let answer: Value = answer.json().await.unwrap();
                    assert_eq!(complete(&answer).as_array().map(Vec::len), Some(7));
                    answered[own].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let at_least = |count| answered.iter().all(|queries| queries.load(Ordering::Relaxed) >= count);
    until("every loop runs", async || at_least(2)).await;
    cluster.workers[1].kill();
    let before = answered.iter().map(|queries| queries.load(Ordering::Relaxed)).max().unwrap();
    until("every loop went on without the node", async || at_least(before + 2)).await;
    stop.cancel();
    for queries in loops {
        queries.await.unwrap();
    }
}

#[tokio::test]
async fn a_node_that_hangs_is_found_out_and_left_out() {
    let cluster = Cluster::replicated().await;
    is_sum(&cluster.sql(SUM).await);
    cluster.workers[0].hang();
    let started = Instant::now();
    is_sum(&cluster.sql(SUM).await);
    assert!(started.elapsed() < Duration::from_secs(6), "took {:?}", started.elapsed());
    cluster.workers[0].wake();
}

#[tokio::test]
async fn a_node_that_comes_back_is_used_again() {
    let mut cluster = Cluster::replicated().await;
    cluster.workers[0].kill();
    is_sum(&cluster.sql(SUM).await);
    let new = crate::worker::Worker::start();
    for at in 0..crate::cluster::SEGMENTS {
        new.store.add(SegmentId(at + 1), cluster.dir.path().join(format!("s{at}.parquet")));
    }
    let url = new.url.clone();
    cluster.workers[0] = new;
    cluster
        .change(|snapshot| {
            snapshot.nodes[0].address = url;
            snapshot.nodes[0].incarnation = Incarnation(2);
        })
        .await;
    let answer = cluster.sql(SUM).await;
    is_sum(&answer);
    assert_eq!((&answer["numServersQueried"], &answer["coverage"]["nodes_failed"]), (&json!(2), &json!(0)));
}

#[tokio::test]
async fn a_segment_that_a_node_lacks_is_read_elsewhere() {
    let cluster = Cluster::replicated().await;
    cluster.workers[0].store.remove(SegmentId(1));
    cluster.workers[0].store.remove(SegmentId(2));
    cluster.workers[0].store.remove(SegmentId(3));
    for _ in 0..2 {
        is_sum(&cluster.sql(SUM).await);
    }
    let nodes = cluster.broker.get("/debug/nodes").await.1;
    assert_eq!(nodes["nodes"][0]["routable"], json!(true), "routing lags; the node is not ill");
}

/// Segments 0 and 1 on the first worker alone, 2 and 3 on the second alone.
async fn unreplicated() -> Cluster {
    Cluster::start(2, |segment| vec![usize::from(segment >= 2)], |_| {}).await
}

#[tokio::test]
async fn without_a_copy_left_the_answer_is_partial_and_says_so() {
    let mut cluster = unreplicated().await;
    cluster.workers[1].kill();
    let answer = cluster.sql("SELECT count(*) FROM t").await;
    assert_eq!(codes(&answer), [425, 305], "{answer}");
    assert_eq!(answer["exceptions"][1]["message"], json!("2 segments unavailable: [s2, s3]"));
    assert_eq!((&answer["partialResult"], &answer["resultTable"]["rows"]), (&json!(true), &json!([[50]])));
    // The node's segments were not answered elsewhere, so it counts.
    assert_eq!((&answer["numServersQueried"], &answer["numServersResponded"]), (&json!(2), &json!(1)));
    let missing = &answer["coverage"]["unavailable"][0];
    let expected =
        json!({"collection": "t", "segment": "s2", "cause": "retries_used_up", "nodes": ["local/n1"]});
    assert_eq!(missing, &expected);
    until("later queries know it beforehand", async || codes(&cluster.sql(SUM).await) == [305]).await;
    let answer = cluster.sql(SUM).await;
    assert_eq!(answer["coverage"]["unavailable"][0]["cause"], json!("all_excluded"));

    let refused = cluster.sql("SET allow_partial = false; SELECT count(*) FROM t").await;
    assert_eq!(codes(&refused), [305]);
    assert!(refused.get("resultTable").is_none());
    // The segments that are there are not asked for either.
    assert_eq!(
        (&refused["numServersQueried"], &refused["coverage"]["segments_asked"]),
        (&json!(0), &json!(2))
    );
}

#[tokio::test]
async fn a_join_that_gave_up_names_the_nodes_that_broke_it() {
    let place = |segment| vec![usize::from(segment >= 2)];
    let mut cluster = Cluster::start(2, place, |settings| {
        settings.query.max_attempts = 1;
        settings.failure_detector.kind = pointsman_settings::DetectorKind::None;
    })
    .await;
    cluster.workers[1].kill();
    let join = "SELECT a.id % 7 AS k, sum(b.id) FROM t a JOIN t b ON a.id = b.id GROUP BY k";
    let answer = cluster.sql(join).await;
    assert!(answer.get("resultTable").is_none(), "{answer}");
    assert_eq!(codes(&answer), [425, 305], "{answer}");
    let missing = answer["coverage"]["unavailable"].as_array().unwrap();
    assert_eq!(missing.len(), 4, "no row of any segment is in the answer");
    for missing in missing {
        assert_eq!(missing["nodes"], json!(["local/n1"]), "{answer}");
    }
}

#[tokio::test]
async fn a_request_that_is_refused_as_a_whole_tells_which_segments_have_nobody() {
    let mut cluster = unreplicated().await;
    let groups = |entry: &mut CollectionEntry| {
        entry.routing.selector = SelectorKind::MultiStageReplicaGroup;
        entry.routing.replica_groups = [(0, vec![vec!["n0".parse().unwrap(), "n1".parse().unwrap()]])].into();
    };
    cluster.change(|snapshot| change_collection(snapshot, groups)).await;
    is_sum(&cluster.sql(SUM).await);
    cluster.workers[1].kill();
    until("the dead node is excluded", async || {
        cluster.sql(SUM).await["coverage"]["unavailable"][0]["cause"] == json!("all_excluded")
    })
    .await;
    let answer = cluster.sql(SUM).await;
    assert_eq!(codes(&answer), [305], "{answer}");
    assert_eq!((&answer["partialResult"], answer.get("resultTable")), (&json!(true), None));
    let coverage = &answer["coverage"];
    assert_eq!((&coverage["segments_asked"], &coverage["segments_unavailable"]), (&json!(4), &json!(4)));
    let missing = json!({"collection": "t", "segment": "s2", "cause": "all_excluded", "nodes": ["local/n1"]});
    assert_eq!(coverage["unavailable"][0], missing);
    assert_eq!(coverage["unavailable"][2]["cause"], json!("group_incomplete"), "{answer}");
}

#[tokio::test]
async fn with_nobody_to_ask_there_is_no_table() {
    let mut cluster = unreplicated().await;
    cluster.workers[0].kill();
    cluster.workers[1].kill();
    until("both nodes are excluded", async || {
        let answer = cluster.sql(SUM).await;
        assert!(answer.get("resultTable").is_none(), "{answer}");
        codes(&answer) == [305]
    })
    .await;
    let answer = cluster.sql(SUM).await;
    assert_eq!(answer["exceptions"][0]["message"], json!("4 segments unavailable: [s0, s1, s2, s3]"));
    assert_eq!((&answer["numServersQueried"], &answer["partialResult"]), (&json!(0), &json!(true)));
    let coverage = &answer["coverage"];
    assert_eq!((&coverage["segments_asked"], &coverage["segments_unavailable"]), (&json!(4), &json!(4)));
}

#[tokio::test]
async fn a_deadline_names_the_nodes_that_were_silent() {
    let cluster = Cluster::replicated().await;
    is_sum(&cluster.sql(SUM).await);
    cluster.workers[0].hang();
    let answer = cluster.sql("SET timeoutMs = 300; SELECT count(*) FROM t").await;
    assert_eq!(codes(&answer), [427, 305], "{answer}");
    assert_eq!(answer["exceptions"][0]["message"], json!("1 nodes [n0] did not answer"));
    // What the other node gave is the answer.
    assert_eq!((&answer["partialResult"], &answer["resultTable"]["rows"]), (&json!(true), &json!([[50]])));
    assert_eq!((&answer["numServersQueried"], &answer["numServersResponded"]), (&json!(2), &json!(1)));
    let coverage = &answer["coverage"];
    assert_eq!((&coverage["segments_answered"], &coverage["segments_unavailable"]), (&json!(2), &json!(2)));
    assert_eq!(coverage["unavailable"][0]["cause"], json!("node_silent"));
    let answer = cluster.sql("SET timeoutMs = 300; SET allow_partial = false; SELECT count(*) FROM t").await;
    assert_eq!(codes(&answer), [427, 305], "{answer}");
    assert!(answer.get("resultTable").is_none());
    cluster.workers[0].wake();
}

#[tokio::test]
async fn a_broker_answers_and_starts_without_its_coordinator() {
    let Cluster { workers: _workers, feed, broker, dir, .. } = Cluster::replicated().await;
    assert_eq!(broker.get("/ready").await.1["view"], json!("coordinator"));
    drop(feed);
    until("the broker notices", async || broker.get("/ready").await.1["view"] == json!("memory")).await;
    let answer = broker.sql(SUM).await;
    is_sum(&answer);
    assert!(answer["coverage"]["routing_age"]["local"].is_u64(), "{answer}");
    broker.stop().await;

    let broker = Broker::start(settings(dir.path(), "http://127.0.0.1:1")).await;
    broker.ready().await;
    let (status, ready) = broker.get("/ready").await;
    assert_eq!((status, &ready["view"]), (200, &json!("disk")));
    assert!(ready["routing_age_ms"].is_u64());
    is_sum(&broker.sql(SUM).await);
    broker.stop().await;
}
