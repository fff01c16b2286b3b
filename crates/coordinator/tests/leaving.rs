//! Leaving without gaps: leases to stop, drains, processes that stop.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use std::time::Duration;

use cluster::*;
use pointsman_ids::{Error, ErrorCode, feed::Snapshot};
use pointsman_proto::{
    broker::v1 as feed,
    coordinator::v1::{self as pb, DrainPhase},
    error,
};
use pointsman_settings::CoordinatorSettings;
use tokio::{sync::watch, task::JoinHandle};
use tokio_stream::StreamExt as _;

/// A broker that reads everything and says that it routes by it, unless it is held up.
struct Broker {
    held_up: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Broker {
    async fn new(coordinator: &Coordinator, name: &'static str) -> Self {
        let request = feed::WatchRequest {
            broker: name.into(),
            holding: Some(feed::Holding::default()),
            ..feed::WatchRequest::default()
        };
        let mut client = coordinator.feed();
        let mut stream = client.watch(request).await.unwrap().into_inner();
        let (held_up, waits) = watch::channel(false);
        let task = tokio::spawn(async move {
            let (mut watch, mut version, mut applied) = (0, 0, 0);
            let mut beat = tokio::time::interval(Duration::from_millis(100));
            loop {
                tokio::select! {
                    answer = stream.next() => {
                        let Some(Ok(answer)) = answer else { return };
                        watch = answer.watch;
                        let snapshot = answer.snapshot.map(|snapshot| snapshot.version);
                        version = answer.delta.map(|delta| delta.after).or(snapshot).unwrap_or(version);
                    }
                    _ = beat.tick() => {}
                }
                if !*waits.borrow() {
                    applied = version;
                }
                let request = feed::AcknowledgeRequest { broker: name.into(), watch, version: applied };
                if watch > 0 && client.acknowledge(request).await.is_err() {
                    return;
                }
            }
        });
        Self { held_up, task }
    }

    fn hold_up(&self, whether: bool) {
        self.held_up.send_replace(whether);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn settings(cluster: &Cluster, name: &str) -> CoordinatorSettings {
    // Nodes are killed and come back: they must not be lost meanwhile, whatever else this machine does.
    CoordinatorSettings {
        broker_lease_ttl: Duration::from_millis(1500),
        node_lease_ttl: Duration::from_secs(20),
        ..cluster.settings(name)
    }
}

async fn start(cluster: &Cluster, name: &str) -> Coordinator {
    let coordinator = cluster.start_with(settings(cluster, name)).await;
    coordinator.is_active().await;
    coordinator
}

/// A collection of two segments with one replica in each of these groups, loaded.
async fn load(cluster: &Cluster, coordinator: &Coordinator, groups: &[&str]) {
    coordinator.create("t").await.unwrap();
    let segments = ["a", "b"].map(|name| cluster.segment("t", name, 5)).to_vec();
    coordinator.push("t", segments).await.unwrap();
    coordinator.load("t", groups).await.unwrap();
    coordinator.loaded("t").await;
}

async fn ask(coordinator: &Coordinator, node: &str, lease: bool) -> Result<pb::CanStopResponse, Error> {
    let request = pb::CanStopRequest { node: node.into(), lease, wait_ms: 10_000, ..Default::default() };
    let answer = coordinator.cluster().can_stop(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| error(&status))
}

async fn drain(coordinator: &Coordinator, node: &str) -> pb::Drain {
    let request = pb::DrainNodeRequest { node: node.into() };
    coordinator.cluster().drain_node(request).await.unwrap().into_inner().drain.unwrap()
}

async fn drain_of(coordinator: &Coordinator, node: &str) -> Option<pb::Drain> {
    let request = pb::GetDrainRequest { node: node.into() };
    coordinator.cluster().get_drain(request).await.ok()?.into_inner().drain
}

/// Waits until the drain of a node is as wanted.
async fn drain_is(coordinator: &Coordinator, node: &str, wanted: impl Fn(&pb::Drain) -> bool) -> pb::Drain {
    let look = || async { drain_of(coordinator, node).await.filter(|drain| wanted(drain)) };
    until("a drain", look).await
}

fn enabled(feed: &Snapshot, name: &str) -> bool {
    feed.nodes.iter().any(|node| node.name.as_str() == name && node.enabled)
}

/// A process of this node that holds these segments.
fn again(name: &str, group: &str, incarnation: u64, held: &[u64]) -> Hello {
    Hello { incarnation, held: held.iter().copied().collect(), ..Hello::new(name, group) }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_that_hold_the_only_two_copies_one_gets_a_lease_also_from_the_next_coordinator() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster, "c1").await;
    let first = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let second = Hello::new("n2", "west").connect(&coordinator).await.unwrap();
    load(&cluster, &coordinator, &["east", "west"]).await;
    let broker = Broker::new(&coordinator, "b1").await;

    // Without a lease each of them may stop, as far as the other stays.
    for name in ["n1", "n2"] {
        let told = ask(&coordinator, name, false).await.unwrap();
        assert!(told.may_stop && told.last_in_cluster_total == 0, "{told:?}");
        assert_eq!((told.last_in_group_total, told.lease_ms), (3, 0), "two segments and a lead: {told:?}");
    }
    let (one, two) = tokio::join!(ask(&coordinator, "n1", true), ask(&coordinator, "n2", true));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(one.may_stop != two.may_stop, "{one:?} {two:?}");
    let (granted, refused) = if one.may_stop { ("n1", "n2") } else { ("n2", "n1") };
    let lease = coordinator.node(granted).await.unwrap().stop_lease_ms;
    assert!(lease > 200_000 && coordinator.node(refused).await.unwrap().stop_lease_ms == 0, "{lease}");
    let told = ask(&coordinator, refused, false).await.unwrap();
    assert!(!told.may_stop && told.last_in_cluster_total == 3, "{told:?}");
    assert_eq!(told.last_in_cluster.len(), 3);
    assert!(told.last_in_cluster.iter().any(|copy| copy.segment == "a" && copy.collection == "t"));
    assert!(told.last_in_cluster.iter().any(|copy| copy.segment.is_empty() && copy.shard == "shard-0"));

    drop(broker);
    coordinator.stop().await.unwrap();
    let (held, _) = (first.wanted(), second.wanted());
    let held: Vec<u64> = held.into_iter().collect();
    let coordinator = start(&cluster, "c2").await;
    let unheard = ask(&coordinator, refused, false).await.unwrap_err();
    assert_eq!(unheard.code(), ErrorCode::ServiceNotReady, "{unheard}");
    let group = |name: &str| if name == "n1" { "east" } else { "west" };
    let mut nodes = Vec::new();
    for name in ["n1", "n2"] {
        nodes.push(again(name, group(name), 1, &held).connect(&coordinator).await.unwrap());
    }
    let told = || async { ask(&coordinator, refused, true).await.ok() };
    let told = until("an answer of the next coordinator", told).await;
    assert!(!told.may_stop && told.last_in_cluster_total > 0, "{told:?}");

    // The node that had the lease returns with all that it held, and gives way.
    let back = again(granted, group(granted), 2, &held).connect(&coordinator).await.unwrap();
    let told = || async { ask(&coordinator, refused, true).await.ok().filter(|told| told.may_stop) };
    assert!(until("a lease", told).await.lease_ms > 0);
    drop((nodes, back));
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_with_its_time_or_when_it_is_given_back() {
    let cluster = Cluster::new();
    let settings = CoordinatorSettings { stop_lease_ttl: Duration::from_secs(3), ..settings(&cluster, "c1") };
    let coordinator = cluster.start_with(settings).await;
    coordinator.is_active().await;
    let _nodes = [
        Hello::new("n1", "east").connect(&coordinator).await.unwrap(),
        Hello::new("n2", "west").connect(&coordinator).await.unwrap(),
    ];
    load(&cluster, &coordinator, &["east", "west"]).await;
    assert!(ask(&coordinator, "n1", true).await.unwrap().may_stop);
    assert!(!ask(&coordinator, "n2", true).await.unwrap().may_stop);
    let give_back = async |node: &str| {
        let request = pb::GiveBackStopLeaseRequest { node: node.into() };
        coordinator.cluster().give_back_stop_lease(request).await.unwrap().into_inner().had_lease
    };
    assert!(give_back("n1").await && !give_back("n1").await && !give_back("n2").await);
    assert!(ask(&coordinator, "n2", true).await.unwrap().may_stop);
    assert!(!ask(&coordinator, "n1", true).await.unwrap().may_stop);
    let may = || async { ask(&coordinator, "n1", true).await.unwrap().may_stop.then_some(()) };
    until("the end of the lease", may).await;
    assert_eq!(cluster.metastore().await.stop_leases().await.unwrap().len(), 1, "the other one is forgotten");
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_lag_are_named_and_no_lease_is_left() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster, "c1").await;
    let _first = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    load(&cluster, &coordinator, &["east"]).await;
    let (_ahead, behind) = (Broker::new(&coordinator, "b1").await, Broker::new(&coordinator, "b2").await);
    assert!(!ask(&coordinator, "n1", false).await.unwrap().may_stop, "it has the only copies");
    behind.hold_up(true);
    // From now on a second group serves, and one broker does not know.
    let _second = Hello::new("n2", "west").connect(&coordinator).await.unwrap();
    coordinator.release("t").await;
    coordinator.load("t", &["east", "west"]).await.unwrap();
    coordinator.loaded("t").await;
    let request = pb::CanStopRequest { node: "n1".into(), lease: true, wait_ms: 1500, ..Default::default() };
    let told = || async {
        let told = coordinator.cluster().can_stop(request.clone()).await.unwrap().into_inner();
        (told.last_in_cluster_total == 0).then_some(told)
    };
    let told = until("a second copy", told).await;
    assert!(!told.may_stop && told.lease_ms == 0, "{told:?}");
    let names: Vec<&str> = told.lagging.iter().map(|broker| broker.name.as_str()).collect();
    assert_eq!(names, ["b2"], "{told:?}");
    assert!(told.lagging[0].applied_version < told.feed_version);
    assert!(!coordinator.node("n2").await.unwrap().routed, "not for every broker");
    assert_eq!(coordinator.node("n1").await.unwrap().stop_lease_ms, 0);
    behind.hold_up(false);
    assert!(ask(&coordinator, "n1", true).await.unwrap().may_stop);
    assert!(coordinator.node("n2").await.unwrap().routed);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_serves_until_others_do_and_waits_for_brokers_and_calls() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster, "c1").await;
    let first = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    load(&cluster, &coordinator, &["east"]).await;
    let broker = Broker::new(&coordinator, "b1").await;
    let mut feed = coordinator.watch("looker", 0).await.unwrap();
    feed.until(|feed| enabled(feed, "n1")).await;

    // Nobody can take over: it serves on, and tells what it is waited for.
    let stuck = drain(&coordinator, "n1").await;
    assert_eq!(
        (stuck.phase(), stuck.moves_total, stuck.stuck_total),
        (DrainPhase::Moving, 0, 3),
        "{stuck:?}"
    );
    assert!(stuck.remaining_ms > 1_700_000 && stuck.stuck.iter().any(|copy| copy.segment == "a"));
    let node = coordinator.node("n1").await.unwrap();
    assert_eq!((node.state(), node.drain(), node.enabled), (pb::NodeState::Live, DrainPhase::Moving, true));

    // Somebody comes who holds nothing yet.
    let idle = Hello { manner: Manner::Idles, ..Hello::new("n2", "east") };
    let idle = idle.connect(&coordinator).await.unwrap();
    let planned = |drain: &pb::Drain| drain.moves.iter().filter(|moved| moved.to == "n2").count() == 3;
    let moving = drain_is(&coordinator, "n1", |drain| planned(drain) && drain.stuck_total == 0).await;
    assert_eq!(
        (moving.phase(), moving.moves_total),
        (DrainPhase::Moving, 3),
        "two segments and a lead: {moving:?}"
    );
    assert!(coordinator.node("n1").await.unwrap().enabled, "make before break");
    idle.kill().await;

    // And now somebody who does. The broker does not hear of it, and a query runs on.
    broker.hold_up(true);
    first.calls.send_replace(2);
    let second = again("n2", "east", 2, &[]).connect(&coordinator).await.unwrap();
    let leaving = drain_is(&coordinator, "n1", |drain| drain.phase() == DrainPhase::Leaving).await;
    let names: Vec<&str> = leaving.lagging.iter().map(|broker| broker.name.as_str()).collect();
    assert_eq!(names, ["b1"], "{leaving:?}");
    let out = feed.until(|feed| !enabled(feed, "n1")).await;
    assert_eq!(servers(&out, "t", "a"), ["n2".to_owned()].into());
    assert_eq!(leaving.feed_version, out.version.0);
    broker.hold_up(false);
    let calls = drain_is(&coordinator, "n1", |drain| drain.lagging.is_empty()).await;
    assert_eq!((calls.phase(), calls.calls), (DrainPhase::Leaving, Some(2)), "{calls:?}");
    first.calls.send_replace(0);
    drain_is(&coordinator, "n1", |drain| drain.phase() == DrainPhase::Drained).await;
    assert!(ask(&coordinator, "n1", true).await.unwrap().may_stop);

    // It gets nothing new.
    coordinator.push("t", vec![cluster.segment("t", "c", 5)]).await.unwrap();
    second.wants(3).await;
    let request = pb::CancelDrainRequest { node: "n1".into() };
    let cancelled = coordinator.cluster().cancel_drain(request).await.unwrap().into_inner();
    assert!(cancelled.was_draining && drain_of(&coordinator, "n1").await.is_none());
    feed.until(|feed| enabled(feed, "n1")).await;
    assert!(first.wanted().is_empty(), "nor did it meanwhile");
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_outlives_the_coordinator_and_ends_with_the_return_of_the_node() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster, "c1").await;
    let first = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let second = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    load(&cluster, &coordinator, &["east"]).await;
    drain(&coordinator, "n1").await;
    second.wants(2).await;
    coordinator.stop().await.unwrap();

