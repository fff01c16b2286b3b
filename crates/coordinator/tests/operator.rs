//! What operators do with nodes: switch them off and on, and have them forgotten.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use std::{collections::BTreeSet, slice::from_ref};

use cluster::*;
use pointsman_ids::{
    Error, ErrorCode,
    feed::{NodeEntry, Snapshot},
};
use pointsman_proto::{coordinator::v1 as pb, error};

/// Turns switches and gives the names of nodes whose switch stood otherwise.
async fn switch(coordinator: &Coordinator, nodes: &[&str], enabled: bool) -> Result<Vec<String>, Error> {
    let nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
    let request = pb::SetNodeEnabledRequest { nodes, enabled };
    let answer = coordinator.cluster().set_node_enabled(request).await.map_err(|status| error(&status))?;
    Ok(answer.into_inner().changed)
}

async fn remove(coordinator: &Coordinator, node: &str) -> Result<(), Error> {
    let request = pb::RemoveNodeRequest { node: node.into() };
    coordinator.cluster().remove_node(request).await.map(drop).map_err(|status| error(&status))
}

fn entry<'a>(feed: &'a Snapshot, name: &str) -> Option<&'a NodeEntry> {
    feed.nodes.iter().find(|node| node.name.as_str() == name)
}

fn is_enabled(feed: &Snapshot, name: &str) -> bool {
    entry(feed, name).is_some_and(|node| node.enabled && node.switched_on)
}

