//! What brokers are told.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::sync::Arc;

use pointsman_ids::{
    GroupNumber, NodeId,
    feed::{CollectionEntry, CopyState, LeaderEntry, LoadState},
};
use pointsman_query_coord::{
    SegmentReport, SessionState, Stores, collection_change, collection_entry, node_entries,
};
use world::*;

fn entry(stores: &Stores) -> CollectionEntry {
    // Rows of segments follow targets when changes are looked for.
    let mut now = stores.clone();
    now.changes();
    collection_entry(&now, COLLECTION).unwrap().unwrap()
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
    assert_eq!(entry(&stores).leaders, [[]], "nobody says that it leads");
    settle(&mut stores);
    let listed = entry(&stores).leaders[0][0];
    assert_eq!((listed.node, listed.serviceable, listed.group), (NodeId(1), true, GroupNumber(1)));
}

#[test]
fn leaders_are_listed_in_the_loose_form_as_nodes_report_them() {
    let mut stores = world(&[("east", &["n1"]), ("west", &["n2"])]);
    collection(&mut stores, 2, &[1, 1]);
    load(&mut stores, &[("east", 1), ("west", 1)]);
    decide(&mut stores);
    report(&mut stores, "n1", 1, SegmentReport::Held);
    settle(&mut stores);
    let shown = |stores: &Stores| -> Vec<Vec<(u64, bool, i32)>> {
        let shard = |leaders: &Vec<LeaderEntry>| {
            leaders.iter().map(|leader| (leader.node.0, leader.serviceable, leader.group.0)).collect()
        };
        entry(stores).leaders.iter().map(shard).collect()
    };
    assert_eq!(shown(&stores), [[], []], "there is no current target");
    promote(&mut stores);
    // Segment 1 is in shard 1, segment 2 in shard 0.
    assert_eq!(shown(&stores), [[(1, false, 1), (2, false, 2)], [(1, true, 1), (2, false, 2)]]);
    set(&mut stores, "n2", SessionState::Lost);
    assert_eq!(shown(&stores), [[(1, false, 1)], [(1, true, 1)]]);
    let mut replica = stores.replicas_of(COLLECTION).next().unwrap().clone();
    replica.query_visible = false;
    stores.replicas.insert(replica);
    assert_eq!(shown(&stores), [[], []]);
}

#[test]
fn segments_that_were_pushed_later_appear_by_promotion_only() {
    let mut stores = served();
    stores.collections.get_mut(&COLLECTION).unwrap().insert(segment(2, 1, 5));
    stores.targets.set_next(whole_target(&stores, 2));
    decide(&mut stores);
    assert_eq!(entry(&stores).segments.len(), 1);
    obey(&mut stores);
    promote(&mut stores);
    assert_eq!(entry(&stores).segments.len(), 2);
}

#[test]
fn a_collection_that_serves_before_promotion_shows_its_next_segments_as_such() {
    let mut stores = served();
    let options =
        &mut Arc::make_mut(&mut stores.collections.get_mut(&COLLECTION).unwrap().collection).options;
    options.serve_before_promotion = true;
    stores.collections.get_mut(&COLLECTION).unwrap().insert(segment(2, 1, 5));
    stores.targets.set_next(whole_target(&stores, 2));
    decide(&mut stores);
    let shown = |stores: &Stores| -> Vec<(String, bool)> {
        let entry = entry(stores);
        entry.segments.iter().map(|segment| (segment.name.to_string(), segment.promoted)).collect()
    };
    assert_eq!(shown(&stores), [("s00001".to_owned(), true), ("s00002".to_owned(), false)]);
    assert_eq!(copies(&stores, "s00002"), [(2, ON, None)]);
    obey(&mut stores);
    assert_eq!(copies(&stores, "s00002"), [(2, ON, ON)]);
    let before = entry(&stores);
    stores.changes();
    promote(&mut stores);
    assert_eq!(shown(&stores), [("s00001".to_owned(), true), ("s00002".to_owned(), true)]);
    // What changed says the same as everything does.
    let changes = stores.changes();
    let change = collection_change(&stores, &before, changes.of(COLLECTION).unwrap()).unwrap();
    assert_eq!(before.apply(&change).unwrap(), entry(&stores));
}

#[test]
fn next_segments_are_shown_from_the_first_promotion_on() {
    let mut stores = world(&[("east", &["n1"])]);
    collection(&mut stores, 1, &[1]);
    let options =
        &mut Arc::make_mut(&mut stores.collections.get_mut(&COLLECTION).unwrap().collection).options;
    options.serve_before_promotion = true;
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    let before = entry(&stores);
    assert!(before.segments.is_empty(), "there is no current target");
    // The next target was pulled again before the first one was promoted.
    let first = whole_target(&stores, 1);
    push(&mut stores, 2, 5);
    stores.changes();
    stores.targets.set_current(first);
    let changes = stores.changes();
    let change = collection_change(&stores, &before, changes.of(COLLECTION).unwrap()).unwrap();
    let after = before.apply(&change).unwrap();
    assert_eq!(after.segments.iter().map(|segment| segment.promoted).collect::<Vec<_>>(), [true, false]);
    assert_eq!(after, entry(&stores));
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
    unreport_all(&mut stores, "n1");
    decide(&mut stores);
    assert_eq!(copies(&stores, "s00001"), [(9, ON, None)]);
}

#[test]
fn a_failed_copy_says_so() {
    let mut stores = served();
    stores.observed.get_mut("n2").unwrap().state = SessionState::Lost;
    fail(&mut stores, "n1", 1);
    decide(&mut stores);
    assert_eq!(copies(&stores, "s00001"), [(1, ON, Some(CopyState::Error))]);
}
