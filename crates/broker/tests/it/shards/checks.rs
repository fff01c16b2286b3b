//! Health checks of leaders: who gets them, and which answers count.

use std::time::Duration;

use pointsman_ids::{Incarnation, NodeId};
use serde_json::{Value, json};

use super::cluster::{Cluster, ids};
use crate::cluster::until;

/// A cluster whose two leaders are checked often.
async fn checked_often() -> Cluster {
    let cluster = Cluster::with(1, |settings| {
        settings.shard_client.health_check_interval = Duration::from_millis(20);
    })
    .await;
    cluster.nearest(5.0, 1, json!({})).await;
    rounds(&cluster, 2, 0).await;
    cluster
}

/// Waits until the leader at a place had so many more checks.
async fn rounds(cluster: &Cluster, count: u64, at: usize) {
    let enough = cluster.leaders[at].played.checks() + count;
    until("checks go on", async || cluster.leaders[at].played.checks() >= enough).await;
}

/// BR-6: neither the process that an operator has disabled nor the one that follows it at its address.
#[tokio::test]
async fn a_disabled_node_gets_no_health_checks() {
    let mut cluster = checked_often().await;
    cluster.change(|snapshot| snapshot.nodes[0].switched_on = false).await;
    let after_those_under_way = async |cluster: &Cluster| {
        rounds(cluster, 3, 1).await;
        cluster.leaders[0].played.checks()
    };
    let before = after_those_under_way(&cluster).await;
    rounds(&cluster, 10, 1).await;
    assert_eq!(cluster.leaders[0].played.checks(), before, "disabled");
    cluster
        .change(|snapshot| {
            (snapshot.nodes[0].id, snapshot.nodes[0].incarnation) = (NodeId(9), Incarnation(99));
            snapshot.collections = vec![];
        })
        .await;
    rounds(&cluster, 10, 1).await;
    assert_eq!(cluster.leaders[0].played.checks(), before, "started anew, and disabled all the same");
}

/// Enabled again it is asked at once: what was not checked counts neither for nor against it.
#[tokio::test]
async fn a_node_that_is_enabled_again_is_checked_and_asked() {
    let mut cluster = checked_often().await;
    cluster.change(|snapshot| snapshot.nodes[0].switched_on = false).await;
    rounds(&cluster, 10, 1).await;
    cluster.change(|snapshot| snapshot.nodes[0].switched_on = true).await;
    assert_eq!(ids(&cluster.nearest(5.0, 1, json!({"resource_group": "east"})).await), [5]);
    rounds(&cluster, 2, 0).await;
}

/// What a cache has kept from before the check is no evidence, whatever it looks like and however many there are.
#[tokio::test]
async fn an_answer_from_before_the_check_is_no_evidence() {
    for ages in [&["3600"][..], &["0", "3600"], &["99999999999999999999999"], &["a while"]] {
        let cluster = checked_often().await;
        *cluster.leaders[0].played.ages.lock().unwrap() = ages.to_vec();
        let unreachable = async || cluster.leader(0, 1).await["unavailable"] == json!(true);
        until("old answers count as failed checks", unreachable).await;
        *cluster.leaders[0].played.ages.lock().unwrap() = vec!["0"];
        let reachable = async || cluster.leader(0, 1).await["unavailable"] == Value::Bool(false);
        until("a fresh answer brings it back", reachable).await;
    }
}
