//! Health, readiness, what the broker shows of itself, gRPC, and its end.

use pointsman_proto::broker::v1::{GetStatusRequest, broker_status_client::BrokerStatusClient};
use serde_json::json;
use tonic::transport::Endpoint;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::cluster::{Broker, Cluster, codes, settings};

#[tokio::test]
async fn a_broker_without_a_view_lives_and_is_not_ready() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(settings(dir.path(), "http://127.0.0.1:1")).await;
    assert_eq!(broker.get("/health").await.0, 200);
    let (status, ready) = broker.get("/ready").await;
    assert_eq!((status, &ready["ready"], &ready["view"]), (503, &json!(false), &json!("none")));
    let waits = broker.sql("SELECT * FROM t").await;
    assert_eq!(
        codes(&waits),
        [410],
        "nothing is known of any collection yet, so none is called unknown: {waits}"
    );
    assert_eq!(codes(&broker.sql("SELECT 1").await), [0; 0]);
    broker.stop().await;
}

#[tokio::test]
async fn routing_is_shown_by_segment_and_node() {
    let cluster = Cluster::start(2, |segment| vec![usize::try_from(segment % 2).unwrap()], |_| {}).await;
    let (status, shown) = cluster.broker.get("/debug/routing/t").await;
    assert_eq!((status, &shown["collection"], &shown["load"]), (200, &json!("t"), &json!("serving")));
    let segment = &shown["segments"][1];
    assert_eq!((&segment["segment"], &segment["rows"]), (&json!("s1"), &json!(25)));
    let candidate = json!({
        "node": "n1", "group": "g1", "assigned": "online", "observed": "online", "enabled": true, "routable": true,
    });
    assert_eq!(segment["candidates"], json!([candidate]));
    let (status, unknown) = cluster.broker.get("/debug/routing/nothing").await;
    assert_eq!((status, &unknown["error"]["code"]), (404, &json!(100)));
    let (_, nodes) = cluster.broker.get("/debug/nodes").await;
    assert_eq!((&nodes["nodes"][1]["node"], &nodes["nodes"][1]["group"]), (&json!("n1"), &json!("g1")));
}

#[tokio::test]
async fn tools_ask_over_grpc() {
    let cluster = Cluster::replicated().await;
    let mut status = BrokerStatusClient::connect(cluster.broker.grpc.clone()).await.unwrap();
    let status = status.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.broker.as_str(), status.feed_version, status.connected), ("broker-1", 1, true));
    let nodes: Vec<_> = status.nodes.iter().map(|node| (node.node.as_str(), node.routable)).collect();
    assert_eq!(nodes, [("n0", true), ("n1", true)]);
    let channel = Endpoint::new(cluster.broker.grpc.clone()).unwrap().connect().await.unwrap();
    let mut health = HealthClient::new(channel);
    let answer = health.check(HealthCheckRequest { service: String::new() }).await.unwrap();
    assert_eq!(answer.into_inner().status, 1);
}

#[tokio::test]
async fn a_broker_that_is_told_to_stop_lets_running_queries_end() {
    let cluster = Cluster::replicated().await;
    let broker = cluster.broker;
    let sql = "SELECT count(*) FROM t a, t b, t c WHERE a.id + b.id + c.id > 10";
    let body = json!({"sql": sql}).to_string();
    let (answer, ()) = tokio::join!(broker.post(&body, &[]), async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        broker.shutdown.cancel();
    });
    assert_eq!(codes(&answer.1), Vec::<i64>::new());
    broker.running.await.unwrap().unwrap();
}
