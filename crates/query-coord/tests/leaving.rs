//! Leaving without gaps: last copies, leases to stop, departures.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::{collections::BTreeSet, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{
    Incarnation, NodeName, SegmentId,
    feed::{CollectionEntry, CopyEntry, NodeEntry},
};
use pointsman_query_coord::{
    Departure, LastCopies, LastCopy, LossGuard, Move, SegmentReport, Served, SessionState, StopLease, Stores,
    collection_entry, departures, last_copies, node_entries, plan_leads,
};
use proptest::prelude::*;
use world::*;

const TTL: Duration = Duration::from_secs(300);

fn at(seconds: u64) -> MonoTime {
    MonoTime::from_start(Duration::from_secs(seconds))
}

/// Two segments in two shards, served by every node of `groups` that has one per replica.
fn serving(groups: &[(&str, &[&str])], replicas: &[(&str, usize)]) -> Stores {
    let mut stores = world(groups);
    collection(&mut stores, 2, &[5, 5]);
    load(&mut stores, replicas);
    decide(&mut stores);
    obey(&mut stores);
    promote(&mut stores);
    settle(&mut stores);
    stores
}

/// One replica on `n1` and one on `n2`.
fn pair() -> Stores {
    serving(&[("east", &["n1"]), ("west", &["n2"])], &[("east", 1), ("west", 1)])
}

fn last(stores: &Stores, name: &str) -> LastCopies {
    last_copies(stores, &node(name), at(10))
}

/// Grants a lease at second 10 if that is lawful.
fn ask(stores: &mut Stores, name: &str) -> bool {
    grant(stores, name, at(10))
}

fn grant(stores: &mut Stores, name: &str, now: MonoTime) -> bool {
    let may = last_copies(stores, &node(name), now).may_stop(false);
    if may {
        let incarnation = stores.nodes[name].incarnation;
        stores.leaving.leases.insert(node(name), StopLease { incarnation, until: now + TTL });
    }
    may
}

/// A new process of the node says hello.
fn hello(stores: &mut Stores, name: &str) {
    let record = stores.nodes.get_mut(name).unwrap();
    record.incarnation = Incarnation(record.incarnation.0 + 1);
    let seen = stores.observed.get_mut(name).unwrap();
    (seen.incarnation, seen.state, seen.reported) = (record.incarnation, SessionState::Live, false);
    unreport_all(stores, name);
    stores.distribution.remove_node(&node(name));
}

fn drain(stores: &mut Stores, name: &str, since: u64) {
    stores.leaving.drains.insert(node(name), since);
    decide(stores);
}

/// Decides who is needed, as a coordinator does before it tells brokers.
fn leave(stores: &mut Stores, now: MonoTime) -> std::collections::BTreeMap<NodeName, Departure> {
    let departures = departures(stores, now);
    let needed = departures.iter().filter(|(_, departure)| departure.needed);
    stores.leaving.needed = needed.map(|(node, _)| node.clone()).collect();
    departures
}

fn enabled(stores: &Stores, name: &str) -> bool {
    node_entries(stores).iter().any(|entry| entry.name.as_str() == name && entry.enabled)
}

#[test]
fn what_another_group_serves_is_last_in_its_group_alone() {
    let stores = pair();
    let last = last(&stores, "n1");
    assert!(last.in_cluster.is_empty(), "{last:?}");
    assert_eq!(last.in_group.len(), 4, "two leads and two segments: {last:?}");
    assert!(last.in_group.iter().all(|copy| copy.group.as_str() == "east"));
    assert!(last.may_stop(false) && !last.may_stop(true));
}

#[test]
fn without_another_replica_everything_is_last_and_what_others_hold_is_not_asked_for() {
    let stores = serving(&[("east", &["n1", "n2"])], &[("east", 1)]);
    for name in ["n1", "n2"] {
        let last = last(&stores, name);
        assert_eq!(last.in_cluster, last.in_group);
        assert_eq!(last.in_cluster.len(), 2, "one lead and one segment each: {last:?}");
    }
    assert_eq!(last(&stores, "n9"), LastCopies::default());
}

