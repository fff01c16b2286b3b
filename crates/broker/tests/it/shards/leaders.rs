//! Where leaders are known from: the coordinator, old and broken ones among them, and the feed.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use pointsman_ids::{CollectionId, Error, ErrorCode, FeedVersion, feed::LeaderDrops};
use serde_json::json;

use super::{
    cluster::{Cluster, DOCS, ids, shard},
    coordinator::Coordinator,
};

#[tokio::test]
async fn a_thousand_requests_on_a_cold_cache_make_one_call() {
    let cluster = Cluster::with(2, |settings| settings.query.max_waiting = 2000).await;
    *cluster.coordinator.played.pause.lock().unwrap() = Duration::from_millis(300);
    let all = join_all((0..1000).map(|_| cluster.nearest(3.0, 1, json!({})))).await;
    assert!(all.iter().all(|answer| ids(answer) == [3]));
    assert_eq!(cluster.coordinator.played.calls(), 1);
    cluster.idle().await;
}

#[tokio::test]
async fn an_old_coordinator_serves_requests_without_a_scope_alone() {
    let cluster = Cluster::start(2).await;
    for at in 0..2 {
        cluster.coordinator.played.change(&shard(at), |leaders| leaders.resource_groups.clear());
    }
    assert_eq!(ids(&cluster.nearest(11.0, 1, json!({})).await), [11]);
    let before = cluster.visits();
    let body = json!({"collection": "docs", "vector": [0, 0], "k": 1, "resource_group": "east"});
    let (status, answer) = cluster.post("search", body).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!(103)), "{answer}");
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("'east'") && text.contains("of unknown group"), "the cause is told: {text}");
    assert_eq!(cluster.visits(), before, "nobody outside the scope is asked");
    assert_eq!(cluster.leader(0, 1).await["group"], json!(null));
}

#[tokio::test]
async fn misaligned_groups_are_unknown_in_their_shard_alone() {
    let cluster = Cluster::start(2).await;
    cluster.coordinator.played.change(&shard(1), |leaders| {
        leaders.resource_groups.pop();
    });
    assert_eq!(ids(&cluster.nearest(12.0, 1, json!({})).await), [12]);
    assert_eq!(cluster.leader(0, 2).await["group"], "west");
    assert_eq!(
        cluster.leader(1, 1).await["group"],
        json!(null),
        "not even the one that is there is believed"
    );
    let body = json!({"collection": "docs", "vector": [0, 0], "k": 1, "resource_group": "west"});
    let (status, answer) = cluster.post("search", body).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!(103)), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains(&shard(1)), "{answer}");
}

#[tokio::test]
async fn a_shard_with_malformed_lists_fails_visibly() {
    let cluster = Cluster::start(2).await;
    cluster.coordinator.played.change(&shard(1), |leaders| {
        leaders.node_addrs.pop();
    });
    let body = json!({"collection": "docs", "vector": [0, 0], "k": 1});
    let (status, answer) = cluster.post("search", body).await;
    assert_eq!((status, &answer["error"]["name"]), (500, &json!("channel_not_available")), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains(&shard(1)), "{answer}");
    let page = cluster.debug().await;
    assert_eq!(page["shards"][1]["leaders"], json!([]), "{page}");
    assert_eq!(page["shards"][0]["leaders"].as_array().unwrap().len(), 2, "{page}");
}

#[tokio::test]
async fn leaders_are_forgotten_before_a_version_that_says_so_is_acknowledged() {
    let mut cluster = Cluster::start(1).await;
    let is_cached = async |cluster: &Cluster| cluster.debug().await["cached"] == json!(true);
    assert!(!is_cached(&cluster).await);
    cluster.nearest(1.0, 1, json!({})).await;
    assert!(is_cached(&cluster).await);
    let of = |collection, version| LeaderDrops::Of(BTreeMap::from([(collection, FeedVersion(version))]));
    cluster.drop_leaders(of(CollectionId(32), 2)).await;
    assert!(is_cached(&cluster).await, "those of another collection");
    cluster.drop_leaders(of(DOCS, 3)).await;
    assert!(!is_cached(&cluster).await);
    cluster.nearest(1.0, 1, json!({})).await;
    cluster.drop_leaders(LeaderDrops::All).await;
    assert!(!is_cached(&cluster).await);
    cluster.nearest(1.0, 1, json!({})).await;
    cluster.change(|_| {}).await;
    assert!(!is_cached(&cluster).await, "whoever is told everything anew forgets everything");
    assert_eq!(cluster.coordinator.played.calls(), 3);
}

#[tokio::test]
async fn the_active_coordinator_is_found_and_remembered() {
    let seed = Cluster::start(1).await;
    let standby = Coordinator::start(&seed.snapshot);
    standby.played.refuse(Some(Error::new(ErrorCode::ServiceNotReady, "it stands by")));
    let url = standby.url.clone();
    let mut cluster = Cluster::with(1, |settings| settings.coordinators.insert(0, url)).await;
    for _ in 0..3 {
        assert_eq!(ids(&cluster.nearest(4.0, 1, json!({})).await), [4]);
        cluster.drop_leaders(LeaderDrops::All).await;
    }
    assert_eq!((standby.played.calls(), cluster.coordinator.played.calls()), (1, 3));
}

#[tokio::test]
async fn without_a_coordinator_the_leaders_of_the_feed_are_asked() {
    let mut cluster = Cluster::start(2).await;
    cluster.coordinator.kill();
    let answer = cluster.nearest(13.0, 1, json!({"resource_group": "west"})).await;
    assert_eq!(ids(&answer), [13]);
    assert_eq!(cluster.visits(), [0, 2]);
}

#[tokio::test]
async fn a_coordinator_that_does_not_have_the_collection_is_believed_at_once() {
    let cluster = Cluster::start(1).await;
    cluster.coordinator.played.refuse(Some(Error::new(ErrorCode::CollectionNotLoaded, "released")));
    let (status, answer) =
        cluster.post("search", json!({"collection": "docs", "vector": [0, 0], "k": 1})).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!(101)), "{answer}");
    assert_eq!(cluster.coordinator.played.calls(), 1);
    cluster.coordinator.played.refuse(None);
    assert_eq!(ids(&cluster.nearest(1.0, 1, json!({})).await), [1], "an error is never cached");
}
