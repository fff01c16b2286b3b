//! From a push to a feed that brokers can route by.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use cluster::*;
use pointsman_ids::{ErrorCode, feed::LoadState};
use pointsman_proto::{
    common::v1::{Column, Metric, VectorIndex},
    coordinator::v1 as pb,
    node::v1 as node_pb,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_load_walks_from_desired_state_over_reports_to_the_feed() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let east = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let west =
        Hello { manner: Manner::Idles, ..Hello::new("n2", "west") }.connect(&coordinator).await.unwrap();
    assert!(coordinator.create("t").await.unwrap());
    coordinator.push("t", vec![cluster.segment("t", "a", 3), cluster.segment("t", "b", 4)]).await.unwrap();
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    assert!(coordinator.load("t", &["east", "west"]).await.unwrap());

    // East alone promotes; west carries nothing, and says so.
    let serving = watch.until(|s| s.collection("t").is_some_and(|c| c.load == LoadState::Serving)).await;
    assert_eq!(serving.collection("t").unwrap().segments.len(), 2);
    assert_eq!(servers(&serving, "t", "a"), ["n1".to_owned()].into());
    // The figure is written in its own time.
    let half = || async { coordinator.show("t").await.ok().filter(|shown| shown.percent == 50) };
    let shown = until("half of the load", half).await;
    let groups: Vec<_> =
        shown.groups.iter().map(|g| (g.resource_group.as_str(), g.percent, g.ready)).collect();
    assert_eq!(groups, [("east", 100, true), ("west", 0, false)]);
    assert_eq!((shown.percent, shown.loaded, shown.serving, shown.rows), (50, false, true, 7));
    west.wants(2).await;
    west.kill().await;

    // The node starts anew and obeys: the load ends.
    let west = Hello { incarnation: 2, ..Hello::new("n2", "west") }.connect(&coordinator).await.unwrap();
    assert_eq!(coordinator.loaded("t").await.percent, 100);
    let both = watch.until(|s| servers(s, "t", "b").len() == 2).await;
    assert!(both.version > serving.version);
    let desired = west.desired.borrow().segments[0].clone();
    assert_eq!(
        (desired.collection.as_str(), desired.object.as_str(), desired.bytes),
        ("t", "t/a.parquet", 1)
    );
    assert_eq!(east.welcome.cluster, "local");

    coordinator.release("t").await;
    east.wants(0).await;
    west.wants(0).await;
    let released = watch.until(|s| s.collection("t").is_some_and(|c| c.load == LoadState::NotLoaded)).await;
    assert!(released.collection("t").unwrap().segments.is_empty());
    assert_eq!(coordinator.show("t").await.unwrap_err().code(), ErrorCode::CollectionNotLoaded);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pushed_later_appears_by_promotion_and_what_is_dropped_is_cleared_away() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let _node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    // Without segments it is served at once: queries get an empty answer.
    assert!(coordinator.loaded("t").await.serving);
    coordinator.push("t", vec![cluster.segment("t", "a", 3), cluster.segment("t", "b", 3)]).await.unwrap();
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    watch.until(|s| servers(s, "t", "b").len() == 1).await;

    let names = vec!["a".to_owned()];
    let request = pb::DropSegmentsRequest { collection: "t".into(), names };
    assert_eq!(coordinator.catalog().drop_segments(request.clone()).await.unwrap().into_inner().dropped, 1);
    watch.until(|s| s.collection("t").is_some_and(|c| c.segments.len() == 1)).await;
    until("the object to go", || async { (!cluster.has_object("t/a.parquet")).then_some(()) }).await;
    assert!(cluster.has_object("t/b.parquet"));
    let again = coordinator.catalog().drop_segments(request).await.unwrap_err();
    assert_eq!(pointsman_proto::error(&again).code(), ErrorCode::SegmentNotFound);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_nodes_segments_go_elsewhere_and_its_copies_stay_listed_until_then() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let mut nodes = Vec::new();
    for name in ["n1", "n2", "n3"] {
        nodes.push(Hello::new(name, "east").connect(&coordinator).await.unwrap());
    }
    coordinator.create("t").await.unwrap();
    let segments = ["a", "b", "c"].map(|name| cluster.segment("t", name, 5)).to_vec();
    coordinator.push("t", segments).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    let lost = nodes.remove(0);
    assert_eq!(lost.wanted().len(), 1);
    lost.kill().await;

    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let mut moved = watch.next().await.unwrap();
    while ["a", "b", "c"].iter().any(|segment| servers(&moved, "t", segment).contains("n1")) {
        for segment in ["a", "b", "c"] {
            assert_eq!(
                servers(&moved, "t", segment).len(),
                1,
                "{segment} is served by somebody all the time"
            );
        }
        moved = watch.next().await.unwrap();
    }
    let entry = moved.nodes.iter().find(|node| node.name.as_str() == "n1").unwrap();
    assert!(entry.lost && entry.enabled);
    assert_eq!(nodes[0].wanted().len() + nodes[1].wanted().len(), 3);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_load_is_passed_over_and_named() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let _bad =
        Hello { manner: Manner::Fails, ..Hello::new("n1", "east") }.connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    let failed = || async {
        let load = coordinator.show("t").await.unwrap();
        load.groups[0].failures.first().cloned()
    };
    let failure = until("a failure that is told", failed).await;
    assert_eq!((failure.node.as_str(), failure.segment.as_str(), failure.tries), ("n1", "a", 1));
    let _good = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    let load = coordinator.loaded("t").await;
    assert!(load.groups[0].failures.is_empty());
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_node_hands_over_before_it_is_gone() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let first = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    let second = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    first.stop().await;
    second.wants(1).await;
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let moved = watch.until(|s| servers(s, "t", "a") == ["n2".to_owned()].into()).await;
    assert!(!moved.nodes[0].enabled);
    first.kill().await;
    let gone = || async { coordinator.node("n1").await.filter(|node| node.state() == pb::NodeState::Gone) };
    until("a node that is gone", gone).await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_reads_changes_is_told_what_changed_and_another_one_everything() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let reads = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let plain = Hello { reads_changes: false, ..Hello::new("n2", "west") };
    let plain = plain.connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3), cluster.segment("t", "b", 3)]).await.unwrap();
    coordinator.load("t", &["east", "west"]).await.unwrap();
    coordinator.loaded("t").await;
    coordinator.push("t", vec![cluster.segment("t", "c", 3)]).await.unwrap();
    reads.wants(3).await;
    plain.wants(3).await;
    let sizes = |node: &Node| {
        let message = node.message.borrow();
        (message.before.is_some(), message.segments.len(), message.removed.len())
    };
    assert_eq!((sizes(&reads), sizes(&plain)), ((true, 1, 0), (false, 3, 0)));
    coordinator.release("t").await;
    reads.wants(0).await;
    plain.wants(0).await;
    assert_eq!((sizes(&reads), sizes(&plain)), ((true, 0, 3), (false, 0, 0)));
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_indexes_reach_the_nodes_that_hold_the_segments_and_no_others() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let other = Hello::new("n2", "west").connect(&coordinator).await.unwrap();
    let column = Column { name: "v".into(), data_type: "FixedSizeList(4 x Float32)".into(), nullable: true };
    let request =
        pb::CreateCollectionRequest { name: "v".into(), columns: vec![column], ..Default::default() };
    coordinator.catalog().create_collection(request).await.unwrap();
    coordinator.create("t").await.unwrap();
    for name in ["v", "t"] {
        let segments = ["a", "b"].map(|segment| cluster.segment(name, segment, 3));
        coordinator.push(name, segments.into()).await.unwrap();
        coordinator.load(name, &["east"]).await.unwrap();
        coordinator.loaded(name).await;
    }
    node.wants(4).await;
    let alter = async |metrics: &[Metric]| {
        let index = |metric: &Metric| VectorIndex { column: "v".into(), metric: (*metric).into() };
        let request = pb::AlterCollectionRequest {
            name: "v".into(),
            vector_indexes: Some(pb::VectorIndexes { indexes: metrics.iter().map(index).collect() }),
            ..Default::default()
        };
        coordinator.catalog().alter_collection(request).await.unwrap().into_inner().changed
    };
    for metrics in [&[Metric::L2][..], &[Metric::Cosine], &[]] {
        let before = node.desired.borrow().version;
        assert!(alter(metrics).await);
        let told = || async { Some(node.message.borrow().clone()).filter(|told| told.version > before) };
        let told = until("news of indexes", told).await;
        assert_eq!(told.before, Some(before), "what changed, and no more");
        let indexes = |segment: &node_pb::DesiredSegment| {
            let metrics = segment.indexes.iter().map(VectorIndex::metric).collect::<Vec<_>>();
            (segment.collection.clone(), metrics)
        };
        let told: Vec<_> = told.segments.iter().map(indexes).collect();
        assert_eq!(told, vec![("v".to_owned(), metrics.to_vec()); 2]);
        assert!(!alter(metrics).await, "the same again");
    }
    assert!(other.wanted().is_empty() && other.desired.borrow().version <= node.desired.borrow().version);
    // Another option concerns no node.
    let version = node.desired.borrow().version;
    let closed =
        pb::AlterCollectionRequest { name: "v".into(), fail_closed: Some(true), ..Default::default() };
    coordinator.catalog().alter_collection(closed).await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "c", 3)]).await.unwrap();
    node.wants(5).await;
    assert_eq!(node.message.borrow().before, Some(version));
    coordinator.stop().await.unwrap();
}

