//! A node that is told to stop.

use std::time::{Duration, Instant};

use pointsman_node::Pace;
use pointsman_settings::NodeSettings;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    cluster::{Cluster, content},
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
    cluster.coordinator.until("stopping", |heard| heard.stopping == 1).await;
    assert_eq!(health(&node.grpc).await, ServingStatus::NotServing);
    node.until_page("/ready", |status, ready| status == 503 && ready["why"] == "it drains").await;
    assert!(!node.ended(), "it serves on while brokers hear of it");
    node.end().await.unwrap();
    assert_eq!(cluster.coordinator.heard().hellos.len(), 1);
}

#[tokio::test]
async fn a_node_without_a_coordinator_stops_too() {
    let cluster = Cluster::start();
    let settings = NodeSettings { grace: Duration::from_secs(3), ..cluster.settings() };
    drop(cluster.coordinator);
    let node = Node::start(settings, node::pace());
    node.until_page("/ready", |_, ready| {
        ready["why"].as_str().is_some_and(|why| why.contains("coordinator"))
    })
    .await;
    let told = Instant::now();
    node.stop();
    node.end().await.unwrap();
    assert!(told.elapsed() < Duration::from_secs(3));
}
