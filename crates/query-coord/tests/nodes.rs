//! Nodes of replicas, and the guard against mass loss.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::{sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::ReplicaId;
use pointsman_query_coord::{LossGuard, Replica, SegmentReport, SessionState, Stores, settle_groups};
use proptest::prelude::*;
use world::*;

const LEASE: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> MonoTime {
    MonoTime::from_start(Duration::from_secs(seconds))
}

#[test]
fn nodes_are_divided_evenly_and_stay_where_they_are() {
    let mut stores = world(&[("east", &["n1", "n2", "n3"])]);
    collection(&mut stores, 1, &[1]);
    load(&mut stores, &[("east", 2)]);
    let sizes = |stores: &Stores| stores.replicas.iter().map(|r| r.nodes.len()).collect::<Vec<_>>();
    assert_eq!(sizes(&stores).iter().sum::<usize>(), 3);
    assert!(sizes(&stores).iter().all(|size| (1..=2).contains(size)));
    let before = stores.replicas.clone();
    divide(&mut stores);
    assert_eq!(stores.replicas, before);
}

/// The replicas of a collection in `east`, each with these writable and read-only nodes.
fn with_nodes(each: &[(&[&str], &[&str])]) -> Stores {
    let mut stores = world(&[("east", &["n1", "n2", "n3"])]);
    collection(&mut stores, 1, &[1]);
    load(&mut stores, &[("east", each.len())]);
    for (id, (nodes, read_only)) in (1..).zip(each) {
        let named = |names: &[&str]| names.iter().map(|name| node(name)).collect();
        let replica = stores.replicas.get(ReplicaId(id)).unwrap();
        let replica = Replica { nodes: named(nodes), ro_nodes: named(read_only), ..Replica::clone(replica) };
        stores.replicas.insert(replica);
    }
    stores
}

fn writable(stores: &Stores) -> Vec<Vec<String>> {
    let names = |replica: &Arc<Replica>| replica.nodes.iter().map(ToString::to_string).collect();
    stores.replicas.iter().map(names).collect()
}

#[test]
fn who_has_too_many_nodes_gives_away_the_last_by_name() {
    let mut stores = with_nodes(&[(&["n1", "n2", "n3"], &[]), (&[], &[])]);
    divide(&mut stores);
    assert_eq!(writable(&stores)[0], ["n1", "n2"]);
}

#[test]
fn read_only_nodes_are_taken_back_before_others_are_taken() {
    let mut stores = with_nodes(&[(&[], &["n3"]), (&[], &[])]);
    stores.groups.get_mut("east").unwrap().members.remove("n2");
    divide(&mut stores);
    assert_eq!(writable(&stores), [["n3"], ["n1"]]);
}

#[test]
fn nodes_move_between_groups_by_themselves_only_where_that_is_switched_on() {
    let mut stores = world(&[("default", &["n1"]), ("east", &[])]);
    stores.groups.get_mut("east").unwrap().config.requests = 1;
    let moves = |recovers| settle_groups(&stores, &Default::default(), |_| None, recovers).moves;
    assert!(moves(false).is_empty());
    assert_eq!(moves(true)[0].to, Some(group("east")));
}

#[test]
fn a_node_that_leaves_its_group_is_drained_before_it_leaves_the_replica() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[1, 1]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    obey(&mut stores);
    stores.groups.get_mut("east").unwrap().members.remove("n1");
    divide(&mut stores);
    let replica = |stores: &Stores| stores.replicas.get(ReplicaId(1)).unwrap().clone();
    assert!(replica(&stores).ro_nodes.contains("n1") && !replica(&stores).nodes.contains("n1"));
    unreport_all(&mut stores, "n1");
    divide(&mut stores);
    assert!(!replica(&stores).contains("n1"));
}

#[test]
fn silence_is_not_absence_a_node_that_was_not_heard_keeps_its_place() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[1]);
    load(&mut stores, &[("east", 1)]);
    stores.observed.remove("n1");
    stores.awaiting = true;
    let before = stores.replicas.clone();
    divide(&mut stores);
    assert_eq!(stores.replicas, before);
    // Nor does one that is lost: it finds its place again when it comes back.
    stores.awaiting = false;
    divide(&mut stores);
    assert_eq!(stores.replicas, before);
}

