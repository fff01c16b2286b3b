//! Work that nodes were given and do not get done in time.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeName, ReplicaId, SegmentId, catalog::shard_name};
use pointsman_query_coord::{SegmentReport, SessionState, Stores, Tasks};
use world::*;

const TIMEOUT: Duration = Duration::from_secs(120);

fn at(seconds: u64) -> MonoTime {
    MonoTime::from_start(Duration::from_secs(seconds))
}

/// A collection of segments of 10 rows, placed over these nodes; nobody holds anything yet.
fn placed(nodes: &[&str], segments: usize) -> Stores {
    let mut stores = world(&[("east", nodes)]);
    collection(&mut stores, 1, &vec![10; segments]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    stores
}

fn late(tasks: &mut Tasks, stores: &Stores, seconds: u64) -> Vec<(String, u64)> {
    let late = tasks.late_segments(stores, at(seconds), TIMEOUT);
    late.into_iter().map(|(node, segment)| (node.to_string(), segment.0)).collect()
}

#[test]
fn a_node_that_finishes_nothing_is_late_with_all_that_it_was_given() {
    let mut stores = placed(&["n1"], 2);
    let mut tasks = Tasks::default();
    assert_eq!(late(&mut tasks, &stores, 0), []);
    report(&mut stores, "n1", 1, SegmentReport::Fetching);
    assert_eq!(late(&mut tasks, &stores, 119), []);
    let both = [("n1".to_owned(), 1), ("n1".to_owned(), 2)];
    assert_eq!(late(&mut tasks, &stores, 120), both);
    // The next try has as much time.
    assert_eq!(late(&mut tasks, &stores, 239), []);
    assert_eq!(late(&mut tasks, &stores, 240), both);
}

#[test]
fn what_waits_for_others_on_the_same_node_is_not_late() {
    let mut stores = placed(&["n1"], 3);
    let mut tasks = Tasks::default();
    late(&mut tasks, &stores, 0);
    for (seconds, segment) in [(100, 1), (200, 2)] {
        assert_eq!(late(&mut tasks, &stores, seconds), []);
        report(&mut stores, "n1", segment, SegmentReport::Held);
        tasks.finished(&node("n1"));
        decide(&mut stores);
        assert_eq!(late(&mut tasks, &stores, seconds), []);
    }
    assert_eq!(late(&mut tasks, &stores, 319), []);
    assert_eq!(late(&mut tasks, &stores, 320), [("n1".to_owned(), 3)]);
}

#[test]
fn what_is_given_later_is_not_late_with_the_rest() {
    let mut stores = placed(&["n1"], 1);
    let mut tasks = Tasks::default();
    late(&mut tasks, &stores, 0);
    push(&mut stores, 2, 10);
    decide(&mut stores);
    assert_eq!(late(&mut tasks, &stores, 119), []);
    assert_eq!(late(&mut tasks, &stores, 120), [("n1".to_owned(), 1)]);
}

#[test]
fn nodes_that_take_no_work_and_those_that_have_all_are_never_late() {
    let mut stores = placed(&["n1"], 1);
    let mut tasks = Tasks::default();
    late(&mut tasks, &stores, 0);
    set(&mut stores, "n1", SessionState::Lost);
    assert_eq!(late(&mut tasks, &stores, 500), []);
    set(&mut stores, "n1", SessionState::Live);
    assert_eq!(late(&mut tasks, &stores, 501), [], "it had no task meanwhile");
    obey(&mut stores);
    decide(&mut stores);
    assert_eq!(late(&mut tasks, &stores, 1_000), []);
    // What failed has ended.
    let mut stores = placed(&["n1"], 1);
    let mut tasks = Tasks::default();
    late(&mut tasks, &stores, 0);
    report(&mut stores, "n1", 1, SegmentReport::Failed);
    assert_eq!(late(&mut tasks, &stores, 500), []);
}

#[test]
fn somebody_else_gets_what_is_late() {
    let mut stores = placed(&["n1", "n2"], 1);
    let first = place_of(&stores, 1, 1).to_owned();
    fail_with(&mut stores, &first, 1, ErrorCode::DeadlineExceeded, at(120));
    decide(&mut stores);
    assert_ne!(place_of(&stores, 1, 1), first);
}

fn lead_of(stores: &Stores) -> &NodeName {
    &stores.leads[&(ReplicaId(1), shard_name(0))]
}

#[test]
fn a_lead_that_is_not_taken_over_in_time_goes_to_somebody_else() {
    let mut stores = placed(&["n1", "n2"], 1);
    let mut tasks = Tasks::default();
    let first = lead_of(&stores).clone();
    for seconds in [0, 119] {
        assert_eq!(tasks.late_leads(&stores, at(seconds), TIMEOUT), []);
    }
    let late = tasks.late_leads(&stores, at(120), TIMEOUT);
    assert_eq!(late, [(ReplicaId(1), shard_name(0), first.clone())]);
    stores.pass_over_leads(late);
    decide(&mut stores);
    let second = lead_of(&stores).clone();
    assert_ne!(second, first);
    // It has as much time, and so has the first one after it.
    assert_eq!(tasks.late_leads(&stores, at(121), TIMEOUT), []);
    let late = tasks.late_leads(&stores, at(241), TIMEOUT);
    assert_eq!(late, [(ReplicaId(1), shard_name(0), second)]);
    stores.pass_over_leads(late);
    decide(&mut stores);
    assert_eq!(*lead_of(&stores), first);
    lead(&mut stores);
    stores.pass_over_leads(vec![]);
    assert!(stores.late_leads.is_empty(), "it leads now");
    assert_eq!(tasks.late_leads(&stores, at(1_000), TIMEOUT), []);
    decide(&mut stores);
    assert_eq!(*lead_of(&stores), first);
}

#[test]
fn a_late_node_that_has_no_successor_leads_on() {
    let mut stores = placed(&["n1"], 1);
    stores.pass_over_leads(vec![(ReplicaId(1), shard_name(0), node("n1"))]);
    decide(&mut stores);
    assert_eq!(*lead_of(&stores), node("n1"));
}

#[test]
fn segments_of_other_replicas_are_told_apart() {
    let mut stores = world(&[("east", &["n1"]), ("west", &["n2"])]);
    collection(&mut stores, 1, &[10]);
    load(&mut stores, &[("east", 1), ("west", 1)]);
    decide(&mut stores);
    report(&mut stores, "n1", 1, SegmentReport::Held);
    decide(&mut stores);
    let mut tasks = Tasks::default();
    late(&mut tasks, &stores, 0);
    assert_eq!(late(&mut tasks, &stores, 120), [("n2".to_owned(), 1)]);
    assert!(stores.holds("n1", SegmentId(1)));
}
