//! Groups of nodes, nodes of replicas, and the guard against mass loss.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, ReplicaId};
use pointsman_query_coord::{LossGuard, SegmentReport, SessionState, Stores, group_for};
use proptest::prelude::*;
use world::*;

const LEASE: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> MonoTime {
    MonoTime::from_start(Duration::from_secs(seconds))
}

#[test]
fn a_node_goes_to_its_group_else_where_it_asks_else_where_most_are_missing() {
    let mut stores = world(&[("a", &["n1"]), ("b", &[]), ("c", &[]), ("default", &[])]);
    let joins = |stores: &Stores, name: &str, asked: Option<&str>| {
        group_for(&stores.groups, &node(name), asked.map(group).as_ref()).map(|group| group.to_string())
    };
    assert_eq!(joins(&stores, "n1", Some("b")).unwrap(), "a");
    assert_eq!(joins(&stores, "n2", Some("b")).unwrap(), "b");
    assert_eq!(joins(&stores, "n2", None).unwrap(), "default");
    for name in ["b", "c"] {
        stores.groups.get_mut(name).unwrap().requests = 2;
    }
    assert_eq!(joins(&stores, "n2", None).unwrap(), "b");
    let error = joins(&stores, "n2", Some("d")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResourceGroupNotFound);
    assert!(error.message().contains("'d'") && error.message().contains("a, b, c, default"), "{error}");
}

#[test]
fn nodes_are_divided_evenly_and_stay_where_they_are() {
    let mut stores = world(&[("east", &["n1", "n2", "n3"])]);
    collection(&mut stores, 1, &[1]);
    load(&mut stores, &[("east", 2)]);
    let sizes = |stores: &Stores| stores.replicas.values().map(|r| r.nodes.len()).collect::<Vec<_>>();
    assert_eq!(sizes(&stores).iter().sum::<usize>(), 3);
    assert!(sizes(&stores).iter().all(|size| (1..=2).contains(size)));
    let before = stores.replicas.clone();
    divide(&mut stores);
    assert_eq!(stores.replicas, before);
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
    let replica = |stores: &Stores| stores.replicas[&ReplicaId(1)].clone();
    assert!(replica(&stores).ro_nodes.contains("n1") && !replica(&stores).nodes.contains("n1"));
    stores.observed.get_mut("n1").unwrap().segments.clear();
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
                let holders = stores.replicas.values().filter(|replica| replica.contains(name)).count();
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
        let sizes: Vec<usize> = stores.replicas.values().map(|replica| replica.nodes.len()).collect();
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