/// Names of nodes that are listed as leaders of shards of `t`.
fn leaders(feed: &Snapshot) -> Vec<String> {
    let leaders = feed.collection("t").unwrap().leaders.iter().flatten();
    let name = |id| feed.nodes.iter().find(|node| node.id == id).unwrap().name.to_string();
    leaders.map(|leader| name(leader.node)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_switched_off_leaves_the_routing_at_once_and_keeps_data_and_places() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let mut nodes = Vec::new();
    for name in ["n1", "n2"] {
        nodes.push(Hello::new(name, "east").connect(&coordinator).await.unwrap());
    }
    coordinator.create("t").await.unwrap();
    let segments = ["a", "b"].map(|name| cluster.segment("t", name, 5)).to_vec();
    coordinator.push("t", segments).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let both = |feed: &Snapshot| -> BTreeSet<String> {
        ["a", "b"].iter().flat_map(|segment| servers(feed, "t", segment)).collect()
    };
    let before = watch.until(|feed| both(feed).len() == 2 && leaders(feed).len() == 1).await;
    let leader = leaders(&before).remove(0);
    let other = if leader == "n1" { "n2" } else { "n1" };

    assert_eq!(switch(&coordinator, &[&leader], false).await.unwrap(), from_ref(&leader));
    let off = watch.next().await.unwrap();
    let node = entry(&off, &leader).unwrap();
    assert!(!node.enabled && !node.switched_on, "the next version says so");
    assert!(is_enabled(&off, other));
    assert!(!leaders(&off).contains(&leader), "nobody is sent to it any more");
    assert_eq!(both(&off), both(&before), "its copies are where they were");
    assert!(nodes.iter().all(|node| node.wanted().len() == 1), "nothing is placed anew");
    assert!(!coordinator.node(&leader).await.unwrap().switched_on);
    watch.until(|feed| leaders(feed) == [other]).await;

    assert!(switch(&coordinator, &[&leader, &leader], false).await.unwrap().is_empty(), "it is off already");
    assert_eq!(switch(&coordinator, &["n1", "n2"], true).await.unwrap(), from_ref(&leader));
    let on = watch.until(|feed| is_enabled(feed, &leader)).await;
    assert_eq!(both(&on), both(&before));
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_outlives_node_and_coordinator_and_can_be_turned_while_the_node_is_away() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let first = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    switch(&coordinator, &["n1"], false).await.unwrap();
    first.kill().await;
    let hello = Hello { incarnation: 2, ..Hello::new("n1", "east") };
    let second = hello.connect(&coordinator).await.unwrap();
    let node = coordinator.node("n1").await.unwrap();
    assert_eq!((node.incarnation, node.switched_on), (2, false));
    second.kill().await;
    coordinator.stop().await.unwrap();

    // Known by its record alone, it can be switched.
    let coordinator = cluster.active().await;
    assert!(!coordinator.node("n1").await.unwrap().switched_on);
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    assert_eq!(switch(&coordinator, &["n1"], true).await.unwrap(), ["n1"]);
    assert!(switch(&coordinator, &["n1"], true).await.unwrap().is_empty());
    switch(&coordinator, &["n1"], false).await.unwrap();
    let hello = Hello { incarnation: 3, ..Hello::new("n1", "east") };
    let _third = hello.connect(&coordinator).await.unwrap();
    let feed = watch.until(|feed| entry(feed, "n1").is_some_and(|node| node.incarnation.0 == 3)).await;
    assert!(!is_enabled(&feed, "n1"));
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_of_a_call_are_switched_or_none() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let nobody = switch(&coordinator, &["n1"], false).await.unwrap_err();
    assert_eq!(nobody.code(), ErrorCode::NodeNotFound);
    let mut nodes = Vec::new();
    for name in ["node-1", "node-2", "west"] {
        nodes.push(Hello::new(name, "east").connect(&coordinator).await.unwrap());
    }
    let refused = switch(&coordinator, &["node-1", "nod-2"], false).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NodeNotFound);
    assert_eq!(refused.message(), "there is no node 'nod-2'; did you mean node-2, node-1?");
    assert!(coordinator.node("node-1").await.unwrap().switched_on);
    assert_eq!(switch(&coordinator, &[], false).await.unwrap_err().code(), ErrorCode::ParameterMissing);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_signed_off_can_be_forgotten_and_comes_back_as_a_newcomer() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let _other = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    let former = node.welcome.node_id;
    coordinator.create("t").await.unwrap();
    coordinator.push("t", ["a", "b"].map(|name| cluster.segment("t", name, 5)).to_vec()).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    let refused = remove(&coordinator, "n1").await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ParameterInvalid);
    let text = refused.message();
    assert!(text.starts_with("node 'n1' is live; stop it first; it was heard 0 s ago"), "{text}");
    assert!(
        text.contains("(coordinator.node_lease_ttl) ends in "),
        "whoever killed it knows how long to wait: {text}"
    );
    switch(&coordinator, &["n1"], false).await.unwrap();
    node.stop().await;
    let stopping = || async {
        coordinator.node("n1").await.filter(|node| node.state() == pb::NodeState::Stopping).map(drop)
    };
    until("its word that it stops", stopping).await;
    node.kill().await;
    // Its segments go to the other node first.
    until("its removal", || async { remove(&coordinator, "n1").await.ok() }).await;
    assert!(coordinator.node("n1").await.is_none());
    let unknown = remove(&coordinator, "n1").await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::NodeNotFound);
    assert_eq!(unknown.message(), "there is no node 'n1'; there are: n2");
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    // The other one may still be on its way to hold them: the first had left already.
    let moved = |feed: &Snapshot| servers(feed, "t", "a") == ["n2".to_owned()].into();
    watch.until(|feed| entry(feed, "n1").is_none() && moved(feed)).await;

    let back = Hello::new("n1", "west").connect(&coordinator).await.unwrap();
    assert!(back.welcome.node_id > former);
    let node = coordinator.node("n1").await.unwrap();
    assert_eq!((node.resource_group.as_str(), node.switched_on), ("west", true), "nothing of it was kept");
    coordinator.stop().await.unwrap();
    assert_eq!(cluster.metastore().await.nodes().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_place_of_a_segment_is_not_forgotten() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 5)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    node.kill().await;
    let held = || async {
        let refused = remove(&coordinator, "n1").await.unwrap_err();
        refused.message().contains("is the place of 1 segment of 't'").then_some(refused)
    };
    assert_eq!(until("the lease to end", held).await.code(), ErrorCode::ParameterInvalid);
    coordinator.release("t").await;
    until("its removal", || async { remove(&coordinator, "n1").await.ok() }).await;
    coordinator.stop().await.unwrap();
}