/// A leader says once per session whom it asks for what. It may say so before a new coordinator has heard the others; when
/// these say hello, they are the processes that the leader means.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_leader_reaches_stays_known_when_a_new_coordinator_hears_it_first() {
    let (cluster, said) = two_halves().await;
    let coordinator = cluster.active().await;
    let mut again = Vec::new();
    for hello in said {
        again.push(Hello { manner: Manner::Idles, ..hello }.connect(&coordinator).await.unwrap());
        reported(&coordinator, again.len() as u64).await;
    }
    let back = || async { coordinator.show("t").await.ok().filter(is_whole) };
    until("everything to be reached", back).await;
    coordinator.stop().await.unwrap();
}

/// Silence is not absence: a leader that is heard before its siblings goes on as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_coordinator_takes_no_reach_from_a_leader_before_it_has_heard_the_others() {
    let (cluster, said) = two_halves().await;
    let coordinator = cluster.active().await;
    let [first, second] = <[Hello; 2]>::try_from(said).ok().unwrap();
    let leader = first.connect(&coordinator).await.unwrap();
    reported(&coordinator, 1).await;
    coordinator.create("u").await.unwrap();
    coordinator.push("u", vec![cluster.segment("u", "a", 1)]).await.unwrap();
    coordinator.load("u", &["east"]).await.unwrap();
    let _sibling = second.connect(&coordinator).await.unwrap();
    coordinator.loaded("u").await;
    // What came first was not less than it had.
    assert_eq!(leader.leads.borrow().taken, 0);
    assert!(is_whole(&coordinator.show("t").await.unwrap()));
    coordinator.stop().await.unwrap();
}

