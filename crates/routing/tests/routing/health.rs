//! The failure detector at work.

use std::time::Duration;

use pointsman_failure_detector::SuspicionCause;
use pointsman_ids::{Incarnation, NodeId};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, service::Routes};
use tonic_health::{
    ServingStatus,
    pb::{
        HealthCheckRequest, HealthCheckResponse,
        health_server::{Health, HealthServer},
    },
};

use crate::{
    coordinator::{Broker, Feed, Process},
    values::{key, node, snapshot, until},
};

const PROBES: &str = "pointsman_broker_probes_total";

/// A broker with one node that is excluded and then probed again and again.
async fn excluded(folder: &tempfile::TempDir, url: &str) -> (Broker, Feed, Process) {
    let feed = Feed::new(1, snapshot(1, vec![node(1, url)], vec![]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    broker.routing.report_unreachable(&key("n1"), Incarnation(1), "reset");
    until("it is excluded", || broker.figure("pointsman_broker_node_exclusions_total", &[]) == 1.0).await;
    (broker, feed, coordinator)
}

#[tokio::test]
async fn a_node_that_died_under_a_query_is_out_until_a_probe_finds_it_well() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (Process::node().await, Process::node().await);
    let feed = Feed::new(1, snapshot(1, vec![node(1, &one.url()), node(2, &two.url())], vec![]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    let address = one.kill().await;
    broker.routing.report_unreachable(&key("n1"), Incarnation(1), "connection reset");
    until("it is excluded", || !broker.is_routable("n1")).await;
    let status = &broker.routing.nodes()[0];
    assert_eq!((status.evidence.as_str(), status.enabled), ("connection reset", true));
    assert!(status.excluded_for.is_some() && status.next_probe_in.is_some());
    until("probes fail", || broker.figure(PROBES, &["unhealthy"]) >= 2.0).await;
    assert!(!broker.is_routable("n1") && broker.is_routable("n2"));
    let _again = Process::node_at(address).await;
    until("it is included", || broker.is_routable("n1")).await;
}

#[tokio::test]
async fn a_new_process_behind_the_name_is_routable_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let feed = Feed::new(1, snapshot(1, vec![node(1, "http://127.0.0.1:1")], vec![]));
    let coordinator = feed.serve().await;
    let slow = |start: &mut (pointsman_routing::Settings, _)| {
        start.0.detector.initial_delay = Duration::from_secs(3600);
    };
    let broker = Broker::start_with(folder.path(), &[&coordinator], slow).await;
    until("the feed is heard", || broker.version() == 1).await;
    broker.routing.report_unreachable(&key("n1"), Incarnation(1), "refused");
    until("it is excluded", || !broker.is_routable("n1")).await;
    let mut restarted = node(1, "http://127.0.0.1:1");
    (restarted.id, restarted.incarnation) = (NodeId(7), Incarnation(2));
    feed.say(snapshot(2, vec![restarted], vec![]));
    until("it is included", || broker.is_routable("n1")).await;
    broker.routing.report_unreachable(&key("n1"), Incarnation(1), "a late report");
    until("the late report is dropped", || broker.figure("pointsman_broker_stale_reports_total", &[]) == 1.0)
        .await;
    assert!(broker.is_routable("n1"));
}

#[tokio::test]
async fn a_node_that_the_coordinator_lost_is_judged_by_a_probe() {
    let folder = tempfile::tempdir().unwrap();
    let well = Process::node().await;
    // Connections are accepted for a process that is stopped.
    let stopped = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stopped_url = format!("http://{}", stopped.local_addr().unwrap());
    let mut members = vec![node(1, &well.url()), node(2, &stopped_url)];
    members.iter_mut().for_each(|member| member.lost = true);
    let coordinator = Feed::new(1, snapshot(1, members, vec![])).serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("both are judged", || broker.figure(PROBES, &[]) >= 2.0).await;
    assert!(broker.is_routable("n1") && !broker.is_routable("n2"));
    let status = &broker.routing.nodes()[1];
    assert!(status.lost && status.evidence.contains("no answer to a probe"), "{status:?}");
}

#[tokio::test]
async fn an_idle_connection_that_drops_leads_to_one_probe() {
    let folder = tempfile::tempdir().unwrap();
    let one = Process::node().await;
    let url = one.url().parse().unwrap();
    let coordinator = Feed::new(1, snapshot(1, vec![node(1, &one.url())], vec![])).serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    let answer = broker.channels.probe(&url, Duration::from_secs(5)).await;
    assert_eq!(answer.verdict, pointsman_channels::Verdict::Healthy);
    one.kill().await;
    until("it is excluded", || !broker.is_routable("n1")).await;
}

#[tokio::test]
async fn a_disabled_node_is_not_called_by_probes() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut member = node(1, &format!("http://{}", listener.local_addr().unwrap()));
    member.enabled = false;
    let coordinator = Feed::new(1, snapshot(1, vec![member], vec![])).serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    broker.routing.report_unreachable(&key("n1"), Incarnation(1), "reset");
    until("its tries are used up", || broker.figure(PROBES, &["not_enabled"]) >= 2.0).await;
    let call = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(call.is_err(), "it was called");
}

#[tokio::test]
async fn a_node_that_says_that_it_does_not_serve_stays_out() {
    let folder = tempfile::tempdir().unwrap();
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("", ServingStatus::NotServing).await;
    let one = Process::node_with(Routes::new(health)).await;
    let (broker, _feed, _coordinator) = excluded(&folder, &one.url()).await;
    until("probes fail", || broker.figure(PROBES, &["unhealthy"]) >= 2.0).await;
    let status = &broker.routing.nodes()[0];
    assert!(!status.routable && status.failed_probes >= 1, "{status:?}");
    assert!(status.last_probe.contains("NOT_SERVING"), "{status:?}");
    reporter.set_service_status("", ServingStatus::Serving).await;
    until("it is included", || broker.is_routable("n1")).await;
}

#[tokio::test]
async fn a_node_without_an_opinion_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let one = Process::node_with(Routes::default()).await;
    let (broker, _feed, _coordinator) = excluded(&folder, &one.url()).await;
    until("it is included", || broker.is_routable("n1")).await;
    assert_eq!(broker.figure(PROBES, &["unknown"]), 1.0);
}

