//! Members of groups into replicas: what waits, what moves to another group, and what leaves.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::{collections::BTreeSet, time::Duration};

use pointsman_ids::{CollectionId, ErrorCode, NodeName, ReplicaId};
use pointsman_query_coord::{
    GroupWait, Replica, SessionState, Stores, describe_group, node_entries, replica_nodes, settle_groups,
    transfer_replicas,
};
use proptest::prelude::*;
use world::*;

fn replica(stores: &Stores, id: u64) -> Replica {
    Replica::clone(stores.replicas.get(ReplicaId(id)).unwrap())
}

fn names(nodes: &BTreeSet<NodeName>) -> Vec<&str> {
    nodes.iter().map(NodeName::as_str).collect()
}

fn all(stores: &Stores) -> Vec<Replica> {
    stores.replicas_of(COLLECTION).cloned().collect()
}

/// One replica in `east`, on its two nodes, served.
fn serving() -> Stores {
    let mut stores = world(&[("east", &["n1", "n2"]), ("west", &["n3", "n4"]), ("default", &[])]);
    collection(&mut stores, 2, &[5, 5, 5, 5]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    obey(&mut stores);
    promote(&mut stores);
    decide(&mut stores);
    stores
}

/// Whether every segment is observed on some node that the replica contains.
fn serves_everything(stores: &Stores, id: u64) -> bool {
    let replica = replica(stores, id);
    stores.wanted(COLLECTION).into_iter().all(|segment| stores.replica_holds(&replica, segment))
}

#[test]
fn a_replica_that_waits_gets_no_node_while_its_group_misses_some_and_the_wait_is_not_over() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[5]);
    load(&mut stores, &[("east", 1)]);
    let mut waiting = Replica { id: ReplicaId(2), nodes: BTreeSet::new(), ..replica(&stores, 1) };
    waiting.waits_for_group_since = Some(70_000_000_000);
    stores.replicas.insert(waiting);
    stores.groups.get_mut("east").unwrap().config.requests = 3;
    let before = all(&stores);
    divide(&mut stores);
    assert_eq!(all(&stores), before, "30 s of 60 s: the other replica keeps both nodes");

    let later = GroupWait { now: 130_000_000_000, ..WAIT };
    let given = replica_nodes(&stores, COLLECTION, &all(&stores), later);
    let sizes: Vec<usize> = given.iter().map(|replica| replica.nodes.len()).collect();
    assert!(given.iter().all(|replica| replica.waits_for_group_since.is_none()), "{given:?}");
    assert!(sizes.contains(&1), "after a minute it waits no more: {sizes:?}");

    stores.groups.get_mut("east").unwrap().config.requests = 2;
    unreport_all(&mut stores, "n2");
    divide(&mut stores);
    divide(&mut stores);
    assert_eq!((replica(&stores, 1).nodes.len(), replica(&stores, 2).nodes.len()), (1, 1));
    assert_eq!(replica(&stores, 2).waits_for_group_since, None, "the mark goes with the first nodes");
}

#[test]
fn a_mark_stays_where_there_is_no_node_to_give() {
    let mut stores = world(&[("east", &[])]);
    collection(&mut stores, 1, &[5]);
    load(&mut stores, &[("east", 1)]);
    let waiting = Replica { waits_for_group_since: Some(1), ..replica(&stores, 1) };
    stores.replicas.insert(waiting.clone());
    divide(&mut stores);
    assert_eq!(replica(&stores, 1), waiting);
}

#[test]
fn nodes_of_a_replica_that_moves_serve_until_those_of_the_new_group_hold_everything() {
    let mut stores = serving();
    let moved = transfer_replicas(&stores.groups, &all(&stores), "t", "east", "west", 1).unwrap();
    assert_eq!((moved.len(), moved[0].group.as_str()), (1, "west"));
    assert_eq!(moved[0].nodes, replica(&stores, 1).nodes, "nothing but its group is rewritten");
    moved.into_iter().for_each(|replica| stores.replicas.insert(replica));
    divide(&mut stores);
    let replica_1 = replica(&stores, 1);
    assert_eq!((names(&replica_1.nodes), names(&replica_1.ro_nodes)), (vec!["n3", "n4"], vec!["n1", "n2"]));
    let described = |stores: &Stores, name: &str| {
        let replicas = all(stores);
        let described = describe_group(&stores.groups[name], &stores.nodes, &replicas);
        let borrowed = described.collections.get(&CollectionId(1)).cloned().unwrap_or_default();
        let list = |nodes: &BTreeSet<NodeName>| names(nodes).join(" ");
        (borrowed.replicas, list(&borrowed.outgoing), list(&borrowed.incoming))
    };
    assert_eq!(described(&stores, "west"), (1, "n1 n2".into(), String::new()));
    assert_eq!(described(&stores, "east"), (0, String::new(), "n1 n2".into()));
    assert_eq!(described(&stores, "default"), (0, String::new(), String::new()));

    decide(&mut stores);
    tidy(&mut stores);
    assert!(serves_everything(&stores, 1), "the former nodes keep what the new ones do not hold yet");
    obey(&mut stores);
    tidy(&mut stores);
    divide(&mut stores);
    assert!(serves_everything(&stores, 1));
    assert_eq!(replica(&stores, 1).ro_nodes, BTreeSet::new(), "drained, they are free");
    assert_eq!(described(&stores, "west"), (1, String::new(), String::new()));
}

