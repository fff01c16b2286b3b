//! Leaders that die, hang, move, lag, refuse and are disabled, and callers that go away.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{Error, ErrorCode};
use serde_json::{Value, json};
use tonic::Status;

use super::cluster::{Cluster, ids, shard};
use crate::cluster::until;

const NONE: fn() -> Value = || json!({});

#[tokio::test]
async fn a_leader_that_dies_or_hangs_costs_time_and_no_answer() {
    for hangs in [false, true] {
        let mut cluster = Cluster::start(3).await;
        for place in [1.0, 11.0, 21.0, 29.0] {
            cluster.nearest(place, 1, NONE()).await;
        }
        if hangs {
            cluster.leaders[0].hang()
        } else {
            cluster.leaders[0].kill()
        }
        for _ in 0..6 {
            let answer = cluster.nearest(21.3, 2, NONE()).await;
            assert_eq!(ids(&answer), [21, 22]);
            let shards = answer["coverage"]["shards"].as_array().unwrap();
            assert!(shards.iter().all(|shard| shard["node"] == "n2"), "{answer}");
        }
        // The failure detector hears of it, so that queries go elsewhere as well.
        let excluded = async || {
            let nodes = cluster.broker.get("/debug/nodes").await.1;
            nodes["nodes"][0]["routable"] == json!(false)
        };
        until("the node is excluded", excluded).await;
        cluster.idle().await;
    }
}

#[tokio::test]
async fn a_scope_without_its_only_leader_is_refused_and_works_again() {
    let cluster = Cluster::start(1).await;
    let away = |leaders: &mut pointsman_proto::coordinator::v1::ShardLeaders| {
        leaders.node_ids.truncate(1);
        leaders.node_addrs.truncate(1);
        leaders.serviceable.truncate(1);
        leaders.resource_groups.truncate(1);
    };
    let whole = pointsman_proto::coordinator::v1::ShardLeaders {
        shard: shard(0),
        node_ids: vec![1, 2],
        node_addrs: cluster.leaders.iter().map(|leader| leader.url.clone()).collect(),
        serviceable: vec![true, true],
        resource_groups: vec!["east".into(), "west".into()],
    };
    cluster.coordinator.played.change(&shard(0), away);
    let body = json!({"collection": "docs", "vector": [0, 0], "k": 1, "resource_group": "west"});
    let (status, answer) = cluster.post("search", body.clone()).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!(103)), "{answer}");
    assert_eq!(cluster.visits(), [0, 0]);
    cluster.coordinator.played.set(whole);
    assert_eq!(cluster.post("search", body).await.0, 200);
    assert_eq!(cluster.visits(), [0, 1]);
}

#[tokio::test]
async fn a_leader_that_moved_is_followed() {
    let cluster = Cluster::start(1).await;
    let scope = || json!({"resource_group": "east"});
    cluster.nearest(1.0, 1, scope()).await;
    // The lead of `east` goes to node 2, which answers for both groups from now on.
    cluster.leaders[0].played.lead(BTreeMap::new());
    cluster.coordinator.played.change(&shard(0), |leaders| {
        leaders.node_ids = vec![2];
        leaders.node_addrs.remove(0);
        leaders.serviceable = vec![true];
        leaders.resource_groups = vec!["east".into()];
    });
    let answer = cluster.nearest(1.0, 1, scope()).await;
    assert_eq!((ids(&answer), cluster.visits()), (vec![1], [2, 1]));
    assert_eq!(cluster.coordinator.played.calls(), 2, "the cached leaders were out of date");
    // A word that passes does not put anybody on the list.
    let page = cluster.debug().await;
    assert_eq!(page["shards"][0]["avoided_besides"], json!([]), "{page}");
}

#[tokio::test]
async fn another_process_at_a_leaders_address_is_not_believed() {
    let cluster = Cluster::start(1).await;
    cluster.coordinator.played.change(&shard(0), |leaders| leaders.node_ids[0] = 9);
    let answer = cluster.nearest(5.0, 1, NONE()).await;
    assert_eq!((ids(&answer), answer["coverage"]["shards"][0]["node"].clone()), (vec![5], json!("n2")));
}

#[tokio::test]
async fn a_shard_that_lags_is_asked_again_until_all_are_from_one_target() {
    let cluster = Cluster::start(2).await;
    let leads = |at: usize| {
        let files = std::fs::read_dir(cluster.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let name = format!("{}.parquet", shard(at));
        let path = files.into_iter().find(|path| path.ends_with(&name)).unwrap();
        BTreeMap::from([(shard(at), BTreeMap::from([(pointsman_ids::SegmentId(at as u64 + 1), path)]))])
    };
    // One shard each.
    for at in 0..2 {
        cluster.leaders[at].played.lead(leads(at));
        cluster.coordinator.played.change(&shard(at), |leaders| {
            leaders.node_ids = vec![at as u64 + 1];
            leaders.node_addrs = vec![cluster.leaders[at].url.clone()];
            leaders.serviceable = vec![true];
            leaders.resource_groups.truncate(1);
        });
    }
    cluster.leaders[1].played.set_target(8);
    let catches_up = async {
        until("the lagging leader was asked", async || cluster.visits()[0] >= 1).await;
        cluster.leaders[0].played.set_target(8);
    };
    let (answer, ()) = tokio::join!(cluster.nearest(9.6, 2, NONE()), catches_up);
    assert_eq!((ids(&answer), &answer["coverage"]["target_version"]), (vec![10, 9], &json!(8)), "{answer}");
    // One that never gets there is refused, and never mixed in.
    cluster.leaders[1].played.set_target(9);
    let (status, answer) =
        cluster.post("search", json!({"collection": "docs", "vector": [0, 0], "k": 1})).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!(103)), "{answer}");
}

