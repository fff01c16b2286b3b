//! Nodes that the operator switches off or has forgotten.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::collections::BTreeSet;

use pointsman_ids::{CollectionId, ErrorCode, NodeName, feed::LeaderEntry};
use pointsman_query_coord::{SessionState, Stores, collection_entry, may_remove, node_entries, show_load};
use world::*;

/// Two nodes of one replica that hold two segments of two shards between them, served.
fn serving() -> Stores {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 2, &[5, 5]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    obey(&mut stores);
    promote(&mut stores);
    settle(&mut stores);
    stores
}

fn switch(stores: &mut Stores, name: &str, on: bool) {
    stores.nodes.get_mut(name).unwrap().switched_on = on;
}

fn leaders(stores: &Stores) -> Vec<LeaderEntry> {
    collection_entry(stores, CollectionId(1)).unwrap().unwrap().leaders.into_iter().flatten().collect()
}

#[test]
fn a_node_that_is_switched_off_keeps_data_and_places_and_leads_nothing() {
    let mut stores = serving();
    let (id, placement) = (stores.observed["n1"].id, all_places(&stores));
    let copies = |stores: &Stores| {
        let entry = collection_entry(stores, CollectionId(1)).unwrap().unwrap();
        entry.segments.iter().map(|segment| segment.copies.clone()).collect::<Vec<_>>()
    };
    let (held, led) = (copies(&stores), leaders(&stores));
    assert!(led.iter().any(|leader| leader.node == id), "it leads a shard before");

    switch(&mut stores, "n1", false);
    assert!(leaders(&stores).iter().all(|leader| leader.node != id), "its leads are not listed");
    settle(&mut stores);
    assert_eq!(leaders(&stores).len(), led.len(), "another node of the replica leads in its place");
    assert!(leaders(&stores).iter().all(|leader| leader.node != id));
    assert!(leaders(&stores).iter().any(|leader| !leader.serviceable), "its segments are not held by others");
    assert_eq!((all_places(&stores), copies(&stores)), (placement, held));
    let entry = node_entries(&stores).into_iter().find(|entry| entry.id == id).unwrap();
    assert!(!entry.switched_on && !entry.enabled);

    switch(&mut stores, "n1", true);
    assert!(node_entries(&stores).iter().all(|entry| entry.switched_on && entry.enabled));
    settle(&mut stores);
    assert!(leaders(&stores).iter().all(|leader| leader.serviceable));
}

#[test]
fn progress_counts_what_a_disabled_node_keeps_and_readiness_does_not() {
    let mut stores = serving();
    let shown = |stores: &Stores| {
        let load = show_load(stores, &stores.snapshot().wired(), CollectionId(1), None).unwrap();
        let east = load.groups.into_values().next().unwrap();
        (east.percent, east.held, east.readiness.is_ready())
    };
    assert_eq!(shown(&stores), (100, 2, true));
    switch(&mut stores, "n1", false);
    assert_eq!(shown(&stores), (100, 2, false));
}

#[test]
fn a_disabled_node_gets_no_place_that_it_does_not_have() {
    let mut stores = world(&[("east", &["n1", "n2", "n3"])]);
    collection(&mut stores, 1, &[5, 5, 5]);
    switch(&mut stores, "n3", false);
    load(&mut stores, &[("east", 2)]);
    let nodes = |stores: &Stores| {
        stores.replicas.iter().map(|replica| replica.nodes.clone()).collect::<Vec<BTreeSet<NodeName>>>()
    };
    let each: Vec<usize> = nodes(&stores).iter().map(BTreeSet::len).collect();
    assert_eq!(each, [1, 1], "each replica has one that works");
    assert!(nodes(&stores).iter().all(|nodes| !nodes.contains("n3")));
    switch(&mut stores, "n3", true);
    divide(&mut stores);
    assert!(nodes(&stores).iter().any(|nodes| nodes.contains("n3")));
    let before = nodes(&stores);
    switch(&mut stores, "n3", false);
    divide(&mut stores);
    assert_eq!(nodes(&stores), before, "the place that it has stays");
}

#[test]
fn what_may_be_alive_is_not_forgotten() {
    let mut stores = serving();
    let refused = |stores: &Stores| may_remove(stores, &node("n1")).unwrap_err();
    assert!(refused(&stores).message().contains("is live; stop it first"));
    set(&mut stores, "n1", SessionState::Stopping);
    assert!(refused(&stores).message().contains("is stopping"));
    assert_eq!(refused(&stores).code(), ErrorCode::ParameterInvalid);
    stores.observed.remove("n1");
    stores.awaiting = true;
    assert_eq!(refused(&stores).code(), ErrorCode::ServiceNotReady);
    assert!(refused(&stores).is_retriable());
}

#[test]
fn a_node_is_forgotten_once_others_hold_its_segments() {
    let mut stores = serving();
    set(&mut stores, "n1", SessionState::Lost);
    let refused = |stores: &Stores| may_remove(stores, &node("n1")).unwrap_err().message().to_owned();
    assert!(refused(&stores).contains("is the place of 1 segment of 't'"), "{}", refused(&stores));
    decide(&mut stores);
    assert!(refused(&stores).contains("1 segment of 't'"), "its copy counts until another node has one");
    obey(&mut stores);
    assert_eq!(may_remove(&stores, &node("n1")), Ok(()));
}

#[test]
fn the_last_node_of_a_replica_stays_its_place_until_the_load_is_released() {
    let mut stores = serving();
    for name in ["n1", "n2"] {
        set(&mut stores, name, SessionState::Lost);
    }
    decide(&mut stores);
    assert!(may_remove(&stores, &node("n2")).is_err());
    stores.replicas.remove_all(COLLECTION);
    assert_eq!(may_remove(&stores, &node("n2")), Ok(()));
    assert_eq!(may_remove(&stores, &node("never-seen")), Ok(()), "nothing holds what is not there");
}
