//! Where segments go, and that they stay.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::collections::BTreeSet;

use pointsman_ids::{NodeName, ReplicaId, SegmentId};
use pointsman_query_coord::{SegmentReport, SessionState, Stores, copies, settled};
use proptest::prelude::*;
use world::*;

const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

/// `east` and `west` with some nodes each, and a loaded collection with replicas in both.
fn any_world() -> impl Strategy<Value = Stores> {
    (1..=3_usize, 1..=3_usize, 1..=2_usize, prop::collection::vec(0..1000_u64, 0..40), 1..4_u32).prop_map(
        |(east, west, replicas, rows, shards)| {
            let mut stores = world(&[("east", &NODES[..east]), ("west", &NODES[3..3 + west])]);
            collection(&mut stores, shards, &rows);
            load(&mut stores, &[("east", replicas.min(east)), ("west", replicas.min(west))]);
            stores
        },
    )
}

fn moved(before: &Stores, after: &Stores) -> usize {
    let flat = |stores: &Stores| -> BTreeSet<(ReplicaId, SegmentId, NodeName)> {
        let all = all_places(stores).into_iter();
        all.flat_map(|(replica, places)| places.into_iter().map(move |(s, n)| (replica, s, n))).collect()
    };
    flat(before).difference(&flat(after)).count()
}

proptest! {
    #[test]
    fn every_segment_has_one_place_on_a_writable_node_of_its_replica(mut stores in any_world()) {
        decide(&mut stores);
        for replica in stores.replicas.iter() {
            let places = places(&stores, replica.id.0);
            prop_assert_eq!(places.len(), stores.wanted(COLLECTION).len());
            prop_assert!(places.values().all(|node| replica.nodes.contains(node)));
        }
    }

    #[test]
    fn the_same_world_gives_the_same_plan_and_a_plan_that_stands_does_not_move(mut stores in any_world()) {
        let mut other = stores.clone();
        decide(&mut stores);
        decide(&mut other);
        prop_assert_eq!(all_places(&stores), all_places(&other));
        obey(&mut stores);
        decide(&mut stores);
        prop_assert_eq!(all_places(&stores), all_places(&other));
    }

    #[test]
    fn equal_segments_spread_within_one_where_leads_weigh_nothing(mut stores in any_world(), count in 0..50_usize) {
        stores.rules.balance.leader_overhead = 0.0;
        collection(&mut stores, 1, &vec![100; count]);
        let next = whole_target(&stores, 2);
        stores.targets.set_next(next);
        decide(&mut stores);
        for replica in stores.replicas.iter() {
            let counts = counts(&stores, replica.id.0);
            let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
            prop_assert!(most - least <= 1, "{:?}", counts);
        }
    }

    #[test]
    fn losing_a_node_moves_what_it_had_and_nothing_else(mut stores in any_world(), lost in 0..6_usize) {
        decide(&mut stores);
        obey(&mut stores);
        let before = stores.clone();
        let Some(name) = before.nodes.keys().nth(lost).cloned() else { return Ok(()) };
        set(&mut stores, name.as_str(), SessionState::Lost);
        decide(&mut stores);
        let alone = |id: &ReplicaId| stores.replicas.get(*id).unwrap().nodes.len() == 1;
        let expected: usize = all_places(&before).iter().filter(|(id, _)| !alone(id))
            .map(|(_, places)| places.values().filter(|node| **node == name).count()).sum();
        prop_assert_eq!(moved(&before, &stores), expected);
    }
}

#[test]
fn a_former_holder_keeps_its_copy_until_the_new_one_has_it() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[10]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    obey(&mut stores);
    assert_eq!(place_of(&stores, 1, 1), "n1");
    set(&mut stores, "n1", SessionState::Stopping);
    decide(&mut stores);
    assert_eq!(place_of(&stores, 1, 1), "n2");
    let nodes = |stores: &Stores| {
        let copies = copies(stores, stores.replicas.get(ReplicaId(1)).unwrap(), SegmentId(1));
        copies.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(nodes(&stores), ["n1", "n2"]);
    report(&mut stores, "n2", 1, SegmentReport::Held);
    assert_eq!(nodes(&stores), ["n2"]);
}

#[test]
fn a_node_that_failed_is_passed_over_and_the_last_one_goes_on_trying() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[10]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    assert_eq!(place_of(&stores, 1, 1), "n1");
    fail(&mut stores, "n1", 1);
    decide(&mut stores);
    assert_eq!(place_of(&stores, 1, 1), "n2");
    fail(&mut stores, "n2", 1);
    decide(&mut stores);
    assert_eq!(place_of(&stores, 1, 1), "n2");
}

#[test]
fn nothing_moves_before_every_node_was_heard_or_its_time_is_over() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[10, 10]);
    load(&mut stores, &[("east", 1)]);
    let n2 = stores.observed.remove("n2").unwrap();
    report(&mut stores, "n1", 1, SegmentReport::Held);
    stores.awaiting = true;
    decide(&mut stores);
    assert!(!settled(&stores, stores.replicas.get(ReplicaId(1)).unwrap()));
    assert!(places(&stores, 1).is_empty());
    // What a node holds it keeps, also while nothing is decided.
    let listed = |id| copies(&stores, stores.replicas.get(ReplicaId(1)).unwrap(), SegmentId(id)).len();
    assert_eq!((listed(1), listed(2)), (1, 0));
    // Heard: what it holds is its place, though n1 would have had room.
    stores.observed.insert(node("n2"), n2);
    report(&mut stores, "n2", 2, SegmentReport::Held);
    decide(&mut stores);
    assert_eq!((place_of(&stores, 1, 1), place_of(&stores, 1, 2)), ("n1", "n2"));
}

#[test]
fn a_frozen_placement_stays_whatever_became_of_its_nodes() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[10, 10]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    set(&mut stores, "n1", SessionState::Lost);
    let before = all_places(&stores);
    decide_while(&mut stores, true);
    assert_eq!(all_places(&stores), before);
    // The suspicion is over: what was lost is placed anew, though nothing else changed.
    decide_while(&mut stores, false);
    assert_ne!(all_places(&stores), before);
}

#[test]
fn leads_are_spread_stay_and_leave_a_lost_node() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 4, &[10, 10, 10, 10]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    let led =
        |stores: &Stores, name: &str| stores.leads.values().filter(|leader| leader.as_str() == name).count();
    assert_eq!((led(&stores, "n1"), led(&stores, "n2")), (2, 2));
    let before = stores.leads.clone();
    decide(&mut stores);
    assert_eq!(stores.leads, before);
    set(&mut stores, "n1", SessionState::Lost);
    decide(&mut stores);
    assert_eq!((led(&stores, "n1"), led(&stores, "n2")), (0, 4));
}
