//! Bounds: bodies, answers, requests at once.

use std::time::Duration;

use pointsman_settings::Bytes;
use serde_json::json;

use super::cluster::Cluster;
use crate::cluster::until;

#[tokio::test]
async fn a_body_that_is_too_large_or_none_is_refused() {
    let cluster = Cluster::start(1).await;
    let (status, _, answer) = cluster.send("search", vec![b' '; (32 << 20) + 1]).await;
    assert_eq!((status, &answer["error"]["name"]), (413, &json!("parameter_too_large")), "{answer}");
    for body in ["", "[1]", "{\"collection\": 1}"] {
        let (status, _, answer) = cluster.send("get", body.into()).await;
        assert_eq!((status, &answer["error"]["name"]), (400, &json!("parameter_invalid")), "{answer}");
    }
    let (status, _, answer) = cluster.send("query", br#"{"collection": "docs", "limt": 1}"#.to_vec()).await;
    assert_eq!(status, 400);
    assert!(answer["error"]["message"].as_str().unwrap().contains("did you mean limit"), "{answer}");
    assert_eq!(cluster.visits(), [0, 0]);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_refused_and_never_cut() {
    let rows = Cluster::with(2, |settings| settings.query.max_result_rows = 5).await;
    let query = |limit: u32| json!({"collection": "docs", "limit": limit});
    assert_eq!(rows.post("query", query(5)).await.0, 200);
    let (status, answer) = rows.post("query", query(6)).await;
    assert_eq!((status, &answer["error"]["name"]), (400, &json!("parameter_too_large")), "{answer}");
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("broker.query.max_result_rows"),
        "{answer}"
    );
    let bytes = Cluster::with(2, |settings| settings.query.max_result_bytes = Bytes(50)).await;
    let (status, answer) = bytes.post("query", query(6)).await;
    assert_eq!(status, 400);
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("broker.query.max_result_bytes"),
        "{answer}"
    );
}

#[tokio::test]
async fn requests_and_queries_share_their_places() {
    let cluster = Cluster::with(1, |settings| {
        settings.query.max_concurrent = 1;
        settings.query.max_waiting = 0;
    })
    .await;
    for leader in &cluster.leaders {
        *leader.played.pause.lock().unwrap() = Duration::from_secs(2);
    }
    let meanwhile = async {
        until("the first runs", async || cluster.visits().iter().sum::<u64>() == 1).await;
        let refused = cluster.post("search", json!({"collection": "docs", "vector": [0, 0], "k": 1})).await;
        (refused, cluster.broker.sql("SELECT 1").await)
    };
    let (_, ((status, answer), sql)) = tokio::join!(cluster.nearest(1.0, 1, json!({})), meanwhile);
    assert_eq!((status, &answer["error"]["name"]), (429, &json!("service_too_many_requests")), "{answer}");
    assert_eq!(sql["exceptions"][0]["errorCode"], json!(429), "{sql}");
}

/// A time that nobody waits for is none that cannot be told.
#[tokio::test]
async fn any_time_may_be_given() {
    let cluster = Cluster::start(1).await;
    for time in [359_999_996_400_000_u64, 360_000_000_000_000, 1_000_000_000_000_000, u64::MAX] {
        assert_eq!(
            cluster.nearest(2.0, 1, json!({"timeout_ms": time})).await["rows"][0][0]["id"],
            2,
            "{time}"
        );
    }
    cluster.idle().await;
}