/// Answers for a node like a cache: with what it heard a minute ago.
struct Cache;

#[tonic::async_trait]
impl Health for Cache {
    type WatchStream = tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let mut response = Response::new(HealthCheckResponse { status: 1 });
        response.metadata_mut().insert("age", "60".parse().unwrap());
        Ok(response)
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("nobody watches"))
    }
}

#[tokio::test]
async fn an_answer_from_before_the_probe_is_no_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let one = Process::node_with(Routes::new(HealthServer::new(Cache))).await;
    let (broker, _feed, _coordinator) = excluded(&folder, &one.url()).await;
    until("probes fail", || broker.figure(PROBES, &["unhealthy"]) >= 2.0).await;
    let status = &broker.routing.nodes()[0];
    assert!(!status.routable && status.last_probe.contains("old"), "{status:?}");
}

#[tokio::test]
async fn a_probe_goes_to_the_address_of_now() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, feed, _coordinator) = excluded(&folder, "http://127.0.0.1:1").await;
    until("a probe fails", || broker.figure(PROBES, &["unhealthy"]) >= 1.0).await;
    let elsewhere = Process::node().await;
    feed.say(snapshot(2, vec![node(1, &elsewhere.url())], vec![]));
    until("it is included", || broker.is_routable("n1")).await;
    assert_eq!(broker.figure("pointsman_broker_node_inclusions_total", &["probe"]), 1.0);
}

#[tokio::test]
async fn suspicions_in_a_row_exclude_and_an_answer_ends_the_row() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Feed::new(1, snapshot(1, vec![node(1, "http://127.0.0.1:1")], vec![])).serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    let suspect = |cause| broker.routing.report_suspicious(&key("n1"), Incarnation(1), cause, "no answer");
    for _ in 0..2 {
        suspect(SuspicionCause::Silent);
        suspect(SuspicionCause::Fault);
        broker.routing.report_answered(&key("n1"), Incarnation(1));
    }
    let suspicions = |count| broker.figure("pointsman_broker_suspicions_total", &[]) == count;
    until("all are counted", || suspicions(4.0)).await;
    assert!(broker.is_routable("n1"), "two in a row, twice");
    for _ in 0..3 {
        suspect(SuspicionCause::Silent);
    }
    until("it is excluded", || !broker.is_routable("n1")).await;
}
