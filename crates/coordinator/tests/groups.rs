//! Resource groups over gRPC: commands, members that come and go, recovery, borrowed nodes.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;
mod faulty;
mod pools;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use cluster::*;
use faulty::{Fault, Faulty};
use pointsman_ids::ErrorCode;
use pointsman_proto::coordinator::v1 as pb;
use pointsman_settings::CoordinatorSettings;
use pools::*;

/// Settings under which passes come often, so that what is not stable is seen.
fn hasty(cluster: &Cluster) -> CoordinatorSettings {
    CoordinatorSettings { resource_group_check_interval: Duration::from_millis(50), ..cluster.settings("c1") }
}

async fn start(cluster: &Cluster) -> Coordinator {
    let coordinator = cluster.start_with(hasty(cluster)).await;
    coordinator.is_active().await;
    coordinator
}

/// Time for a few passes in which nothing should happen.
async fn some_passes() {
    tokio::time::sleep(Duration::from_millis(300)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_created_once_and_keeps_its_number() {
    let cluster = Cluster::new();
    let settings = CoordinatorSettings { resource_group_limit: 5, ..hasty(&cluster) };
    let coordinator = cluster.start_with(settings).await;
    coordinator.is_active().await;
    let pools = Pools::of(&coordinator);
    assert_eq!(pools.create("north", None).await, Ok(true));
    let north = pools.show("north").await.unwrap().group.unwrap();
    assert_eq!(north.config, Some(config(0, 0)), "no configuration: requests 0, limits 0");
    assert_eq!(pools.create("north", Some(config(0, 0))).await, Ok(false));
    assert_eq!(pools.create("east", Some(config(0, 1_000_000))).await, Ok(false), "as the settings made it");
    assert_eq!(pools.create("north", Some(config(1, 1))).await, Err(ErrorCode::ResourceGroupAlreadyExists));
    assert_eq!(pools.create("", None).await, Err(ErrorCode::ParameterMissing));
    assert_eq!(pools.create("a b", None).await, Err(ErrorCode::ParameterInvalid));
    for wrong in [
        config(2, 1),
        config(-1, 1),
        pb::ResourceGroupConfig { limits: None, ..config(1, 1) },
        pb::ResourceGroupConfig { transfer_to: vec!["nowhere".into()], ..config(1, 1) },
    ] {
        assert_eq!(pools.create("south", Some(wrong)).await, Err(ErrorCode::ResourceGroupIllegalConfig));
    }
    assert_eq!(pools.create("south", None).await, Ok(true));
    assert_eq!(pools.create("fifth", Some(config(2, 1))).await, Err(ErrorCode::ResourceGroupLimitReached));
    let before = pools.list().await;
    let names: Vec<&str> = before.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["default", "east", "north", "south", "west"]);
    coordinator.stop().await.unwrap();
    let coordinator = start(&cluster).await;
    assert_eq!(Pools::of(&coordinator).list().await, before);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_command_is_told_by_code_and_name() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    let code = |result: Result<Vec<String>, pointsman_ids::Error>| result.unwrap_err().code();
    assert_eq!(pools.show("nowhere").await.unwrap_err().code(), ErrorCode::ResourceGroupNotFound);
    let unknown = [("east", config(0, 0)), ("nowhere", config(0, 0))];
    assert_eq!(code(pools.update(&unknown).await), ErrorCode::ResourceGroupNotFound);
    let illegal = [("east", config(0, 0)), ("west", config(1, 0))];
    assert_eq!(code(pools.update(&illegal).await), ErrorCode::ResourceGroupIllegalConfig);
    assert_eq!(pools.show("east").await.unwrap().group.unwrap().config, Some(config(0, 1_000_000)));

    assert_eq!(pools.remove("nowhere").await, Ok(false), "absent: success");
    for name in ["default", "east"] {
        let refused = pools.remove(name).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::ParameterInvalid);
        assert!(refused.message().contains(&format!("'{name}'")), "{refused}");
    }
    let lists = pb::ResourceGroupConfig { transfer_from: vec!["east".into()], ..config(0, 9) };
    pools.update(&[("east", config(0, 0)), ("west", lists)]).await.unwrap();
    assert!(pools.remove("east").await.unwrap_err().message().contains("transfer list of 'west'"));
    pools.update(&[("west", config(0, 9))]).await.unwrap();
    assert_eq!(pools.remove("east").await, Ok(true));

    assert_eq!(code(pools.transfer("west", "west", 1).await), ErrorCode::ParameterInvalid);
    assert_eq!(code(pools.transfer("west", "default", 0).await), ErrorCode::ParameterInvalid);
    assert_eq!(code(pools.transfer("east", "west", 1).await), ErrorCode::ResourceGroupNotFound);
    assert_eq!(code(pools.transfer("default", "west", 1).await), ErrorCode::ResourceGroupNotEnoughNodes);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_follow_what_groups_request_and_brokers_hear_of_it() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    let _nodes = connect(&coordinator, &[("n1", "default"), ("n2", "default"), ("n3", "default")]).await;
    pools.create("north", Some(config(2, 2))).await.unwrap();
    pools.until("north", &["n1", "n2"]).await;
    let number = pools.show("north").await.unwrap().group.unwrap().number;
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let members = |snapshot: &pointsman_ids::feed::Snapshot| {
        let nodes = snapshot.nodes.iter().filter(|node| node.pool.0 == number);
        nodes.map(|node| node.name.to_string()).collect::<Vec<_>>()
    };
    watch.until(|snapshot| members(snapshot) == ["n1", "n2"]).await;
    let north = pools.show("north").await.unwrap().group.unwrap();
    assert_eq!((north.live, north.missing, north.redundant), (2, 0, 0));
    // A node that asks for nothing goes where one is missing.
    pools.update(&[("north", config(3, 4))]).await.unwrap();
    pools.until("north", &["n1", "n2", "n3"]).await;
    pools.update(&[("north", config(4, 4))]).await.unwrap();
    let _n4 = Hello::new("n4", "").connect(&coordinator).await.unwrap();
    assert_eq!(coordinator.node("n4").await.unwrap().resource_group, "north");
    pools.update(&[("north", config(0, 0))]).await.unwrap();
    pools.until("north", &[]).await;
    assert_eq!(pools.remove("north").await, Ok(true));
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_group_gives_its_members_away_in_the_same_step() {
    let cluster = Cluster::new();
    let settings = CoordinatorSettings { resource_group_auto_recover: false, ..hasty(&cluster) };
    let coordinator = cluster.start_with(settings).await;
    coordinator.is_active().await;
    let pools = Pools::of(&coordinator);
    let _nodes = connect(&coordinator, &[("n1", "east"), ("n2", "east")]).await;
    pools.update(&[("east", config(0, 0)), ("west", config(0, 9))]).await.unwrap();
    some_passes().await;
    assert_eq!(pools.members("east").await, ["n1", "n2"], "nobody moves by themselves here");
    assert_eq!(pools.remove("east").await, Ok(true));
    assert_eq!(pools.members("default").await, ["n1", "n2"]);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_read_the_labels_that_nodes_say_hello_with() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    let labelled = |name: &str, incarnation, disk: &str| Hello {
        incarnation,
        labels: [("disk".to_owned(), disk.to_owned())].into(),
        ..Hello::new(name, "")
    };
    let filtered = pb::ResourceGroupConfig {
        node_filter: [("disk".to_owned(), "ssd".to_owned())].into(),
        ..config(2, 4)
    };
    pools.create("fast", Some(filtered)).await.unwrap();
    let n1 = labelled("n1", 1, "ssd").connect(&coordinator).await.unwrap();
    let _n2 = labelled("n2", 1, "hdd").connect(&coordinator).await.unwrap();
    let _n3 = Hello { group: "fast".into(), ..labelled("n3", 1, "hdd") }.connect(&coordinator).await.unwrap();
    assert_eq!(pools.members("fast").await, ["n1"], "n3 asked for it and is not accepted");
    assert_eq!(pools.show("fast").await.unwrap().group.unwrap().missing, 1);
    // The next process of n1 has another disk, the one of n2 a better one.
    drop(n1);
    let _n1 = labelled("n1", 2, "hdd").connect(&coordinator).await.unwrap();
    let _n2 = labelled("n2", 2, "ssd").connect(&coordinator).await.unwrap();
    pools.until("fast", &["n2"]).await;
    coordinator.stop().await.unwrap();
    // Labels are known before the nodes are heard again.
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    assert_eq!(pools.members("fast").await, ["n2"]);
    assert!(pools.show("fast").await.unwrap().dirty.is_empty());
    let many = (0..65).map(|at| (format!("l{at}"), String::new())).collect();
    let refused = Hello { labels: many, ..Hello::new("n9", "") }.connect(&coordinator).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::ParameterInvalid);
    assert!(refused.message().contains("'n9': it has 65 labels"), "{refused}");
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn transferred_nodes_are_told_and_stay_where_they_were_moved_to() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    let names = ["n1", "n2", "n3", "n4", "n5"];
    let _nodes = connect(&coordinator, &names.map(|name| (name, "default"))).await;
    pools.update(&[("east", config(0, 0))]).await.unwrap();
    assert_eq!(pools.transfer("default", "east", 4).await.unwrap(), ["n1", "n2", "n3", "n4"]);
    assert_eq!(pools.members("east").await, ["n1", "n2", "n3", "n4"], "before the answer");
    assert_eq!(pools.show("east").await.unwrap().group.unwrap().config, Some(config(4, 4)));
    some_passes().await;
    assert_eq!(pools.members("east").await.len(), 4);
    assert_eq!(pools.transfer("east", "default", 1).await.unwrap(), ["n1"]);
    some_passes().await;
    assert_eq!(pools.members("east").await, ["n2", "n3", "n4"]);
    let too_many = pools.transfer("east", "default", 4).await.unwrap_err();
    assert!(too_many.message().contains("'east' has 3 nodes and 4 were to be moved"), "{too_many}");
    assert_eq!(pools.members("east").await.len(), 3, "all or none");
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_a_group_that_is_given_up_are_handed_over_by_the_update() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    pools.create("old", Some(config(0, 2))).await.unwrap();
    pools.create("new", None).await.unwrap();
    let _nodes = connect(&coordinator, &[("n1", "old"), ("n2", "old")]).await;
    let moved = pools.update(&[("old", config(0, 0)), ("new", config(0, 2))]).await.unwrap();
    assert_eq!(moved, ["n1", "n2"]);
    some_passes().await;
    assert_eq!(pools.members("new").await, ["n1", "n2"]);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stays_away_leaves_its_group_and_another_takes_its_place() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    pools.update(&[("east", config(1, 1))]).await.unwrap();
    let mut nodes =
        connect(&coordinator, &[("n1", "east"), ("n2", "west"), ("n3", "west"), ("n4", "west")]).await;
    assert_eq!(pools.members("east").await, ["n1"]);
    // Again within its lease: nothing happens.
    nodes.remove(0).kill().await;
    let n1 = Hello { incarnation: 2, ..Hello::new("n1", "") }.connect(&coordinator).await.unwrap();
    some_passes().await;
    assert_eq!(pools.members("east").await, ["n1"]);
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    n1.kill().await;
    pools.until("east", &["n2"]).await;
    // Lost is not gone: the feed lists it, in no pool.
    let lost = |snapshot: &pointsman_ids::feed::Snapshot| {
        snapshot
            .nodes
            .iter()
            .any(|node| node.name.as_str() == "n1" && node.lost && node.enabled && node.pool.0 == -1)
    };
    watch.until(lost).await;
    assert_eq!(coordinator.node("n1").await.unwrap().resource_group, "");
    // Its former place is taken; where it asks there is room.
    let back = Hello { incarnation: 2, ..Hello::new("n1", "west") }.connect(&coordinator).await.unwrap();
    pools.until("west", &["n1", "n3", "n4"]).await;
    // One that signs off stays a member until its time is over.
    back.stop().await;
    let stopping =
        || async { coordinator.node("n1").await.filter(|node| node.state() == pb::NodeState::Stopping) };
    until("its word that it stops", stopping).await;
    back.kill().await;
    let gone = || async { coordinator.node("n1").await.filter(|node| node.state() == pb::NodeState::Gone) };
    until("its sign-off", gone).await;
    pools.until("west", &["n3", "n4"]).await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_lost_and_speaks_again_gets_a_group_again() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    let _others = connect(&coordinator, &[("n2", "east"), ("n3", "east")]).await;
    let silent = Silent::connect(&coordinator, "n1", "east").await;
    assert_eq!(pools.members("east").await, ["n1", "n2", "n3"]);
    pools.until("east", &["n2", "n3"]).await;
    silent.report().await;
    pools.until("east", &["n1", "n2", "n3"]).await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_leaves_while_most_are_lost_at_once() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    let names = ["n1", "n2", "n3", "n4"];
    let nodes = connect(&coordinator, &names.map(|name| (name, "east"))).await;
    futures_of(nodes.into_iter().map(Node::kill)).await;
    let lost = || async {
        let node = coordinator.node("n4").await?;
        (node.state() == pb::NodeState::Lost).then_some(())
    };
    until("their leases to end", lost).await;
    some_passes().await;
    let left = pools.members("east").await;
    assert!(left.len() >= 2, "the coordinator may be the one that is cut off: {left:?}");
    let _back = connect(&coordinator, &names.map(|name| (name, "east"))).await;
    pools.until("east", &names).await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_has_just_become_active_waits_for_members_and_then_lets_those_go_that_did_not_come()
 {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let _nodes = connect(&coordinator, &[("n1", "east"), ("n2", "east"), ("n3", "east")]).await;
    coordinator.stop().await.unwrap();
    let settings = CoordinatorSettings { node_lease_ttl: Duration::from_secs(2), ..hasty(&cluster) };
    let coordinator = cluster.start_with(settings).await;
    coordinator.is_active().await;
    let pools = Pools::of(&coordinator);
    some_passes().await;
    assert_eq!(pools.members("east").await, ["n1", "n2", "n3"], "silence is not absence");
    let _here = connect(&coordinator, &[("n1", ""), ("n3", "")]).await;
    pools.until("east", &["n1", "n3"]).await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_move_are_served_by_their_former_nodes_until_the_new_ones_hold_them() {
    let cluster = Cluster::new();
    let coordinator = start(&cluster).await;
    let pools = Pools::of(&coordinator);
    let _east = connect(&coordinator, &[("n1", "east"), ("n2", "east")]).await;
    // It gets its part and does not load it yet.
    let slow =
        Hello { manner: Manner::Idles, ..Hello::new("n3", "west") }.connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", ["a", "b"].map(|name| cluster.segment("t", name, 5)).to_vec()).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    let former: BTreeSet<String> = ["n1".to_owned(), "n2".to_owned()].into();
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    watch.until(|s| !servers(s, "t", "a").is_empty() && !servers(s, "t", "b").is_empty()).await;

    let refused = pools.transfer_replicas("u", "east", "west", 1).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CollectionNotFound);
    let refused = pools.transfer_replicas("t", "east", "west", 2).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ParameterInvalid);
    let moved = pools.transfer_replicas("t", "east", "west", 1).await.unwrap();
    assert_eq!((moved.moved.len(), moved.warning.as_str()), (1, ""));
    let lent = || async {
        let west = pools.show("west").await.unwrap().collections.pop()?;
        (west.outgoing == ["n1", "n2"]).then_some(west)
    };
    assert_eq!(until("nodes that are lent", lent).await.replicas, 1);
    let east = pools.show("east").await.unwrap().collections.remove(0);
    assert_eq!((east.replicas, east.incoming), (0, vec!["n1".to_owned(), "n2".to_owned()]));
    let both = |s: &pointsman_ids::feed::Snapshot| {
        let all = ["a", "b"].map(|name| servers(s, "t", name));
        assert!(all.iter().all(|nodes| !nodes.is_empty()), "a gap: {all:?}");
        all
    };
    // A second in which nobody else holds anything.
    let patience = tokio::time::timeout(Duration::from_secs(1), async {
        loop {
            let all = both(&watch.next().await.unwrap());
            assert!(all.iter().all(|nodes| nodes.is_subset(&former)), "{all:?}");
        }
    });
    assert!(patience.await.is_err());
    drop(slow);
    let _quick = Hello { incarnation: 2, ..Hello::new("n3", "west") }.connect(&coordinator).await.unwrap();
    let new: BTreeSet<String> = ["n3".to_owned()].into();
    watch.until(|s| both(s).iter().all(|nodes| *nodes == new)).await;
    let free = || async { pools.show("east").await.unwrap().collections.is_empty().then_some(()) };
    until("the former nodes to be free", free).await;
    // A group in which replicas live is not dropped.
    pools.update(&[("west", config(0, 0))]).await.unwrap();
    let refused = pools.remove("west").await.unwrap_err();
    assert!(refused.message().contains("1 replicas of loaded collections live in it"), "{refused}");
    coordinator.release("t").await;
    assert_eq!(pools.remove("west").await, Ok(true));
    let refused = pools.transfer_replicas("t", "east", "default", 1).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CollectionNotLoaded);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_metastore_that_fails_changes_nothing_and_says_so() {
    let cluster = Cluster::new();
    let faulty = Faulty::new(cluster.metastore().await);
    let coordinator = cluster.start_over(hasty(&cluster), Arc::new(faulty.clone())).await;
    coordinator.is_active().await;
    let pools = Pools::of(&coordinator);
    let _nodes = connect(&coordinator, &[("n1", "east"), ("n2", "east")]).await;
    let before = pools.list().await;
    faulty.set(Fault::Away);
    let unavailable = ErrorCode::ResourceGroupServiceUnavailable;
    // At once, and after the coordinator's own lease has run out too.
    for pause in [Duration::ZERO, Duration::from_millis(1200)] {
        tokio::time::sleep(pause).await;
        assert_eq!(pools.create("north", None).await, Err(unavailable));
        let refused = pools.update(&[("west", config(1, 1))]).await.unwrap_err();
        assert_eq!((refused.code(), refused.is_retriable()), (unavailable, true), "{refused}");
        assert_eq!(pools.transfer("east", "west", 1).await.unwrap_err().code(), unavailable);
        assert_eq!(pools.list().await, before);
    }
    faulty.set(Fault::None);
    let transferred = || async { pools.transfer("east", "west", 1).await.ok() };
    assert_eq!(until("changes again", transferred).await, ["n1"]);
    assert_eq!(pools.members("west").await, ["n1"]);
    coordinator.stop().await.unwrap();
}
