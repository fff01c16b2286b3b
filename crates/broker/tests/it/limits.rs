//! Queries that are too many, too long, too large, or whose client went away.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    cluster::{Cluster, codes, complete, until},
    worker::Worker,
};

/// Runs for minutes on the nodes if it may.
const LONG: &str = "SELECT sum(a.id * b.id + c.id * d.id + e.id) FROM t a, t b, t c, t d, t e";

async fn one_at_a_time(max_waiting: usize) -> Cluster {
    let adapt = |settings: &mut pointsman_settings::BrokerSettings| {
        settings.query.max_concurrent = 1;
        settings.query.max_waiting = max_waiting;
        settings.query.timeout = Duration::from_secs(60);
    };
    Cluster::start(2, |_| vec![0, 1], adapt).await
}

/// A client that sends a query and reads nothing. Hangs up when dropped.
async fn client(cluster: &Cluster, sql: &str) -> TcpStream {
    let body = json!({"sql": sql}).to_string();
    let address = cluster.broker.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST /query/sql HTTP/1.1\r\nhost: broker\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

fn is_used(cluster: &Cluster) -> bool {
    cluster.workers.iter().any(|worker| worker.store.is_used())
}

/// Waits until the nodes do nothing for a while.
async fn idle(cluster: &Cluster) {
    let busy = || cluster.workers.iter().map(Worker::busy).sum::<Duration>();
    until("the nodes are idle", async || {
        let before = busy();
        tokio::time::sleep(Duration::from_millis(100)).await;
        busy() - before < Duration::from_millis(20)
    })
    .await;
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_query_down_to_the_nodes() {
    let cluster = one_at_a_time(0).await;
    let client = client(&cluster, LONG).await;
    until("the nodes work", async || is_used(&cluster)).await;
    assert_eq!(codes(&cluster.sql("SELECT 1").await), [429], "the place is taken and nobody may wait");
    drop(client);
    until("the place is free again", async || codes(&cluster.sql("SELECT 1").await).is_empty()).await;
    idle(&cluster).await;
}

#[tokio::test]
async fn a_query_waits_for_a_place_within_its_deadline() {
    let cluster = one_at_a_time(1).await;
    let client = client(&cluster, LONG).await;
    until("the nodes work", async || is_used(&cluster)).await;
    let answer = cluster.sql("SELECT 1 OPTION(timeoutMs=100)").await;
    assert_eq!(codes(&answer), [400], "{answer}");
    let (waited, ()) = tokio::join!(cluster.sql("SELECT 1"), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(client);
    });
    assert_eq!(complete(&waited), &json!([[1]]));
}

#[tokio::test]
async fn a_deadline_ends_a_query_everywhere() {
    let cluster = one_at_a_time(0).await;
    let started = Instant::now();
    let answer = cluster.sql(&format!("SET timeout = '300ms'; {LONG}")).await;
    assert_eq!(codes(&answer), [427, 305], "{answer}");
    assert!(started.elapsed() < Duration::from_secs(5));
    idle(&cluster).await;
    assert_eq!(complete(&cluster.sql("SELECT 1").await), &json!([[1]]));
}

#[tokio::test]
async fn the_timeout_of_a_collection_counts_when_the_query_names_none() {
    let mut cluster = Cluster::replicated().await;
    cluster
        .change(|snapshot| {
            crate::cluster::change_collection(snapshot, |entry| {
                entry.query_timeout = Some(Duration::from_millis(200))
            });
        })
        .await;
    assert_eq!(codes(&cluster.sql(LONG).await), [427, 305]);
}

#[tokio::test]
async fn a_result_that_is_too_long_is_cut_and_says_so() {
    let cut = |settings: &mut pointsman_settings::BrokerSettings| settings.query.max_result_rows = 10;
    let cluster = Cluster::start(2, |_| vec![0, 1], cut).await;
    let answer = cluster.sql("SELECT id FROM t").await;
    assert_eq!((codes(&answer), &answer["partialResult"]), (vec![450], &json!(true)), "{answer}");
    assert_eq!(answer["numRowsResultSet"], json!(10));
    assert!(answer["exceptions"][0]["message"].as_str().unwrap().contains("broker.query.max_result_rows"));
    assert_eq!(complete(&cluster.sql("SELECT id FROM t LIMIT 10").await).as_array().map(Vec::len), Some(10));
    let refused = cluster.sql("SET allow_partial = false; SELECT id FROM t").await;
    assert_eq!((codes(&refused), refused.get("resultTable")), (vec![450], None));
}
