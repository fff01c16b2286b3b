//! What brokers are told.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use pointsman_ids::{
    GroupNumber, NodeId,
    feed::{CollectionEntry, CopyState, LoadState},
};
use pointsman_query_coord::{SegmentReport, SessionState, Stores, collection_entry, node_entries};
use world::*;

fn entry(stores: &Stores) -> CollectionEntry {
    collection_entry(stores, COLLECTION).unwrap()
}

/// Copies of a segment as (node, assigned, observed).
fn copies(stores: &Stores, name: &str) -> Vec<(u64, Option<CopyState>, Option<CopyState>)> {
    let entry = entry(stores);
    let segment = entry.segments.iter().find(|segment| segment.name.as_str() == name).unwrap();
    segment.copies.iter().map(|copy| (copy.node.0, copy.assigned, copy.observed)).collect()
}

const ON: Option<CopyState> = Some(CopyState::Online);

#[test]
fn a_collection_without_a_current_target_has_no_segments() {
    let mut stores = world(&[("east", &["n1"])]);
    collection(&mut stores, 1, &[1]);
    assert_eq!(entry(&stores).load, LoadState::NotLoaded);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    obey(&mut stores);
    assert_eq!(entry(&stores).load, LoadState::Loading { percent: 0 });
    assert!(entry(&stores).segments.is_empty());
    promote(&mut stores);
    assert_eq!(entry(&stores).load, LoadState::Serving);
    assert_eq!(copies(&stores, "s00001"), [(1, ON, ON)]);
    assert!(entry(&stores).leaders[0][0].serviceable);
    assert_eq!(entry(&stores).leaders[0][0].group, GroupNumber(1));
}

#[test]
fn segments_that_were_pushed_later_appear_by_promotion_only() {
    let mut stores = served();
    stores.collections.get_mut(&COLLECTION).unwrap().insert(segment(2, 1, 5));
    stores.next.insert(COLLECTION, whole_target(&stores, 2));
    decide(&mut stores);
    assert_eq!(entry(&stores).segments.len(), 1);
    obey(&mut stores);
    promote(&mut stores);
    assert_eq!(entry(&stores).segments.len(), 2);
}

/// One segment served by n1 of two nodes.
fn served() -> Stores {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[1]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    obey(&mut stores);
    promote(&mut stores);
    stores
}

#[test]
fn a_lost_nodes_copy_stays_until_its_successor_is_observed() {
    let mut stores = served();
    set(&mut stores, "n1", SessionState::Lost);
    decide(&mut stores);
    assert_eq!(copies(&stores, "s00001"), [(1, ON, ON), (2, ON, None)]);
    let nodes = node_entries(&stores);
    assert!(nodes[0].enabled && nodes[0].lost && !nodes[1].lost);
    report(&mut stores, "n2", 1, SegmentReport::Fetching);
    assert_eq!(copies(&stores, "s00001"), [(1, ON, ON), (2, ON, Some(CopyState::Offline))]);
    report(&mut stores, "n2", 1, SegmentReport::Held);
    assert_eq!(copies(&stores, "s00001"), [(2, ON, ON)]);
}

#[test]
fn a_stopping_node_is_not_enabled_and_a_gone_one_neither() {
    let mut stores = served();
    for state in [SessionState::Stopping, SessionState::Gone] {
        set(&mut stores, "n1", state);
        assert!(!node_entries(&stores)[0].enabled);
    }
}

#[test]
fn a_restarted_nodes_copy_is_not_observed_until_it_reports() {
    let mut stores = served();
    let seen = stores.observed.get_mut("n1").unwrap();
    (seen.id, seen.reported) = (NodeId(9), false);
    seen.segments.clear();
    decide(&mut stores);
    assert_eq!(copies(&stores, "s00001"), [(9, ON, None)]);
    assert!(!entry(&stores).leaders[0][0].serviceable);
}

#[test]
fn a_failed_copy_says_so() {
    let mut stores = served();
    stores.observed.get_mut("n2").unwrap().state = SessionState::Lost;
    fail(&mut stores, "n1", 1);
    decide(&mut stores);
    assert_eq!(copies(&stores, "s00001"), [(1, ON, Some(CopyState::Error))]);
}
