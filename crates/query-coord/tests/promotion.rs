//! When a next target is served, and which view leaders serve until then.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use pointsman_ids::{ErrorCode, ReplicaId, SegmentId, TargetVersion, catalog::shard_name};
use pointsman_query_coord::{
    LeaderReport, NextStep, SegmentReport, SessionState, Stores, copies, data_ready, finished_replicas,
    is_serviceable, lead_wishes, next_step, serves_alone,
};
use world::*;

fn holds(stores: &mut Stores, node: &str, segments: &[u64]) {
    for id in segments {
        report(stores, node, *id, SegmentReport::Held);
    }
}

/// A collection of one shard and two segments in two groups, of which east holds everything.
fn east_is_ahead() -> Stores {
    let mut stores = world(&[("east", &["n1"]), ("west", &["n2"])]);
    collection(&mut stores, 1, &[1, 1]);
    load(&mut stores, &[("east", 1), ("west", 1)]);
    holds(&mut stores, "n1", &[1, 2]);
    settle(&mut stores);
    stores
}

/// Serves target 1 everywhere; target 2 has a third segment and not the first.
fn next_is_there() -> Stores {
    let mut stores = east_is_ahead();
    holds(&mut stores, "n2", &[1, 2]);
    settle(&mut stores);
    promote(&mut stores);
    settle(&mut stores);
    stores.collections.get_mut(&COLLECTION).unwrap().insert(segment(3, 1, 1));
    drop_segment(&mut stores, 1);
    let next = whole_target(&stores, 2);
    stores.targets.set_next(next);
    settle(&mut stores);
    stores
}

fn version(stores: &Stores, node: &str) -> u64 {
    leader(stores, node).unwrap().target_version.0
}

fn change(stores: &mut Stores, node: &str, change: impl FnOnce(&mut LeaderReport)) {
    let mut report = leader(stores, node).unwrap().clone();
    change(&mut report);
    stores.distribution.insert(report);
}

#[test]
fn one_finished_group_promotes_while_the_other_has_nothing() {
    let stores = east_is_ahead();
    assert_eq!(step(&stores), NextStep::Promote);
    let ready = |name| leader(&stores, name).unwrap().serviceable;
    assert!(ready("n1") && !ready("n2"), "both were given the view, since nothing is served yet");
    assert_eq!((version(&stores, "n1"), version(&stores, "n2")), (1, 1));
}

#[test]
fn different_replicas_may_serve_different_shards_but_not_parts_of_one() {
    let two_shards = |shards| {
        let mut stores = world(&[("east", &["n1"]), ("west", &["n2"])]);
        collection(&mut stores, shards, &[1, 1]);
        load(&mut stores, &[("east", 1), ("west", 1)]);
        holds(&mut stores, "n1", &[1]);
        holds(&mut stores, "n2", &[2]);
        settle(&mut stores);
        step(&stores)
    };
    assert_eq!(two_shards(2), NextStep::Promote);
    assert_eq!(two_shards(1), NextStep::Wait);
}

#[test]
fn every_leader_that_could_serve_it_has_its_view_before_a_target_is_promoted() {
    let mut stores = next_is_there();
    assert_eq!(step(&stores), NextStep::Wait, "nobody has the third segment");
    holds(&mut stores, "n1", &[3]);
    holds(&mut stores, "n2", &[3]);
    decide(&mut stores);
    lead(&mut stores);
    assert_eq!(step(&stores), NextStep::Sync, "both could serve it, and neither has its view");
    assert_eq!((version(&stores, "n1"), version(&stores, "n2")), (1, 1));
    lead(&mut stores);
    assert_eq!((version(&stores, "n1"), version(&stores, "n2")), (2, 2));
    assert_eq!(step(&stores), NextStep::Promote);
    // One of them did not take it: not in this round.
    change(&mut stores, "n2", |report| report.target_version = TargetVersion(1));
    assert_eq!(step(&stores), NextStep::Sync);
}

#[test]
fn a_segment_that_no_node_reports_holds_a_promotion_back() {
    let mut stores = east_is_ahead();
    unreport(&mut stores, "n1", 2);
    assert_eq!(next_step(&stores, COLLECTION, true), NextStep::Wait);
    assert_eq!(next_step(&stores, COLLECTION, false), NextStep::Promote, "if that is not asked for");
}

#[test]
fn a_leader_counts_while_its_node_and_its_hosts_are_known() {
    let mut stores = next_is_there();
    holds(&mut stores, "n1", &[3]);
    decide(&mut stores);
    lead(&mut stores);
    assert_eq!(step(&stores), NextStep::Sync);
    set(&mut stores, "n1", SessionState::Lost);
    assert_eq!(step(&stores), NextStep::Wait);
}

#[test]
fn what_is_not_ready_says_why() {
    let mut stores = next_is_there();
    let check = |stores: &Stores, version: u64| {
        let (current, next) = (stores.targets.current(COLLECTION), stores.targets.next(COLLECTION));
        let target = current.into_iter().chain(next).find(|target| target.version.0 == version).unwrap();
        data_ready(stores, leader(stores, "n1").unwrap(), target).map_err(|error| error.code())
    };
    assert_eq!(check(&stores, 1), Ok(()));
    assert_eq!(check(&stores, 2), Err(ErrorCode::SegmentLack));
    change(&mut stores, "n1", |report| report.shard = shard_name(7));
    let stray = stores.distribution.get(&node("n1"), COLLECTION, &shard_name(7)).unwrap();
    let current = stores.targets.current(COLLECTION).unwrap();
    assert_eq!(data_ready(&stores, stray, current).unwrap_err().code(), ErrorCode::ChannelNotAvailable);
    set(&mut stores, "n1", SessionState::Lost);
    assert_eq!(check(&stores, 1), Err(ErrorCode::NodeOffline));
}