#[tokio::test]
async fn a_question_that_is_wrong_ends_at_once_and_nobody_is_blamed() {
    let cluster = Cluster::start(1).await;
    let wrong = pointsman_proto::status(&Error::new(ErrorCode::ParameterInvalid, "no such thing"));
    cluster.leaders.iter().for_each(|leader| leader.played.refuse(Some(wrong.clone())));
    let (status, answer) =
        cluster.post("search", json!({"collection": "docs", "vector": [0, 0], "k": 1})).await;
    assert_eq!((status, &answer["error"]["message"]), (400, &json!("no such thing")), "{answer}");
    assert_eq!(cluster.visits().iter().sum::<u64>(), 1);
    for node in [1, 2] {
        assert_eq!(cluster.leader(0, node).await["avoided_for_ms"], json!(null));
    }
    cluster.idle().await;
}

#[tokio::test]
async fn an_answer_without_our_details_is_never_the_callers_fault() {
    for status in [Status::unimplemented("what is that"), Status::invalid_argument("bad")] {
        let cluster = Cluster::start(1).await;
        cluster.leaders[0].played.refuse(Some(status));
        for _ in 0..4 {
            assert_eq!(ids(&cluster.nearest(6.0, 1, NONE()).await), [6], "the other leader answers");
        }
        assert_eq!(cluster.visits()[0], 1, "it is avoided for a while");
        assert!(cluster.leader(0, 1).await["avoided_for_ms"].as_u64().unwrap() > 0);
        // An operator may know better.
        let client = reqwest::Client::new();
        let url = format!("{}/debug/shards?collection=docs&shard={}&node=n1", cluster.broker.url, shard(0));
        let pardoned: Value = client.delete(url).send().await.unwrap().json().await.unwrap();
        assert_eq!(pardoned, json!({"was_avoided": true}));
        assert_eq!(cluster.leader(0, 1).await["avoided_for_ms"], json!(null));
    }
}

#[tokio::test]
async fn a_disabled_node_is_never_asked() {
    let mut cluster = Cluster::start(2).await;
    cluster.change(|snapshot| snapshot.nodes[0].switched_on = false).await;
    for _ in 0..4 {
        assert_eq!(ids(&cluster.nearest(15.0, 1, NONE()).await), [15]);
    }
    let body = json!({"collection": "docs", "vector": [0, 0], "k": 1, "resource_group": "east"});
    let (status, answer) = cluster.post("search", body).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!(103)), "{answer}");
    assert_eq!(cluster.visits()[0], 0);
    assert_eq!(cluster.leader(0, 1).await["standing"], "disabled");
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_nothing_behind() {
    let cluster = Cluster::start(3).await;
    cluster.nearest(1.0, 1, NONE()).await;
    for leader in &cluster.leaders {
        *leader.played.pause.lock().unwrap() = Duration::from_secs(60);
    }
    let impatient = reqwest::Client::builder().timeout(Duration::from_millis(300)).build().unwrap();
    let url = format!("{}/v1/search", cluster.broker.url);
    let body = json!({"collection": "docs", "vector": [0, 0], "k": 1}).to_string();
    assert!(impatient.post(url).body(body).send().await.unwrap_err().is_timeout());
    cluster.idle().await;
    for node in [1, 2] {
        assert_eq!(cluster.leader(0, node).await["avoided_for_ms"], json!(null), "nobody is blamed");
    }
    for leader in &cluster.leaders {
        *leader.played.pause.lock().unwrap() = Duration::ZERO;
    }
    assert_eq!(ids(&cluster.nearest(2.0, 1, NONE()).await), [2]);
}

#[tokio::test]
async fn a_leader_that_thinks_too_long_ends_with_the_callers_time() {
    let cluster = Cluster::start(1).await;
    for leader in &cluster.leaders {
        *leader.played.pause.lock().unwrap() = Duration::from_secs(60);
    }
    let body = json!({"collection": "docs", "vector": [0, 0], "k": 1, "timeout_ms": 400});
    let (status, answer) = cluster.post("search", body).await;
    assert_eq!((status, &answer["error"]["name"]), (504, &json!("deadline_exceeded")), "{answer}");
    cluster.idle().await;
}