#[test]
fn a_node_that_queries_cannot_count_on_does_not_count() {
    type Change = fn(&mut Stores);
    let changes: [(&str, Change); 8] = [
        ("lost", |stores| set(stores, "n2", SessionState::Lost)),
        ("stopping", |stores| set(stores, "n2", SessionState::Stopping)),
        ("switched off", |stores| stores.nodes.get_mut("n2").unwrap().switched_on = false),
        ("drained", |stores| drain(stores, "n2", 1)),
        ("no member", |stores| stores.groups.get_mut("west").unwrap().members.clear()),
        ("not heard", |stores| {
            stores.observed.remove("n2");
            stores.awaiting = true;
        }),
        ("fetching", |stores| report(stores, "n2", 1, SegmentReport::Fetching)),
        ("promised to stop", |stores| assert!(ask(stores, "n2"))),
    ];
    for (what, change) in changes {
        let mut stores = pair();
        change(&mut stores);
        assert!(!last(&stores, "n1").may_stop(false), "{what}");
    }
}

#[test]
fn a_lead_counts_elsewhere_only_with_all_segments_of_its_shard() {
    let mut stores = pair();
    // The other replica has lost a segment; the lead of its shard is as good as none.
    report(&mut stores, "n2", 1, SegmentReport::Failed);
    let lacking = last(&stores, "n1").in_cluster;
    let shard = stores.segment(COLLECTION, SegmentId(1)).unwrap().segment.shard.clone();
    let what: Vec<&Served> = lacking.iter().map(|copy| &copy.what).collect();
    assert_eq!(what, [&Served::Lead(shard), &Served::Segment(SegmentId(1))]);
}

#[test]
fn a_replica_that_queries_do_not_see_neither_gives_nor_needs() {
    let mut stores = pair();
    let invisible = |stores: &mut Stores, group: &str| {
        let replica = stores.replicas_of(COLLECTION).find(|replica| replica.group.as_str() == group).unwrap();
        let replica = pointsman_query_coord::Replica { query_visible: false, ..replica.clone() };
        stores.replicas.insert(replica);
    };
    invisible(&mut stores, "west");
    assert!(!last(&stores, "n1").may_stop(false));
    assert_eq!(last(&stores, "n2"), LastCopies::default());
}

#[test]
fn of_two_nodes_that_hold_the_only_two_copies_one_gets_a_lease() {
    let mut stores = pair();
    assert!(ask(&mut stores, "n1"));
    assert!(!ask(&mut stores, "n2"));
    assert!(ask(&mut stores, "n1"), "who has one gets it again");
    // Given back.
    stores.leaving.leases.clear();
    assert!(ask(&mut stores, "n2"));
    assert!(!ask(&mut stores, "n1"));
}

#[test]
fn a_lease_ends_with_its_time_or_with_the_return_of_the_node() {
    let mut stores = pair();
    assert!(grant(&mut stores, "n1", at(10)));
    assert!(!grant(&mut stores, "n2", at(309)));
    assert!(last_copies(&stores, &node("n2"), at(310)).may_stop(false), "300 s are over");

    let mut stores = pair();
    assert!(ask(&mut stores, "n1"));
    set(&mut stores, "n1", SessionState::Lost);
    set(&mut stores, "n1", SessionState::Live);
    assert!(stores.stop_lease("n1", at(10)).is_some(), "the same process came again");
    hello(&mut stores, "n1");
    assert!(stores.stop_lease("n1", at(10)).is_some(), "it has not said yet what it holds");
    stores.observed.get_mut("n1").unwrap().reported = true;
    assert!(stores.stop_lease("n1", at(10)).is_none());
    assert!(!ask(&mut stores, "n2"), "it came back with nothing");
    obey(&mut stores);
    settle(&mut stores);
    assert!(ask(&mut stores, "n2"));
}