    let coordinator = start(&cluster, "c2").await;
    let all: Vec<u64> = second.wanted().into_iter().collect();
    let first = again("n1", "east", 1, &first.wanted().into_iter().collect::<Vec<_>>());
    let first = first.connect(&coordinator).await.unwrap();
    let _second = again("n2", "east", 1, &all).connect(&coordinator).await.unwrap();
    drain_is(&coordinator, "n1", |drain| drain.phase() == DrainPhase::Drained).await;
    let node = coordinator.node("n1").await.unwrap();
    assert!(!node.enabled && node.segments_wanted == 0, "{node:?}");
    first.kill().await;
    assert!(drain_of(&coordinator, "n1").await.is_some(), "it is away and has not returned");
    let _back = again("n1", "east", 2, &[]).connect(&coordinator).await.unwrap();
    assert!(drain_of(&coordinator, "n1").await.is_none());
    assert!(cluster.metastore().await.drains().await.unwrap().is_empty());
    let back = || async { coordinator.node("n1").await.filter(|node| node.enabled && node.routed) };
    until("the node in service", back).await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overdue_drain_goes_on_and_begins_anew_when_it_is_asked_for() {
    let cluster = Cluster::new();
    let settings =
        CoordinatorSettings { drain_timeout: Duration::from_millis(500), ..settings(&cluster, "c1") };
    let coordinator = cluster.start_with(settings).await;
    coordinator.is_active().await;
    let _node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    load(&cluster, &coordinator, &["east"]).await;
    let start = async || {
        let request = pb::DrainNodeRequest { node: "n1".into() };
        coordinator.cluster().drain_node(request).await.unwrap().into_inner().started
    };
    assert!(start().await);
    let overdue = drain_is(&coordinator, "n1", |drain| drain.remaining_ms == 0).await;
    assert_eq!((overdue.phase(), overdue.stuck_total), (DrainPhase::Moving, 3), "{overdue:?}");
    assert!(start().await);
    assert!(drain_of(&coordinator, "n1").await.unwrap().since_ms < 500);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_is_told_when_every_broker_routes_without_it() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster, "c1").await;
    let mut first = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    load(&cluster, &coordinator, &["east"]).await;
    assert!(first.welcome.tells_leave);
    let broker = Broker::new(&coordinator, "b1").await;
    let mut feed = coordinator.watch("looker", 0).await.unwrap();
    let second = Hello { manner: Manner::Idles, ..Hello::new("n2", "east") };
    let second = second.connect(&coordinator).await.unwrap();
    feed.until(|feed| enabled(feed, "n2")).await;
    first.stop_within(Duration::from_secs(3600)).await;
    second.wants(2).await;
    let node = coordinator.node("n1").await.unwrap();
    assert_eq!((node.state(), node.enabled), (pb::NodeState::Stopping, true), "nobody has its segments yet");
    broker.hold_up(true);
    second.kill().await;
    let mut second = again("n2", "east", 2, &[]).connect(&coordinator).await.unwrap();
    let out = feed.until(|feed| !enabled(feed, "n1")).await;
    assert_eq!(servers(&out, "t", "a"), ["n2".to_owned()].into());
    // What it gave away stays for a while in any case; the broker is waited for beyond that.
    first.wants(0).await;
    coordinator.create("u").await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(500), first.leave.wait_for(|told| *told));
    assert!(waits.await.is_err(), "the broker does not route by it yet");
    broker.hold_up(false);
    first.may_leave().await;
    // When the last node stops as well there is nobody to move to, and nothing to wait for.
    first.kill().await;
    second.stop_within(Duration::from_secs(3600)).await;
    second.may_leave().await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_is_not_kept_beyond_half_of_its_grace() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster, "c1").await;
    let mut first = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    load(&cluster, &coordinator, &["east"]).await;
    let second = Hello { manner: Manner::Idles, ..Hello::new("n2", "east") };
    let second = second.connect(&coordinator).await.unwrap();
    first.stop_within(Duration::from_secs(2)).await;
    second.wants(2).await;
    assert!(coordinator.node("n1").await.unwrap().enabled);
    first.may_leave().await;
    assert!(!coordinator.node("n1").await.unwrap().enabled);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_never_came_is_named_with_those_that_are_near() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster, "c1").await;
    let _node = Hello::new("node-1", "east").connect(&coordinator).await.unwrap();
    let unknown = ask(&coordinator, "nod-1", true).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::NodeNotFound);
    assert_eq!(unknown.message(), "there is no node 'nod-1'; did you mean node-1?");
    let request = pb::DrainNodeRequest { node: "nod-1".into() };
    let unknown =
        coordinator.cluster().drain_node(request).await.map_err(|status| error(&status)).unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::NodeNotFound);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lets_a_coordinator_go_on_that_has_lost_most_nodes() {
    let cluster = Cluster::new();
    // Leases of nodes are short here.
    let coordinator = cluster.active().await;
    let names = ["n1", "n2", "n3"];
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(Hello::new(name, "east").connect(&coordinator).await.unwrap());
    }
    load(&cluster, &coordinator, &["east"]).await;
    let last = nodes.pop().unwrap();
    for node in nodes {
        node.kill().await;
    }
    let suspicious = || async { coordinator.describe().await.filter(|about| about.mass_loss) };
    assert_eq!(until("suspicion", suspicious).await.lost_nodes, ["n1", "n2"]);
    assert!(last.wanted().len() < 2, "nothing is moved");
    let accept = async || {
        let request = pb::AcceptLossRequest {};
        coordinator.cluster().accept_loss(request).await.unwrap().into_inner().nodes
    };
    assert_eq!(accept().await, ["n1", "n2"]);
    last.wants(2).await;
    assert!(accept().await.is_empty());
    assert!(!coordinator.describe().await.unwrap().mass_loss);
    coordinator.stop().await.unwrap();
}