#[test]
fn a_transfer_of_replicas_names_what_it_lacks() {
    let stores = serving();
    let transfer = |source: &str, target: &str, count: i64| {
        transfer_replicas(&stores.groups, &all(&stores), "t", source, target, count).unwrap_err()
    };
    for (source, target, count, code) in [
        ("east", "east", 1, ErrorCode::ParameterInvalid),
        ("east", "west", 0, ErrorCode::ParameterInvalid),
        ("east", "north", 1, ErrorCode::ResourceGroupNotFound),
        ("north", "east", 1, ErrorCode::ResourceGroupNotFound),
    ] {
        assert_eq!(transfer(source, target, count).code(), code, "{source} {target} {count}");
    }
    let too_many = transfer("east", "west", 2);
    assert_eq!(too_many.code(), ErrorCode::ParameterInvalid);
    assert!(too_many.message().contains("'t' has 1 replicas in resource group 'east'"), "{too_many}");
}

#[test]
fn the_first_replicas_by_number_move() {
    let mut stores = world(&[("east", &["n1", "n2", "n3"]), ("west", &[])]);
    collection(&mut stores, 1, &[5]);
    load(&mut stores, &[("west", 1), ("east", 3)]);
    let moved = transfer_replicas(&stores.groups, &all(&stores), "t", "east", "west", 2).unwrap();
    assert_eq!(moved.iter().map(|replica| replica.id.0).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_lost_node_leaves_its_group_and_its_copies_stay_until_others_hold_them() {
    let mut stores = serving();
    set(&mut stores, "n1", SessionState::Lost);
    let away = BTreeSet::from([node("n1")]);
    let settled = settle_groups(&stores, &away, |_| None, true);
    assert_eq!(settled.moves.len(), 1);
    stores.groups.get_mut("east").unwrap().members.remove("n1");
    divide(&mut stores);
    decide(&mut stores);
    assert!(replica(&stores, 1).ro_nodes.contains("n1"));
    let entry = node_entries(&stores).into_iter().find(|entry| entry.name.as_str() == "n1").unwrap();
    assert!(entry.lost && entry.enabled, "the feed lists it on");
    divide(&mut stores);
    assert!(replica(&stores, 1).ro_nodes.contains("n1"), "nobody else holds its copies");
    obey(&mut stores);
    divide(&mut stores);
    assert!(!replica(&stores, 1).contains("n1"));
    // One that has gone takes its copies with it, and out of the feed.
    set(&mut stores, "n1", SessionState::Gone);
    assert!(node_entries(&stores).iter().all(|entry| entry.name.as_str() != "n1"));
}

#[test]
fn nodes_without_a_group_get_the_one_that_they_asked_for_if_there_is_one() {
    let mut stores = serving();
    for group in stores.groups.values_mut() {
        group.members.clear();
    }
    set(&mut stores, "n3", SessionState::Stopping);
    set(&mut stores, "n4", SessionState::Lost);
    let (west, gone) = (group("west"), group("gone"));
    let asked = |name: &NodeName| match name.as_str() {
        "n1" => Some(&west),
        _ => Some(&gone),
    };
    let moves = settle_groups(&stores, &BTreeSet::new(), asked, false).moves;
    let moves: Vec<String> =
        moves.iter().map(|one| format!("{} {}", one.node, one.to.as_ref().unwrap())).collect();
    assert_eq!(moves, ["n1 west", "n2 default"], "equal room: by name");
}

proptest! {
    #[test]
    fn nobody_moves_without_need(
        east in 1..5_usize,
        replicas in 1..4_usize,
        stopping in prop::collection::vec(0..4_usize, 0..3),
    ) {
        let members = ["n1", "n2", "n3", "n4"];
        let mut stores = world(&[("east", &members[..east]), ("west", &["n5", "n6"])]);
        collection(&mut stores, 1, &[1, 1, 1]);
        load(&mut stores, &[("east", replicas), ("west", 1)]);
        decide(&mut stores);
        obey(&mut stores);
        for at in stopping.into_iter().filter(|at| *at < east) {
            set(&mut stores, members[at], SessionState::Stopping);
            divide(&mut stores);
            let once = all(&stores);
            divide(&mut stores);
            prop_assert_eq!(all(&stores), once, "a second look changes nothing");
        }
        let mut backwards = all(&stores);
        backwards.reverse();
        stores.observed.values_mut().for_each(|seen| seen.state = SessionState::Live);
        let forwards = replica_nodes(&stores, COLLECTION, &all(&stores), WAIT);
        prop_assert_eq!(replica_nodes(&stores, COLLECTION, &backwards, WAIT), forwards, "order does not matter");
    }
}

#[test]
fn the_wait_is_counted_from_its_mark() {
    let wait = GroupWait { now: 0, at_most: Duration::from_secs(1) };
    let mut stores = world(&[("east", &["n1"])]);
    collection(&mut stores, 1, &[5]);
    load(&mut stores, &[("east", 1)]);
    stores.groups.get_mut("east").unwrap().config.requests = 2;
    // The clock was set back since: it waits for the whole time again, and not for ever.
    let marked =
        Replica { nodes: BTreeSet::new(), waits_for_group_since: Some(5_000_000_000), ..replica(&stores, 1) };
    assert!(replica_nodes(&stores, COLLECTION, [&marked], wait).is_empty());
    let later = GroupWait { now: 6_000_000_000, ..wait };
    assert_eq!(replica_nodes(&stores, COLLECTION, [&marked], later).len(), 1);
}
