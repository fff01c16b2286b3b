//! The failure detector at work.

use std::time::Duration;

use pointsman_ids::{Incarnation, NodeId};
use tokio::net::TcpListener;

use crate::{
    coordinator::{Broker, Feed, Process},
    values::{key, node, snapshot, until},
};

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
    until("probes fail", || broker.routing.view().counters().probes.get("unhealthy") >= Some(&2)).await;
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
    until("the late report is dropped", || broker.routing.view().counters().stale_reports == 1).await;
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
    until("both are judged", || broker.routing.view().counters().probes.values().sum::<u64>() >= 2).await;
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
    let verdict = broker.channels.probe(&url, Duration::from_secs(5)).await;
    assert_eq!(verdict, pointsman_channels::Verdict::Healthy);
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
    until("its tries are used up", || broker.routing.view().counters().probes.get("not_enabled") >= Some(&2))
        .await;
    let call = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(call.is_err(), "it was called");
}