#[test]
fn a_drained_node_serves_until_others_have_what_it_serves_and_not_longer() {
    let mut stores = serving(&[("east", &["n1", "n2"])], &[("east", 1)]);
    drain(&mut stores, "n1", 1);
    assert!(stores.leads.values().all(|leader| leader.as_str() == "n2"), "leads are given away at once");
    let departure = leave(&mut stores, at(0)).remove("n1").unwrap();
    assert_eq!(departure.moves.len(), 2, "a segment and a lead");
    assert!(departure.moves.iter().all(|moving| moving.to == Some(node("n2"))));
    assert!(departure.needed && enabled(&stores, "n1"));
    obey(&mut stores);
    let departure = leave(&mut stores, at(0)).remove("n1").unwrap();
    assert!(matches!(departure.moves[..], [Move { what: LastCopy { what: Served::Lead(_), .. }, .. }]));
    settle(&mut stores);
    let departure = leave(&mut stores, at(0)).remove("n1").unwrap();
    assert_eq!(departure, Departure::default());
    assert!(!enabled(&stores, "n1") && enabled(&stores, "n2"));
    assert!(last(&stores, "n1").may_stop(true));
    // Nothing new comes to it, also when it is all that is left.
    set(&mut stores, "n2", SessionState::Lost);
    decide(&mut stores);
    assert!(
        all_places(&stores)
            .into_values()
            .flat_map(|places| places.into_values())
            .all(|place| place.as_str() == "n2")
    );
    // Taken back, it works again.
    stores.leaving.drains.clear();
    divide(&mut stores);
    decide(&mut stores);
    assert!(
        all_places(&stores)
            .into_values()
            .flat_map(|places| places.into_values())
            .any(|place| place.as_str() == "n1")
    );
    assert!(enabled(&stores, "n1"));
}

#[test]
fn what_nobody_can_take_stays_in_service_until_another_replica_serves_it() {
    let mut stores = pair();
    set(&mut stores, "n2", SessionState::Lost);
    drain(&mut stores, "n1", 1);
    let departure = leave(&mut stores, at(0)).remove("n1").unwrap();
    assert_eq!((departure.moves.len(), departure.stuck.len(), departure.kept), (0, 4, 0), "{departure:?}");
    assert!(departure.needed && enabled(&stores, "n1"));
    assert!(stores.leads.values().any(|leader| leader.as_str() == "n1"), "it leads to its end");
    set(&mut stores, "n2", SessionState::Live);
    decide(&mut stores);
    let departure = leave(&mut stores, at(0)).remove("n1").unwrap();
    assert_eq!((departure.stuck.len(), departure.kept, departure.needed), (0, 2, false), "{departure:?}");
    assert!(!enabled(&stores, "n1"));
}

#[test]
fn of_two_drains_one_leaves_and_the_other_waits() {
    let mut stores = pair();
    drain(&mut stores, "n2", 1);
    drain(&mut stores, "n1", 2);
    leave(&mut stores, at(0));
    assert!(enabled(&stores, "n1") && !enabled(&stores, "n2"), "the earlier one leaves");
    stores.leaving.drains.remove("n2");
    decide(&mut stores);
    leave(&mut stores, at(0));
    assert!(!enabled(&stores, "n1") && enabled(&stores, "n2"));
    // Nor does a drain leave what only a node serves that may stop.
    let mut stores = pair();
    assert!(ask(&mut stores, "n2"));
    drain(&mut stores, "n1", 1);
    leave(&mut stores, at(10));
    assert!(enabled(&stores, "n1"));
    leave(&mut stores, at(310));
    assert!(!enabled(&stores, "n1"), "the lease is over");
}

#[test]
fn a_process_that_stops_waits_for_what_moves_and_for_nothing_else() {
    let mut stores = serving(&[("east", &["n1", "n2"])], &[("east", 1)]);
    set(&mut stores, "n1", SessionState::Stopping);
    decide(&mut stores);
    leave(&mut stores, at(0));
    assert!(!enabled(&stores, "n1"), "it did not say that it waits");
    stores.leaving.stops.insert(node("n1"), at(5));
    leave(&mut stores, at(4));
    assert!(enabled(&stores, "n1"));
    leave(&mut stores, at(5));
    assert!(!enabled(&stores, "n1"), "its time for that is over");
    // When every node stops there is nobody to move to.
    set(&mut stores, "n2", SessionState::Stopping);
    stores.leaving.stops.insert(node("n2"), at(5));
    decide(&mut stores);
    let departures = leave(&mut stores, at(0));
    assert!(departures.values().all(|departure| !departure.needed && departure.moves.is_empty()));
    assert!(departures["n1"].stuck.iter().any(|copy| matches!(copy.what, Served::Segment(_))));
}