#[test]
fn a_host_that_is_not_known_makes_its_leader_unready() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[1, 1]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    obey(&mut stores);
    settle(&mut stores);
    assert_eq!(step(&stores), NextStep::Promote);
    promote(&mut stores);
    let replica = stores.replicas.get(ReplicaId(1)).unwrap().clone();
    assert!(is_serviceable(&stores, &replica) && serves_alone(&stores, &replica));
    let leads = stores.leads[&(ReplicaId(1), shard_name(0))].clone();
    let other = if leads == node("n1") { "n2" } else { "n1" };
    set(&mut stores, other, SessionState::Lost);
    let report = leader(&stores, leads.as_str()).unwrap();
    let error = data_ready(&stores, report, stores.targets.current(COLLECTION).unwrap()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NodeOffline);
    assert!(error.message().contains(other), "{error}");
    assert!(!is_serviceable(&stores, &replica));
    assert!(serves_alone(&stores, &replica), "its leader says so until it hears of it");
}

#[test]
fn a_group_that_lags_serves_its_former_view_whole_and_catches_up_without_a_new_target() {
    let mut stores = next_is_there();
    holds(&mut stores, "n1", &[3]);
    settle(&mut stores);
    assert_eq!(step(&stores), NextStep::Promote);
    promote(&mut stores);
    settle(&mut stores);
    assert_eq!((version(&stores, "n1"), version(&stores, "n2")), (2, 1));
    let west = leader(&stores, "n2").unwrap();
    assert!(west.serviceable);
    assert_eq!(west.view.segments(), [SegmentId(1), SegmentId(2)], "the dropped one too");
    let replica = stores.replicas.get(ReplicaId(2)).unwrap().clone();
    assert!(
        copies(&stores, &replica, SegmentId(1)).iter().any(|node| node.as_str() == "n2"),
        "its node keeps it"
    );
    let east = stores.replicas.get(ReplicaId(1)).unwrap();
    assert!(copies(&stores, east, SegmentId(1)).is_empty(), "where nobody needs it, it goes");

    holds(&mut stores, "n2", &[3]);
    settle(&mut stores);
    assert_eq!(version(&stores, "n2"), 2);
    assert!(copies(&stores, &replica, SegmentId(1)).is_empty());
}

#[test]
fn a_view_whose_target_did_not_survive_gives_way_to_what_is_served() {
    let mut stores = next_is_there();
    holds(&mut stores, "n1", &[3]);
    settle(&mut stores);
    assert_eq!(version(&stores, "n1"), 2);
    // The coordinator died before the promotion was written, and meanwhile the catalog changed back.
    stores.targets.remove_next(COLLECTION);
    settle(&mut stores);
    assert_eq!(version(&stores, "n1"), 1);
    assert!(leader(&stores, "n1").unwrap().serviceable);
}

#[test]
fn a_leader_that_began_anew_is_synced_with_what_is_served() {
    let mut stores = next_is_there();
    stores.distribution.remove_node(&node("n1"));
    decide(&mut stores);
    lead(&mut stores);
    let unsynced = leader(&stores, "n1").unwrap();
    assert_eq!((unsynced.target_version.0, unsynced.serviceable), (0, false));
    lead(&mut stores);
    let synced = leader(&stores, "n1").unwrap();
    assert_eq!((synced.target_version.0, synced.serviceable), (1, true));
}

#[test]
fn a_lead_moves_before_the_former_leader_lets_go() {
    let mut stores = world(&[("east", &["n1", "n2"])]);
    collection(&mut stores, 1, &[1]);
    load(&mut stores, &[("east", 1)]);
    holds(&mut stores, "n1", &[1]);
    holds(&mut stores, "n2", &[1]);
    settle(&mut stores);
    promote(&mut stores);
    let leaders = |stores: &Stores| -> Vec<String> {
        lead_wishes(stores, &hosted(stores), |_| step(stores))
            .into_keys()
            .map(|name| name.to_string())
            .collect()
    };
    let first = leaders(&stores).remove(0);
    set(&mut stores, &first, SessionState::Stopping);
    decide(&mut stores);
    assert_eq!(leaders(&stores), ["n1", "n2"]);
    settle(&mut stores);
    assert_ne!(leaders(&stores), [first]);
    assert_eq!(leaders(&stores).len(), 1);
}

#[test]
fn a_replica_is_marked_when_it_is_serviceable_for_the_first_time() {
    let mut stores = next_is_there();
    let finished = finished_replicas(&stores, COLLECTION);
    let ids: Vec<u64> = finished.iter().map(|replica| replica.id.0).collect();
    assert_eq!(ids, [1, 2]);
    finished.into_iter().for_each(|replica| stores.replicas.insert(replica));
    assert!(finished_replicas(&stores, COLLECTION).is_empty());
}

#[test]
fn nothing_is_promoted_without_a_shard() {
    let mut stores = east_is_ahead();
    let segments = stores.targets.next(COLLECTION).unwrap().segments().collect::<Vec<_>>();
    assert_eq!(segments.len(), 2);
    stores.targets.set_next(pointsman_query_coord::Target::new(COLLECTION, TargetVersion(9), [], [], []));
    assert_eq!(step(&stores), NextStep::Wait);
}
