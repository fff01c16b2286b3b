//! A node that is told to stop.

use std::time::{Duration, Instant};

use pointsman_node::Pace;
use pointsman_settings::NodeSettings;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    cluster::{Cluster, content},
    coordinator::{Coordinator, DEADLINE},
    node::{self, Node},
};

async fn health(url: &str) -> ServingStatus {
    let channel = tonic::transport::Endpoint::from_shared(url.to_owned()).unwrap().connect().await.unwrap();
    HealthClient::new(channel).check(HealthCheckRequest::default()).await.unwrap().into_inner().status()
}

#[tokio::test]
async fn a_node_that_drains_says_so_everywhere_and_ends_by_itself() {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[cluster.push(1, &content(1))]);
    let node = cluster.node_with(Pace { settle: Duration::from_secs(2), ..node::pace() });
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    assert_eq!(health(&node.grpc).await, ServingStatus::Serving);
    node.stop();
    cluster.coordinator.until("stopping", |heard| heard.stopping.len() == 1).await;
    assert_eq!(health(&node.grpc).await, ServingStatus::NotServing);
    node.until_page("/ready", |status, ready| status == 503 && ready["why"] == "it drains").await;
    assert!(!node.ended(), "it serves on while brokers hear of it");
    node.end().await.unwrap();
    assert_eq!(cluster.coordinator.heard().hellos.len(), 1);
}

#[tokio::test]
async fn a_node_without_a_coordinator_stops_too() {
    let cluster = Cluster::start();
    let settings = NodeSettings { grace: Duration::from_secs(30), ..cluster.settings() };
    drop(cluster.coordinator);
    let node = Node::start(settings, node::pace());
    node.until_page("/ready", |_, ready| {
        ready["why"].as_str().is_some_and(|why| why.contains("coordinator"))
    })
    .await;
    let told = Instant::now();
    node.stop();
    node.end().await.unwrap();
    assert!(told.elapsed() < Duration::from_secs(30), "it waited out its grace");
}

#[tokio::test]
async fn a_node_serves_on_until_the_coordinator_says_that_it_may_leave() {
    let cluster = Cluster::start();
    cluster.coordinator.change(|script| script.tells_leave = true);
    cluster.coordinator.want(&[cluster.push(1, &content(1))]);
    let settings = NodeSettings { grace: Duration::from_secs(60), ..cluster.settings() };
    let node = Node::start(settings, node::pace());
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    node.stop();
    let heard = cluster.coordinator.until("stopping", |heard| heard.stopping.len() == 1).await;
    assert!((30_000..=60_000).contains(&heard.stopping[0]), "{:?}", heard.stopping);
    // Nothing is wanted of it, and no call runs; that is no reason to go.
    cluster.coordinator.want(&[]);
    cluster.coordinator.until("nothing held", |heard| heard.holds(&[])).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!node.ended(), "nobody has said that it may go");
    assert_eq!(health(&node.grpc).await, ServingStatus::Serving, "others may still need it");
    cluster.coordinator.change(|script| script.leave = true);
    node.end().await.unwrap();
}

#[tokio::test]
async fn a_node_that_drains_says_again_to_the_next_session_that_it_stops() {
    let cluster = Cluster::start();
    cluster.coordinator.change(|script| script.tells_leave = true);
    let settings = NodeSettings { grace: Duration::from_secs(60), ..cluster.settings() };
    // It waits for a coordinator longer than the next one takes to come.
    let node = Node::start(settings, Pace { reconnect_max: DEADLINE, ..node::pace() });
    cluster.coordinator.until("a session", |heard| !heard.reports.is_empty()).await;
    node.stop();
    let first = cluster.coordinator.until("stopping", |heard| heard.stopping.len() == 1).await;
    let (address, script) = (cluster.coordinator.address(), cluster.coordinator.script());
    drop(cluster.coordinator);
    let next = Coordinator::start_at(address, script);
    let second = next.until("stopping", |heard| heard.stopping.len() == 1).await;
    assert!(second.stopping[0] < first.stopping[0], "what is left of the grace is told");
    next.change(|script| script.leave = true);
    node.end().await.unwrap();
}

#[tokio::test]
async fn a_node_is_not_kept_beyond_its_grace() {
    let cluster = Cluster::start();
    cluster.coordinator.change(|script| script.tells_leave = true);
    let settings = NodeSettings { grace: Duration::from_millis(700), ..cluster.settings() };
    let node = Node::start(settings, node::pace());
    cluster.coordinator.until("a session", |heard| !heard.reports.is_empty()).await;
    node.stop();
    node.end().await.unwrap();
    assert_eq!(cluster.coordinator.heard().stopping.len(), 1);
}