#[test]
fn a_node_that_is_disabled_and_drained_gives_its_data_away() {
    let mut stores = serving(&[("east", &["n1", "n2"])], &[("east", 1)]);
    stores.nodes.get_mut("n1").unwrap().switched_on = false;
    decide(&mut stores);
    let places = |stores: &Stores, name: &str| {
        all_places(stores)
            .into_values()
            .flat_map(|places| places.into_values())
            .filter(|place| place.as_str() == name)
            .count()
    };
    assert_eq!(places(&stores, "n1"), 1, "disabled, it keeps its place");
    drain(&mut stores, "n1", 1);
    assert_eq!((places(&stores, "n1"), places(&stores, "n2")), (0, 2));
    leave(&mut stores, at(0));
    assert!(!enabled(&stores, "n1"), "and is out all the time");
}

// === The same by what brokers are told ===

/// Whether nodes with such an entry can be counted on, those without a lease.
fn counts(stores: &Stores, entry: &NodeEntry) -> bool {
    let leaves = stores.leaving.drains.contains_key(&entry.name);
    entry.enabled && !entry.lost && !leaves && stores.stop_lease(entry.name.as_str(), at(10)).is_none()
}

/// What brokers are told of the collection.
fn told_of(stores: &Stores) -> CollectionEntry {
    collection_entry(stores, COLLECTION).unwrap().unwrap()
}

/// Last copies as they follow from the feed, where every group has one replica.
fn told(stores: &Stores, name: &str) -> LastCopies {
    let entry: CollectionEntry = told_of(stores);
    let nodes = node_entries(stores);
    let own = nodes.iter().find(|node| node.name.as_str() == name).map(|node| node.id);
    let others: BTreeSet<_> = nodes.iter().filter(|node| counts(stores, node)).map(|node| node.id).collect();
    let others: BTreeSet<_> = others.into_iter().filter(|id| Some(*id) != own).collect();
    let group = |replica: u32| entry.replicas[usize::try_from(replica).unwrap()].group;
    let serves = |copy: &&CopyEntry| copy.observed.is_some_and(|state| state.serves());
    let mut last = LastCopies::default();
    let mut add = |what: Served, number, elsewhere: &dyn Fn(bool) -> bool| {
        let group = stores.groups.values().find(|group| group.number == number).unwrap().name.clone();
        let copy = LastCopy { collection: COLLECTION, group, what };
        if !elsewhere(false) {
            last.in_cluster.push(copy.clone());
        }
        if !elsewhere(true) {
            last.in_group.push(copy);
        }
    };
    for segment in &entry.segments {
        for mine in segment.copies.iter().filter(serves).filter(|copy| Some(copy.node) == own) {
            let elsewhere = |same_group: bool| {
                segment.copies.iter().filter(serves).any(|copy| {
                    others.contains(&copy.node) && (!same_group || group(copy.replica) == group(mine.replica))
                })
            };
            add(Served::Segment(segment.id), group(mine.replica), &elsewhere);
        }
    }
    for ((shard, leaders), at) in entry.shards.iter().zip(&entry.leaders).zip(0_u32..) {
        let whole = |number| {
            entry.segments.iter().filter(|segment| segment.shard == at).all(|segment| {
                let of_group = segment.copies.iter().filter(|copy| group(copy.replica) == number);
                of_group.filter(serves).any(|copy| others.contains(&copy.node))
            })
        };
        for mine in leaders.iter().filter(|leader| Some(leader.node) == own) {
            let elsewhere = |same_group: bool| {
                leaders.iter().any(|leader| {
                    let group = !same_group || leader.group == mine.group;
                    others.contains(&leader.node) && group && whole(leader.group)
                })
            };
            add(Served::Lead(shard.clone()), mine.group, &elsewhere);
        }
    }
    last
}

fn sorted(mut last: LastCopies) -> LastCopies {
    last.in_cluster.sort();
    last.in_group.sort();
    last
}

const NAMES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

/// What happens to nodes.
#[derive(Clone, Debug)]
enum Happening {
    Becomes(usize, SessionState),
    Switched(usize, bool),
    Drained(usize),
    Undrained(usize),
    Asks(usize),
    Returns(usize),
    Reports(usize, u64, SegmentReport),
    Obeyed,
    Decided,
}

