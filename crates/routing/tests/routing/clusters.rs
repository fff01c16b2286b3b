//! A broker that routes to two clusters.

use std::time::Duration;

use pointsman_ids::{Incarnation, NodeKey, feed::CollectionEntry};
use pointsman_routing::{ClusterSettings, RouteRequest};

use crate::{
    coordinator::{Broker, Feed, Process},
    values::{collection, key, name, nodes, snapshot, snapshot_of, until},
};

/// A collection that spans both clusters.
fn both(version: u64, segments: u64) -> CollectionEntry {
    let clusters = vec!["local".parse().unwrap(), "west".parse().unwrap()];
    CollectionEntry { clusters, ..collection("t", version, segments, &[1]) }
}

fn west(node: &str) -> NodeKey {
    NodeKey { cluster: "west".parse().unwrap(), node: name(node) }
}

/// A broker of the local coordinator whose remote cluster has its coordinator at this URL.
async fn start(folder: &tempfile::TempDir, local: &Process, remote: &str) -> Broker {
    let coordinators = vec![remote.parse().unwrap()];
    let remote = ClusterSettings { name: "west".parse().unwrap(), coordinators };
    Broker::start_with(folder.path(), &[local], |start| start.0.remote.push(remote)).await
}

fn local_feed() -> Feed {
    Feed::with_deltas(1, snapshot(1, nodes(1), vec![both(1, 2)]))
}

fn west_feed(version: u64, segments: u64) -> Feed {
    Feed::with_deltas(1, snapshot_of("west", version, nodes(2), vec![both(version, segments)]))
}

/// How many segments are asked of each cluster, and how many clusters are missed.
fn asked(broker: &Broker) -> (usize, usize, usize) {
    let table = broker.routing.view().route(&RouteRequest::all("t", 0)).unwrap();
    let of = |cluster: &str| {
        let parts = table.parts.iter().filter(|part| part.node.key.cluster.as_str() == cluster);
        parts.map(|part| part.segments.len()).sum()
    };
    (of("local"), of("west"), table.missing.len())
}

#[tokio::test]
async fn a_cluster_that_is_away_at_the_start_is_missed_and_comes_up_later() {
    let folder = tempfile::tempdir().unwrap();
    let local = local_feed().serve().await;
    let address = Process::node().await.kill().await;
    let broker = start(&folder, &local, &format!("http://{address}")).await;
    until("the local one is heard", || broker.routing.is_ready()).await;
    assert_eq!(asked(&broker), (2, 0, 1));
    let states = broker.routing.feeds();
    assert_eq!(states.iter().map(|state| state.cluster.as_str()).collect::<Vec<_>>(), ["local", "west"]);
    assert!(!states[1].connected && states[1].age.is_none(), "{states:?}");

    let mut changed = broker.routing.changed();
    changed.mark_unchanged();
    let feed = west_feed(7, 3);
    let _west = feed.serve_at(address).await;
    changed.changed().await.unwrap();
    until("the other one is heard", || broker.routing.feeds()[1].connected).await;
    assert_eq!(asked(&broker), (2, 3, 0));
    assert_eq!(broker.routing.nodes().len(), 3);
    assert_eq!(broker.version(), 1, "versions are those of the local cluster");
    until("it is acknowledged", || feed.heard().acknowledged.get("local.broker-1") == Some(&7)).await;
}

#[tokio::test]
async fn a_cluster_that_is_lost_is_routed_by_its_last_snapshot_over_a_restart_too() {
    let folder = tempfile::tempdir().unwrap();
    let local = local_feed().serve().await;
    let remote = west_feed(7, 3).serve().await;
    let url = remote.url();
    let broker = start(&folder, &local, &url).await;
    until("both are heard", || broker.routing.feeds().iter().all(|state| state.connected)).await;
    let address = remote.kill().await;
    until("the absence is noticed", || !broker.routing.feeds()[1].connected).await;
    assert_eq!(asked(&broker), (2, 3, 0));
    until("its age grows", || broker.routing.feeds()[1].age > Some(Duration::from_millis(100))).await;
    assert!(broker.routing.feed().connected && broker.routing.feed().age.is_none());

    broker.stop().await;
    let broker = start(&folder, &local, &url).await;
    assert_eq!(asked(&broker), (2, 3, 0));
    assert!(broker.routing.feeds()[1].age > Some(Duration::from_millis(100)));

    let _back = west_feed(9, 4).serve_at(address).await;
    until("it is back", || broker.routing.feeds()[1].connected).await;
    until("its newest is taken", || asked(&broker) == (2, 4, 0)).await;
}

#[tokio::test]
async fn nodes_of_one_name_in_two_clusters_are_two_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let local = local_feed().serve().await;
    let remote = west_feed(7, 3).serve().await;
    let broker = start(&folder, &local, &remote.url()).await;
    until("both are heard", || broker.routing.feeds().iter().all(|state| state.connected)).await;
    broker.routing.report_unreachable(&west("n1"), Incarnation(1), "reset");
    until("it is excluded", || !broker.routing.view().is_routable(&west("n1"))).await;
    assert!(broker.routing.view().is_routable(&key("n1")));
}

#[tokio::test]
async fn a_coordinator_of_another_cluster_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let local = local_feed().serve().await;
    let foreign = Feed::new(1, snapshot_of("east", 9, nodes(9), vec![]));
    let remote = foreign.serve().await;
    let broker = start(&folder, &local, &remote.url()).await;
    until("the local one is heard", || broker.routing.is_ready()).await;
    until("the other was asked twice", || foreign.heard().watches.len() >= 2).await;
    assert_eq!(broker.routing.nodes().len(), 1);
    assert_eq!(asked(&broker), (2, 0, 1));
}
