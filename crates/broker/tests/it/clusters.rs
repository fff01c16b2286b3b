//! One broker, two clusters: a collection that lies in both. Names and numbers of nodes and segments are the same in
//! both, as each cluster gives them on its own.

use std::path::Path;

use pointsman_ids::feed::Snapshot;
use pointsman_settings::RemoteClusterSettings;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cluster::{Broker, change_collection, codes, complete, settings, snapshot, until},
    feed::Feed,
    worker::Worker,
};

const SUM: &str = "SELECT count(*), sum(id) FROM t";

struct Two {
    broker: Broker,
    local: Worker,
    west: Worker,
    west_feed: Option<Feed>,
    _local_feed: Feed,
    _dir: TempDir,
}

/// A cluster of one worker with a collection that spans both.
fn cluster(dir: &Path, name: &str) -> (Worker, Snapshot) {
    let dir = dir.join(name);
    std::fs::create_dir(&dir).unwrap();
    let mut workers = vec![Worker::start()];
    let mut snapshot = snapshot(&dir, &workers, |_| vec![0]);
    snapshot.cluster = name.parse().unwrap();
    let clusters = ["local", "west"].map(|name| name.parse().unwrap());
    change_collection(&mut snapshot, |entry| entry.clusters = clusters.into());
    (workers.remove(0), snapshot)
}

impl Two {
    async fn start(is_west_up: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (local, snapshot) = cluster(dir.path(), "local");
        let local_feed = Feed::start(snapshot);
        let (west, snapshot) = cluster(dir.path(), "west");
        let west_feed = is_west_up.then(|| Feed::start(snapshot));
        let mut settings = settings(dir.path(), &local_feed.url);
        let coordinator = west_feed.as_ref().map_or("http://127.0.0.1:1", |feed| &feed.url).to_owned();
        settings.remote_clusters =
            vec![RemoteClusterSettings { name: "west".into(), coordinators: vec![coordinator] }];
        let broker = Broker::start(settings).await;
        broker.ready().await;
        let two = Self { broker, local, west, west_feed, _local_feed: local_feed, _dir: dir };
        if is_west_up {
            until("the broker hears of the other cluster", async || codes(&two.sum().await).is_empty()).await;
        }
        two
    }

    async fn sum(&self) -> Value {
        self.broker.sql(SUM).await
    }

    /// Whether the broker routes to the node of each cluster.
    async fn routable(&self) -> [bool; 2] {
        let nodes = self.broker.get("/debug/nodes").await.1;
        [0, 1].map(|at: usize| nodes["nodes"][at]["routable"] == json!(true))
    }
}

#[tokio::test]
async fn both_parts_are_in_the_answer() {
    let two = Two::start(true).await;
    let answer = two.sum().await;
    assert_eq!(complete(&answer), &json!([[200, 9900]]));
    assert_eq!((&answer["numServersQueried"], &answer["numSegmentsQueried"]), (&json!(2), &json!(8)));
    let (_, page) = two.broker.get("/debug/route?collection=t").await;
    let nodes: Vec<_> =
        page["scans"][0]["parts"].as_array().unwrap().iter().map(|part| part["node"].clone()).collect();
    assert_eq!(nodes, [json!("local/n0"), json!("west/n0")]);
    let pruned = two.broker.sql("SELECT count(*) FROM t WHERE id < 25").await;
    assert_eq!((complete(&pruned), &pruned["numSegmentsQueried"]), (&json!([[50]]), &json!(2)));
    drop(two.local);
}

#[tokio::test]
async fn a_cluster_that_never_connected_is_missed() {
    let two = Two::start(false).await;
    let answer = two.sum().await;
    assert_eq!(codes(&answer), [510], "{answer}");
    assert!(answer["exceptions"][0]["message"].as_str().unwrap().contains("west"), "{answer}");
    assert_eq!(
        (&answer["resultTable"]["rows"], &answer["partialResult"]),
        (&json!([[100, 4950]]), &json!(true))
    );
    let refused = two.broker.sql(&format!("SET allow_partial = false; {SUM}")).await;
    assert_eq!((codes(&refused), refused.get("resultTable")), (vec![510], None));
    let (_, page) = two.broker.get("/debug/route?collection=t").await;
    assert_eq!(page["scans"][0]["not_connected"], json!(["west"]));
    let clusters = two.broker.get("/ready").await.1["clusters"].clone();
    assert_eq!((&clusters[0]["connected"], &clusters[1]["feed_version"]), (&json!(true), &Value::Null));
}

#[tokio::test]
async fn a_cluster_that_is_lost_later_is_routed_by_its_last_word() {
    let mut two = Two::start(true).await;
    drop(two.west_feed.take());
    until("the broker notices", async || two.sum().await["coverage"]["routing_age"]["west"].is_u64()).await;
    let answer = two.sum().await;
    assert_eq!(complete(&answer), &json!([[200, 9900]]));
    assert!(answer["coverage"]["routing_age"].get("local").is_none(), "{answer}");
}

#[tokio::test]
async fn a_node_that_fails_is_excluded_in_its_own_cluster() {
    let mut two = Two::start(true).await;
    two.west.kill();
    until("the dead node is excluded", async || codes(&two.sum().await) == [305]).await;
    assert_eq!(two.routable().await, [true, false]);
    let answer = two.sum().await;
    assert_eq!(answer["resultTable"]["rows"], json!([[100, 4950]]));
    let missing = &answer["coverage"]["unavailable"][0];
    assert_eq!((&missing["cause"], &missing["nodes"]), (&json!("all_excluded"), &json!(["west/n0"])));
}