fn happening() -> impl Strategy<Value = Happening> {
    let node = 0..NAMES.len();
    let state = prop_oneof![
        3 => Just(SessionState::Live),
        1 => Just(SessionState::Lost),
        1 => Just(SessionState::Stopping),
        1 => Just(SessionState::Gone),
    ];
    let said = prop_oneof![
        2 => Just(SegmentReport::Held),
        1 => Just(SegmentReport::Fetching),
        1 => Just(SegmentReport::Failed),
    ];
    prop_oneof![
        2 => (node.clone(), state).prop_map(|(node, state)| Happening::Becomes(node, state)),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, on)| Happening::Switched(node, on)),
        1 => node.clone().prop_map(Happening::Drained),
        1 => node.clone().prop_map(Happening::Undrained),
        3 => node.clone().prop_map(Happening::Asks),
        1 => node.clone().prop_map(Happening::Returns),
        2 => (node, 1..=4_u64, said).prop_map(|(node, id, said)| Happening::Reports(node, id, said)),
        2 => Just(Happening::Obeyed),
        3 => Just(Happening::Decided),
    ]
}

/// What operators do to two nodes of two groups each, until none is left that is not drained.
fn drain_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..4_usize).prop_map(Happening::Drained),
        1 => (0..4_usize).prop_map(Happening::Undrained),
        3 => Just(Happening::Obeyed),
        1 => Just(Happening::Decided),
    ]
}

/// Nodes that are there report what placement wants of them.
fn obey_where_present(stores: &mut Stores) {
    for places in all_places(stores).into_values() {
        for (segment, node) in
            places.into_iter().filter(|(_, node)| stores.is_present(node.as_str())).collect::<Vec<_>>()
        {
            report(stores, node.as_str(), segment.0, SegmentReport::Held);
        }
    }
}

/// Does it, and says whether the node that asked may stop.
fn happen(stores: &mut Stores, what: &Happening) -> Option<bool> {
    match what {
        Happening::Becomes(at, state) => {
            set(stores, NAMES[*at], *state);
            if *state == SessionState::Gone {
                unreport_all(stores, NAMES[*at]);
                stores.distribution.remove_node(&node(NAMES[*at]));
            }
        }
        Happening::Switched(at, on) => stores.nodes.get_mut(NAMES[*at]).unwrap().switched_on = *on,
        Happening::Drained(at) => drop(stores.leaving.drains.insert(node(NAMES[*at]), *at as u64)),
        Happening::Undrained(at) => drop(stores.leaving.drains.remove(NAMES[*at])),
        Happening::Asks(at) => return Some(ask(stores, NAMES[*at])),
        Happening::Returns(at) => {
            hello(stores, NAMES[*at]);
            stores.observed.get_mut(NAMES[*at]).unwrap().reported = true;
            stores.leaving.drains.remove(NAMES[*at]);
        }
        Happening::Reports(at, segment, said) => report(stores, NAMES[*at], *segment, *said),
        Happening::Obeyed => obey_where_present(stores),
        Happening::Decided => {
            divide(stores);
            decide(stores);
            lead(stores);
            leave(stores, at(10));
        }
    }
    None
}

