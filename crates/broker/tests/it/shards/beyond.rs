//! A preferred group, a limit on the time of retries, leaders that become serviceable, and what operators can do.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{Error, ErrorCode, FeedVersion, feed::LeaderDrops};
use pointsman_proto::{
    broker::v1::{RequestOptions, SearchRequest, shard_requests_client::ShardRequestsClient},
    common::v1 as pb,
};
use serde_json::{Value, json};

use super::cluster::{Cluster, DOCS, ids, shard};

/// Node and whether that was the fallback, for every shard of an answer.
fn who(answer: &Value) -> Vec<(u64, bool)> {
    let shards = answer["coverage"]["shards"].as_array().unwrap().iter();
    shards.map(|shard| (shard["node_id"].as_u64().unwrap(), shard["fell_back"].as_bool().unwrap())).collect()
}

#[tokio::test]
async fn a_preferred_group_answers_while_it_can_and_the_answer_says_who_did_instead() {
    let mut cluster = Cluster::start(3).await;
    for _ in 0..4 {
        let answer = cluster.nearest(14.2, 2, json!({"preferred_group": "west"})).await;
        assert_eq!((ids(&answer), who(&answer)), (vec![14, 15], vec![(2, false); 3]));
    }
    assert_eq!(cluster.visits(), [0, 12]);
    // Beside the scope, never instead of it.
    let answer = cluster.nearest(14.2, 2, json!({"preferred_group": "west", "resource_group": "east"})).await;
    assert_eq!(who(&answer), [(1, true); 3]);
    cluster.leaders[1].kill();
    for _ in 0..3 {
        let answer = cluster.nearest(14.2, 2, json!({"preferred_group": "west"})).await;
        assert_eq!((ids(&answer), who(&answer)), (vec![14, 15], vec![(1, true); 3]));
    }
    let body = json!({"collection": "docs", "vector": [0, 0], "k": 1, "preferred_group": "wset"});
    let (status, answer) = cluster.post("search", body).await;
    assert_eq!((status, &answer["error"]["name"]), (400, &json!("resource_group_not_found")), "{answer}");
}

#[tokio::test]
async fn a_broker_that_stands_near_a_group_prefers_it_for_requests_that_name_none() {
    let cluster = Cluster::with(2, |settings| settings.shard_client.preferred_group = "west".into()).await;
    for (more, expected) in [(json!({}), (2, false)), (json!({"preferred_group": "east"}), (1, false))] {
        for _ in 0..3 {
            assert_eq!(who(&cluster.nearest(4.0, 1, more.clone()).await), [expected; 2], "{more}");
        }
    }
    let mut client = ShardRequestsClient::connect(cluster.broker.grpc.clone()).await.unwrap();
    let vector = pb::Vector { values: vec![0.0, 0.0] };
    let search = pb::Search { vectors: vec![vector], k: 1, ..pb::Search::default() };
    let options = RequestOptions { resource_group: "east".into(), ..RequestOptions::default() };
    let request = SearchRequest { collection: "docs".into(), search: Some(search), options: Some(options) };
    let coverage = client.search(request).await.unwrap().into_inner().coverage.unwrap();
    assert!(coverage.shards.iter().all(|shard| shard.fell_back && shard.node == "n1"), "{coverage:?}");
}

#[tokio::test]
async fn retries_end_in_time_and_the_refusal_says_when_to_come_back() {
    let cluster = Cluster::with(1, |settings| {
        settings.shard_client.retry_time = Duration::from_millis(500);
        settings.shard_client.retry_on_replica = 50;
    })
    .await;
    let busy = Error::new(ErrorCode::NodeNotServing, "it starts");
    for leader in &cluster.leaders {
        leader.played.refuse(Some(pointsman_proto::status(&busy)));
    }
    let body = json!({"collection": "docs", "vector": [0, 0], "k": 1});
    let (status, answer) = cluster.post("search", body.clone()).await;
    assert_eq!((status, &answer["error"]["name"]), (503, &json!("node_not_serving")), "{answer}");
    // Attempts at 0 and 200 ms; the one after 400 ms more would come too late.
    assert_eq!(cluster.visits().iter().sum::<u64>(), 2);
    assert_eq!(answer["error"]["retry_after_ms"], json!(400), "{answer}");
    let url = format!("{}/v1/search", cluster.broker.url);
    let response = cluster.client.post(url).body(body.to_string()).send().await.unwrap();
    assert_eq!(response.headers()["retry-after"], "1", "whole seconds");

    let mut client = ShardRequestsClient::connect(cluster.broker.grpc.clone()).await.unwrap();
    let search =
        pb::Search { vectors: vec![pb::Vector { values: vec![0.0; 2] }], k: 1, ..Default::default() };
    let request = SearchRequest { collection: "docs".into(), search: Some(search), options: None };
    let details = pointsman_proto::details(&client.search(request).await.unwrap_err()).unwrap();
    assert_eq!((details.retriable, details.retry_after_ms), (true, 400), "{details:?}");
}

#[tokio::test]
async fn a_leader_that_becomes_serviceable_is_asked_without_a_failure_first() {
    let mut cluster = Cluster::start(1).await;
    let serves = |yes: bool| {
        move |leaders: &mut pointsman_proto::coordinator::v1::ShardLeaders| {
            leaders.serviceable[1] = yes;
        }
    };
    cluster.coordinator.played.change(&shard(0), serves(false));
    for _ in 0..4 {
        cluster.nearest(1.0, 1, json!({})).await;
    }
    assert_eq!(cluster.visits(), [4, 0]);
    cluster.coordinator.played.change(&shard(0), serves(true));
    cluster.drop_leaders(LeaderDrops::Of(BTreeMap::from([(DOCS, FeedVersion(2))]))).await;
    for _ in 0..4 {
        cluster.nearest(1.0, 1, json!({})).await;
    }
    assert!(cluster.visits()[1] > 0, "{:?}", cluster.visits());
    assert_eq!(cluster.coordinator.played.calls(), 2);
}

#[tokio::test]
async fn an_operator_has_the_broker_ask_for_leaders_again() {
    let cluster = Cluster::start(1).await;
    let clear = async |more: &str| {
        let url = format!("{}/debug/shards?collection=docs{more}", cluster.broker.url);
        let response = cluster.client.delete(url).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    assert_eq!(clear("").await, (200, json!({"was_cached": false})));
    cluster.nearest(1.0, 1, json!({})).await;
    assert_eq!(clear("").await, (200, json!({"was_cached": true})));
    cluster.nearest(1.0, 1, json!({})).await;
    assert_eq!(cluster.coordinator.played.calls(), 2);
    for half in ["&shard=docs-00", "&node=n1"] {
        let (status, answer) = clear(half).await;
        assert_eq!((status, &answer["error"]["name"]), (400, &json!("parameter_missing")), "{answer}");
    }
    let (status, answer) = clear("&shard=docs-99&node=n1").await;
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(status == 404 && text.contains("has no shard 'docs-99'; did you mean"), "{answer}");
    let (status, answer) = clear("&shard=docs-00&node=n99").await;
    assert!(
        status != 200 && answer["error"]["message"].as_str().unwrap().contains("no node 'n99'; "),
        "{answer}"
    );
    assert_eq!(cluster.coordinator.played.calls(), 2);
}
