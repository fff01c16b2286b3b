//! Where segments go whose loads fail, and nodes that have no room.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, ErrorCode, ReplicaId, SegmentId};
use pointsman_query_coord::{SegmentReport, SessionState, Stores, copies};
use world::*;

const FAILED: ErrorCode = ErrorCode::SegmentLoadFailed;
const NO_ROOM: ErrorCode = ErrorCode::SegmentRequestResourceFailed;

fn at(seconds: u64) -> MonoTime {
    MonoTime::from_start(Duration::from_secs(seconds))
}

fn pair(rows: &[u64]) -> Stores {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, rows);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    stores
}

/// The place of segment 1; `-`: it has none.
fn place_of_first(stores: &Stores) -> &str {
    place_of(stores, 1, 1)
}

/// Where segment 1 is tried, one node after the other, each of which fails.
fn tried(stores: &mut Stores, code: ErrorCode, times: usize) -> Vec<String> {
    (0..times)
        .map(|_| {
            let node = place_of_first(stores).to_owned();
            if node != "-" {
                fail_with(stores, &node, 1, code, at(0));
            }
            decide(stores);
            node
        })
        .collect()
}

#[test]
fn others_try_first_and_each_three_times_for_one_target() {
    let mut stores = pair(&[10]);
    assert_eq!(tried(&mut stores, FAILED, 8), ["n1", "n2", "n2", "n1", "n1", "n2", "-", "-"]);
    assert_eq!(stores.tries(stores.next_first(COLLECTION).unwrap().version, SegmentId(1), &node("n1")), 3);
    // Another target is another matter.
    stores.targets.set_next(whole_target(&stores, 2));
    decide(&mut stores);
    assert_ne!(place_of_first(&stores), "-");
}

#[test]
fn what_failed_long_ago_is_tried_again() {
    let mut stores = pair(&[10]);
    tried(&mut stores, FAILED, 6);
    assert!(!stores.expire_failures(at(299)));
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "-");
    assert!(stores.expire_failures(at(300)));
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n1");
}

#[test]
fn what_is_loaded_anew_is_tried_again() {
    let mut stores = pair(&[10]);
    tried(&mut stores, FAILED, 6);
    stores.forget_failures_in(CollectionId(COLLECTION.0 + 1));
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "-", "another collection is another matter");
    stores.forget_failures_in(COLLECTION);
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n1");
}

#[test]
fn a_node_that_joins_later_tries_what_failed() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    let joins = stores.groups.get_mut(&group("east")).unwrap().members.remove(&node("n2"));
    collection(&mut stores, 1, &[10]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    assert_eq!(tried(&mut stores, FAILED, 2), ["n1", "n1"]);
    stores.groups.get_mut(&group("east")).unwrap().members.extend(joins.then(|| node("n2")));
    divide(&mut stores);
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n2");
}

#[test]
fn a_node_that_starts_anew_has_not_failed() {
    let mut stores = pair(&[10]);
    tried(&mut stores, FAILED, 6);
    stores.forget_failures_of(&node("n2"));
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n2");
    // And one that holds it never did.
    stores.forget_failure(&node("n1"), SegmentId(1));
    assert!(!stores.failures.contains_key(&SegmentId(1)));
}

#[test]
fn the_number_of_tries_is_a_setting() {
    let mut stores = pair(&[10]);
    stores.rules.segment_load_tries = 1;
    assert_eq!(tried(&mut stores, FAILED, 3), ["n1", "n2", "-"]);
}

#[test]
fn one_segment_that_fails_does_not_hold_up_the_others() {
    let mut stores = pair(&[30, 20, 10, 10]);
    let before = places(&stores, 1);
    fail(&mut stores, "n1", 1);
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n2");
    for segment in 2..=4 {
        assert_eq!(place_of(&stores, 1, segment), before[&SegmentId(segment)].as_str());
    }
}

#[test]
fn a_node_without_room_gets_nothing_new_for_a_while_and_keeps_what_it_has() {
    let mut stores = pair(&[10, 10]);
    assert_eq!((place_of(&stores, 1, 1), place_of(&stores, 1, 2)), ("n1", "n2"));
    fail_with(&mut stores, "n2", 2, NO_ROOM, at(0));
    assert_eq!(stores.penalties.of("n2").unwrap().until, at(30));
    push(&mut stores, 3, 500);
    decide(&mut stores);
    let places = [1, 2, 3].map(|segment| place_of(&stores, 1, segment).to_owned());
    assert_eq!(places, ["n1", "n1", "n1"], "whatever the load");
    stores.expire_failures(at(30));
    push(&mut stores, 4, 1);
    decide(&mut stores);
    assert_eq!(place_of(&stores, 1, 4), "n2");
}

#[test]
fn where_nobody_has_room_a_segment_waits() {
    let mut stores = pair(&[10]);
    assert_eq!(tried(&mut stores, NO_ROOM, 3), ["n1", "n2", "-"]);
    stores.expire_failures(at(30));
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n1");
}

#[test]
fn a_move_whose_node_fails_is_taken_back() {
    let mut stores = pair(&[10]);
    obey(&mut stores);
    put(&mut stores, 1, 1, "n2");
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n2", "what was decided stays");
    let listed =
        |stores: &Stores| copies(stores, stores.replicas.get(ReplicaId(1)).unwrap(), SegmentId(1)).len();
    assert_eq!(listed(&stores), 2, "made before broken");
    fail(&mut stores, "n2", 1);
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n1");
    assert_eq!(listed(&stores), 1);
}

#[test]
fn a_move_to_a_node_that_is_to_be_emptied_is_planned_anew_at_once() {
    let mut stores = world(&[("east", &["n1", "n2", "n3"])]);
    collection(&mut stores, 1, &[10]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    obey(&mut stores);
    set(&mut stores, "n1", SessionState::Stopping);
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n2");
    report(&mut stores, "n2", 1, SegmentReport::Fetching);
    set(&mut stores, "n2", SessionState::Stopping);
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n3");
}

#[test]
fn what_is_read_only_keeps_what_it_has_while_draining_is_off() {
    let mut stores = pair(&[10, 10]);
    obey(&mut stores);
    stores.rules.balance.drain_stopping = false;
    set(&mut stores, "n1", SessionState::Stopping);
    decide(&mut stores);
    assert_eq!((place_of(&stores, 1, 1), place_of(&stores, 1, 2)), ("n1", "n2"));
    push(&mut stores, 3, 1);
    decide(&mut stores);
    assert_eq!(place_of(&stores, 1, 3), "n2", "nothing new for it");
    stores.rules.balance.drain_stopping = true;
    decide(&mut stores);
    assert_eq!(place_of_first(&stores), "n2");
}