/// Segments that some node with such a name serves, without those of these names.
fn served(stores: &Stores, without: &BTreeSet<NodeName>) -> BTreeSet<SegmentId> {
    let nodes = node_entries(stores);
    let name = |id| &nodes.iter().find(|node| node.id == id).unwrap().name;
    let entry = told_of(stores);
    let serves = |copy: &CopyEntry| {
        let node = nodes.iter().find(|node| node.id == copy.node);
        copy.observed.is_some_and(|state| state.serves())
            && node.is_some_and(|node| node.enabled && !node.lost)
            && !without.contains(name(copy.node))
    };
    let segments = entry.segments.iter().filter(|segment| segment.copies.iter().any(serves));
    segments.map(|segment| segment.id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever happened, last copies are those that follow from what brokers are told; and a lease is granted only where
    /// nothing is missed that was served, with all nodes gone that have one.
    #[test]
    fn last_copies_follow_from_what_brokers_are_told_and_leases_cost_nothing(
        happenings in prop::collection::vec(happening(), 0..30),
    ) {
        let groups: [(&str, &[&str]); 3] = [("a", &NAMES[..2]), ("b", &NAMES[2..4]), ("c", &NAMES[4..])];
        let mut stores = world(&groups);
        collection(&mut stores, 2, &[5, 5, 5, 5]);
        load(&mut stores, &[("a", 1), ("b", 1), ("c", 1)]);
        decide(&mut stores);
        obey(&mut stores);
        promote(&mut stores);
        decide(&mut stores);
        for what in &happenings {
            let leased = |stores: &Stores| -> BTreeSet<NodeName> {
                let all = stores.leaving.leases.keys();
                all.filter(|node| stores.stop_lease(node.as_str(), at(10)).is_some()).cloned().collect()
            };
            // Those that leave by themselves are as good as gone.
            let leaving = |stores: &Stores| -> BTreeSet<NodeName> {
                NAMES.iter().filter(|name| stores.is_leaving(name)).map(|name| node(name)).collect()
            };
            let before: BTreeSet<NodeName> = &leased(&stores) | &leaving(&stores);
            let there = served(&stores, &before);
            if happen(&mut stores, what) == Some(true) {
                let gone: BTreeSet<NodeName> = &leased(&stores) | &leaving(&stores);
                prop_assert!(there.is_subset(&served(&stores, &gone)), "{what:?} after {happenings:?}");
            }
            for name in NAMES {
                prop_assert_eq!(sorted(last(&stores, name)), sorted(told(&stores, name)), "{} {:?}", name, what);
            }
        }
    }

    /// Make before break: however many leave, a segment that was served is served by somebody who is in service, as long
    /// as nobody is lost and no process goes.
    #[test]
    fn drains_cost_nothing(happenings in prop::collection::vec(drain_happening(), 0..20)) {
        let groups: [(&str, &[&str]); 2] = [("a", &NAMES[..2]), ("b", &NAMES[2..4])];
        let mut stores = world(&groups);
        collection(&mut stores, 2, &[5, 5, 5, 5]);
        load(&mut stores, &[("a", 1), ("b", 1)]);
        decide(&mut stores);
        obey(&mut stores);
        promote(&mut stores);
        decide(&mut stores);
        let all = served(&stores, &BTreeSet::new());
        for what in happenings {
            happen(&mut stores, &what);
            // As the coordinator does after every change that it makes.
            divide(&mut stores);
            decide(&mut stores);
            leave(&mut stores, at(10));
            prop_assert_eq!(served(&stores, &BTreeSet::new()), all.clone(), "{:?}", what);
            prop_assert_eq!(&stores.leads, &plan_leads(&stores));
        }
    }
}

#[test]
fn an_operator_says_that_lost_nodes_are_not_coming_back() {
    let mut stores = world(&[("east", &["n1", "n2", "n3", "n4"])]);
    let mut guard = LossGuard::default();
    let mut look = |guard: &mut LossGuard, lost: &[&str], seconds| {
        for name in ["n1", "n2", "n3", "n4"] {
            let state = if lost.contains(&name) { SessionState::Lost } else { SessionState::Live };
            set(&mut stores, name, state);
        }
        guard.update(&stores, at(seconds), Duration::from_secs(30), 0.5);
        guard.is_suspicious()
    };
    assert!(look(&mut guard, &["n1", "n2", "n3"], 0));
    assert_eq!(guard.lost().map(NodeName::as_str).collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    guard.accept();
    assert!(!guard.is_suspicious() && !look(&mut guard, &["n1", "n2", "n3"], 1));
    assert!(!look(&mut guard, &["n1", "n2", "n3", "n4"], 2), "one more is not most of them");
    assert!(!look(&mut guard, &[], 40), "they came all the same");
    assert!(look(&mut guard, &["n1", "n2", "n3"], 80), "and are lost again");
}

#[test]
fn a_drain_does_not_count_on_a_later_one_that_may_stop_at_any_moment() {
    let mut stores = pair();
    assert!(ask(&mut stores, "n2"));
    drain(&mut stores, "n1", 1);
    drain(&mut stores, "n2", 2);
    let departure = leave(&mut stores, at(20)).remove("n1").unwrap();
    assert!(departure.needed && departure.stuck.len() == 4, "{departure:?}");
    assert!(enabled(&stores, "n1"));
    // The lease is over by time: of two drains the earlier one leaves.
    leave(&mut stores, at(400));
    assert!(!enabled(&stores, "n1") && enabled(&stores, "n2"));
}