/// A collection of four segments, loaded on two nodes that hold two each, and a coordinator that has stopped. The hellos with
/// which the nodes come back: the leader first.
async fn two_halves() -> (Cluster, Vec<Hello>) {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let nodes = [
        Hello::new("n1", "east").connect(&coordinator).await.unwrap(),
        Hello::new("n2", "east").connect(&coordinator).await.unwrap(),
    ];
    coordinator.create("t").await.unwrap();
    let segments = (1..=4).map(|at| cluster.segment("t", &format!("s{at}"), at)).collect();
    coordinator.push("t", segments).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    assert!(is_whole(&coordinator.show("t").await.unwrap()));
    let again = nodes.iter().zip(["n1", "n2"]).map(|(node, name)| {
        let (held, leads) = (node.wanted(), node.leads.borrow().clone());
        Hello { held, leads, ..Hello::new(name, "east") }
    });
    let mut again: Vec<Hello> = again.collect();
    assert!(again.iter().all(|hello| !hello.held.is_empty()), "each holds a part");
    again.sort_by_key(|hello| hello.leads.reports().is_empty());
    coordinator.stop().await.unwrap();
    (cluster, again)
}

/// The first report of so many nodes, with two segments each, was heard.
async fn reported(coordinator: &Coordinator, nodes: u64) {
    let heard = || async {
        let shown = coordinator.show("t").await.ok()?;
        (shown.groups[0].segments_held >= 2 * nodes).then_some(())
    };
    until("its report", heard).await;
}

fn is_whole(shown: &pb::CollectionLoad) -> bool {
    shown.groups[0].percent == 100 && shown.groups[0].ready
}

/// The end of a former session comes after the node has opened another one, as the same process or as the next.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_former_session_takes_nothing_from_the_one_that_followed() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let hello = Hello { incarnation: 5, ..Hello::new("n1", "east") };
    let mut session = hello.clone().connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    for (incarnation, segment, count) in [(5, "b", 2), (6, "c", 3)] {
        // Had it been the session that ends, the node would be gone.
        session.stop().await;
        let is = |state| {
            let node = coordinator.node("n1");
            async move { node.await.filter(|node| node.state() == state) }
        };
        until("a node that stops", || is(pb::NodeState::Stopping)).await;
        let next = Hello { incarnation, ..hello.clone() }.connect(&coordinator).await.unwrap();
        assert_eq!(session.ended().await.map(|error| error.code()), Some(ErrorCode::ServiceUnavailable));
        coordinator.push("t", vec![cluster.segment("t", segment, 3)]).await.unwrap();
        next.wants(count).await;
        until("a node that lives", || is(pb::NodeState::Live)).await;
        session = next;
    }
    coordinator.stop().await.unwrap();
}