proptest! {
    #[test]
    fn a_node_is_in_one_replica_of_a_collection_at_most(
        nodes in 1..6_usize,
        replicas in 1..4_usize,
        leaving in prop::collection::vec(0..6_usize, 0..6),
    ) {
        let names = ["n1", "n2", "n3", "n4", "n5", "n6"];
        let mut stores = world(&[("east", &names[..nodes])]);
        collection(&mut stores, 1, &[1, 1, 1]);
        load(&mut stores, &[("east", replicas)]);
        for node in leaving {
            decide(&mut stores);
            obey(&mut stores);
            if let Some(seen) = stores.observed.get_mut(names[node]) {
                seen.state = if seen.state == SessionState::Live { SessionState::Stopping } else { SessionState::Live };
            }
            divide(&mut stores);
            for name in &names[..nodes] {
                let holders = stores.replicas.iter().filter(|replica| replica.contains(name)).count();
                prop_assert!(holders <= 1, "{} is in {} replicas", name, holders);
            }
        }
        // Once all are back and have dropped what nobody wants of them, they are divided evenly.
        stores.observed.values_mut().for_each(|seen| seen.state = SessionState::Live);
        for _ in 0..4 {
            divide(&mut stores);
            decide(&mut stores);
            obey(&mut stores);
            tidy(&mut stores);
        }
        let sizes: Vec<usize> = stores.replicas.iter().map(|replica| replica.nodes.len()).collect();
        prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{:?}", sizes);
    }
}

#[test]
fn losing_more_than_half_at_once_arouses_suspicion_until_half_of_them_are_back() {
    let mut stores = world(&[("east", &["n1", "n2", "n3", "n4"])]);
    let mut guard = LossGuard::default();
    let mut look = |stores: &Stores, seconds| {
        guard.update(stores, at(seconds), LEASE, 0.5);
        guard.is_suspicious()
    };
    set(&mut stores, "n1", SessionState::Lost);
    set(&mut stores, "n2", SessionState::Lost);
    assert!(!look(&stores, 1), "half of them are not more than half");
    set(&mut stores, "n3", SessionState::Lost);
    set(&mut stores, "n4", SessionState::Lost);
    assert!(look(&stores, 2));
    set(&mut stores, "n1", SessionState::Live);
    assert!(look(&stores, 1000), "time alone does not end it");
    set(&mut stores, "n2", SessionState::Live);
    assert!(!look(&stores, 1001));
}

#[test]
fn losing_them_one_after_the_other_is_no_mass_loss() {
    let mut stores = world(&[("east", &["n1", "n2", "n3"])]);
    report(&mut stores, "n1", 1, SegmentReport::Held);
    let mut guard = LossGuard::default();
    for (seconds, name) in [(0, "n1"), (100, "n2"), (200, "n3")] {
        set(&mut stores, name, SessionState::Lost);
        guard.update(&stores, at(seconds), LEASE, 0.5);
        assert!(!guard.is_suspicious(), "{name}");
    }
}

#[test]
fn members_that_left_because_they_were_lost_count_as_lost() {
    let mut stores = world(&[("east", &["n1", "n2", "n3", "n4"])]);
    let mut guard = LossGuard::default();
    let mut look = |stores: &Stores, seconds| {
        guard.update(stores, at(seconds), LEASE, 0.5);
        guard.is_suspicious()
    };
    let leave = |stores: &mut Stores, name| {
        set(stores, name, SessionState::Lost);
        stores.groups.get_mut("east").unwrap().members.remove(name);
    };
    set(&mut stores, "n1", SessionState::Lost);
    assert!(!look(&stores, 1));
    leave(&mut stores, "n1");
    set(&mut stores, "n2", SessionState::Lost);
    assert!(!look(&stores, 2));
    leave(&mut stores, "n2");
    set(&mut stores, "n3", SessionState::Lost);
    assert!(look(&stores, 3), "three of four within a lease, two of which are no members any more");
    set(&mut stores, "n1", SessionState::Live);
    set(&mut stores, "n2", SessionState::Live);
    assert!(!look(&stores, 4), "half of them are back");
    // A loss of long ago is no part of a new one.
    leave(&mut stores, "n1");
    set(&mut stores, "n3", SessionState::Live);
    for (seconds, name) in [(100, "n3"), (200, "n4")] {
        set(&mut stores, name, SessionState::Lost);
        assert!(!look(&stores, seconds), "{name}");
        set(&mut stores, name, SessionState::Live);
        assert!(!look(&stores, seconds + 1), "{name}");
    }
}
