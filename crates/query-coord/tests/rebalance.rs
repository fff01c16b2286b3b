//! Rounds of evening out load over what nodes report.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::collections::BTreeMap;

use pointsman_ids::{NodeId, NodeName, ReplicaId, SegmentId};
use pointsman_query_coord::{
    LeaderReport, LoadRecord, LoadStatus, Rebalanced, SegmentReport, SessionState, Stores, copies, rebalance,
};
use world::*;

/// `east` with these nodes and a loaded collection of `count` segments of 100 rows, all of them on n1.
fn uneven(nodes: &[&str], count: usize) -> Stores {
    let mut stores = world(&[("east", nodes)]);
    stores.rules.balance.leader_overhead = 0.0;
    collection(&mut stores, 1, &vec![100; count]);
    load(&mut stores, &[("east", 1)]);
    for other in &nodes[1..] {
        set(&mut stores, other, SessionState::Gone);
    }
    decide(&mut stores);
    obey(&mut stores);
    settle(&mut stores);
    promote(&mut stores);
    settle(&mut stores);
    finish(&mut stores);
    for other in &nodes[1..] {
        set(&mut stores, other, SessionState::Live);
    }
    decide(&mut stores);
    assert_eq!(counts(&stores, 1)[&node("n1")], count, "a node that comes back gets nothing by itself");
    stores
}

/// The load has ended well.
fn finish(stores: &mut Stores) {
    let record = stores.loads.get(COLLECTION).unwrap();
    stores.loads.insert(LoadRecord { status: LoadStatus::Loaded, percent: 100, ..record.clone() });
}

/// Nodes lead what they should, and are synced.
fn follow(stores: &mut Stores) {
    (0..3).for_each(|_| lead(stores));
}

/// Plans a round, and does what follows from it.
fn round(stores: &mut Stores) -> usize {
    let planned = rebalance(stores);
    let moves = planned.segments.len();
    planned.apply(stores);
    decide(stores);
    obey(stores);
    tidy(stores);
    moves
}

#[test]
fn a_node_that_comes_back_gets_its_part_five_segments_in_a_round() {
    let mut stores = uneven(&["n1", "n2"], 20);
    assert_eq!([round(&mut stores), round(&mut stores), round(&mut stores)], [5, 5, 0]);
    assert_eq!(counts(&stores, 1), BTreeMap::from([(node("n1"), 10), (node("n2"), 10)]));
}

#[test]
fn a_move_adds_first_and_removes_later() {
    let mut stores = uneven(&["n1", "n2"], 4);
    rebalance(&stores).apply(&mut stores);
    decide(&mut stores);
    let moved: Vec<SegmentId> =
        places(&stores, 1).into_iter().filter(|(_, place)| place.as_str() == "n2").map(|(s, _)| s).collect();
    assert_eq!(moved.len(), 2);
    let listed = |stores: &Stores, segment: SegmentId| -> Vec<NodeName> {
        copies(stores, stores.replicas.get(ReplicaId(1)).unwrap(), segment).into_iter().cloned().collect()
    };
    assert_eq!(listed(&stores, moved[0]), [node("n1"), node("n2")]);
    report(&mut stores, "n2", moved[0].0, SegmentReport::Fetching);
    assert_eq!(listed(&stores, moved[0]), [node("n1"), node("n2")]);
    report(&mut stores, "n2", moved[0].0, SegmentReport::Held);
    assert_eq!(listed(&stores, moved[0]), [node("n2")]);
}

#[test]
fn what_moves_counts_where_it_goes_and_moves_once() {
    let mut stores = uneven(&["n1", "n2"], 20);
    let first = rebalance(&stores);
    first.clone().apply(&mut stores);
    decide(&mut stores);
    // Nothing was reported yet: the second round plans with what is coming.
    let second = rebalance(&stores);
    let named =
        |round: &Rebalanced| round.segments.iter().map(|(segment, _, _)| *segment).collect::<Vec<_>>();
    assert!(named(&first).iter().all(|segment| !named(&second).contains(segment)));
    second.apply(&mut stores);
    decide(&mut stores);
    assert_eq!(rebalance(&stores), Rebalanced::default());
    assert_eq!(counts(&stores, 1)[&node("n2")], 10);
}

#[test]
fn only_a_collection_that_stands_is_evened_out() {
    let rest = Rebalanced::default();
    let mut stores = uneven(&["n1", "n2"], 20);
    stores.rules.balance.auto = false;
    assert_eq!(rebalance(&stores), rest);
    stores.rules.balance.auto = true;
    let loaded = stores.loads.get(COLLECTION).unwrap().clone();
    stores.loads.insert(LoadRecord { status: LoadStatus::Loading, percent: 99, ..loaded.clone() });
    assert_eq!(rebalance(&stores), rest);
    stores.loads.insert(loaded);
    unreport(&mut stores, "n1", 7);
    decide(&mut stores);
    assert_eq!(rebalance(&stores), rest, "one segment is held by nobody");
    report(&mut stores, "n1", 7, SegmentReport::Held);
    assert_eq!(rebalance(&stores).segments.len(), 5);
    stores.distribution.remove_node(&node("n1"));
    assert_eq!(rebalance(&stores), rest, "nobody leads");
}

#[test]
fn a_segment_that_is_there_twice_stays_and_nobody_gets_what_it_failed_to_load() {
    let mut stores = uneven(&["n1", "n2"], 2);
    report(&mut stores, "n2", 1, SegmentReport::Held);
    let moved: Vec<SegmentId> = rebalance(&stores).segments.iter().map(|(segment, _, _)| *segment).collect();
    assert_eq!(moved, [SegmentId(2)]);
    fail(&mut stores, "n2", 2);
    assert_eq!(rebalance(&stores), Rebalanced::default());
}

#[test]
fn leads_are_evened_out_before_segments_one_in_a_round() {
    let mut stores = uneven(&["n1", "n2"], 8);
    collection(&mut stores, 4, &[100; 8]);
    stores.targets.set_current(whole_target(&stores, 3));
    for shard in stores.collections[&COLLECTION].shards().collect::<Vec<_>>() {
        stores.leads.insert((ReplicaId(1), shard), node("n1"));
    }
    follow(&mut stores);
    let sizes = |round: &Rebalanced| (round.leads.len(), round.segments.len());
    let first = rebalance(&stores);
    assert_eq!(sizes(&first), (1, 0));
    first.apply(&mut stores);
    assert_eq!(sizes(&rebalance(&stores)), (1, 0), "leads may move beside each other");
    let (_, shard, _) = &rebalance(&stores).leads[0];
    let old = stores.distribution.get(&node("n1"), COLLECTION, shard).unwrap();
    let new =
        LeaderReport { node: node("n2"), node_id: NodeId(2), serviceable: false, ..LeaderReport::clone(old) };
    let mut before = stores.clone();
    before.distribution.insert(new);
    assert_eq!(sizes(&rebalance(&before)), (0, 0), "not while one of them cannot answer yet");
    follow(&mut stores);
    let second = rebalance(&stores);
    assert_eq!(sizes(&second), (1, 0));
    second.apply(&mut stores);
    assert_eq!(sizes(&rebalance(&stores)), (0, 0), "segments wait until the lead has moved");
    follow(&mut stores);
    assert_eq!(sizes(&rebalance(&stores)), (0, 4));
    stores.rules.balance.leaders = false;
    assert_eq!(rebalance(&stores).leads, []);
}
