//! Fail-open: gates in order, all or nothing, picks of its own.

use pointsman_ids::{
    GroupNumber,
    catalog::{RoutingOptions, SelectorKind},
};
use pointsman_instance_selector::{
    FailOpen, FailOpenGate, Request, Scores, Selection, Standing, States, select,
};

use crate::world::{World, routing, seconds};

const ON: FailOpen = FailOpen { enabled: true, multi_stage: false, strict: false };

fn choose(world: &World, states: &States, request: &Request<'_>) -> Selection {
    select(states, &world.nodes(), request).unwrap()
}

fn open(id: u64) -> Request<'static> {
    Request { fail_open: ON, ..Request::all(id) }
}

/// The gate at which a request for two segments of excluded nodes stands.
fn gate(routing: &RoutingOptions, fail_open: FailOpen, multi_stage: bool) -> FailOpenGate {
    let mut world = World::of("n1 n2").exclude("n1 n2");
    let pieces = [world.piece("n1 n2"), world.piece("n1 n2")];
    let states = world.build(routing, &pieces).unwrap();
    let selection = choose(&world, &states, &Request { fail_open, multi_stage, ..Request::all(0) });
    let passed = selection.fail_open_gate == FailOpenGate::Passed;
    assert_eq!(selection.served(), if passed { 2 } else { 0 });
    assert_eq!(selection.unavailable.is_empty(), passed);
    assert!(selection.fail_open_eligible, "whatever follows");
    selection.fail_open_gate
}

#[test]
fn every_switch_has_its_gate() {
    let balanced = routing(SelectorKind::Balanced);
    let strict = routing(SelectorKind::StrictReplicaGroup);
    let closed = RoutingOptions { fail_closed: true, ..balanced.clone() };
    let all = FailOpen { enabled: true, multi_stage: true, strict: true };
    let off = FailOpen { enabled: false, ..all };
    assert_eq!(gate(&balanced, off, false), FailOpenGate::Off);
    assert_eq!(gate(&closed, off, false), FailOpenGate::Off);
    assert_eq!(gate(&closed, all, true), FailOpenGate::FailClosed);
    assert_eq!(gate(&balanced, ON, true), FailOpenGate::MultiStage);
    assert_eq!(gate(&balanced, all, true), FailOpenGate::Passed);
    assert_eq!(gate(&strict, ON, false), FailOpenGate::Strict);
    assert_eq!(gate(&strict, FailOpen { strict: true, ..ON }, false), FailOpenGate::Passed);
    assert_eq!(gate(&strict, FailOpen { strict: true, ..ON }, true), FailOpenGate::MultiStage);
    assert_eq!(gate(&strict, FailOpen { multi_stage: true, ..ON }, true), FailOpenGate::Strict);
    assert_eq!(gate(&strict, all, true), FailOpenGate::Passed);
    assert_eq!(gate(&balanced, ON, false), FailOpenGate::Passed);
    let consistent = RoutingOptions { consistent_replicas: true, ..routing(SelectorKind::ReplicaGroup) };
    assert_eq!(gate(&consistent, ON, false), FailOpenGate::Passed, "it needs no switch of its own");
}

#[test]
fn all_or_nothing() {
    let mut world = World::of("n1 n2 n3").exclude("n1").disable("n2");
    let states = world.states(SelectorKind::Balanced, &["n1", "n2", "n3", "n3=on/err"]);
    let selection = choose(&world, &states, &open(0));
    assert_eq!(world.served(&selection), "2>n3");
    assert_eq!(selection.unavailable.len(), 3);
    assert_eq!(selection.fail_open_gate, FailOpenGate::NotForAll(1));
    assert!(selection.fail_open.is_empty() && selection.fail_open_eligible);
    let request = Request { fail_open: ON, ..Request::these(&[0, 2], 0) };
    let selection = choose(&world, &states, &request);
    assert_eq!(world.served(&selection), "0>n1 2>n3", "what was not asked for hinders nobody");
}

#[test]
fn without_an_enabled_candidate_nothing_is_eligible() {
    let mut world = World::of("n1 n2").exclude("n1").disable("n1");
    let states = world.states(SelectorKind::Balanced, &["n1", "n2=on/err", "n9"]);
    let selection = choose(&world, &states, &open(0));
    assert_eq!(selection.fail_open_gate, FailOpenGate::NoCandidates);
    assert!(!selection.fail_open_eligible);
}

#[test]
fn a_healthy_choice_is_never_overridden() {
    let mut world = World::of("n1 n2").exclude("n1");
    let states = world.states(SelectorKind::Balanced, &["n1 n2", "n1"]);
    for id in 0..4 {
        let selection = choose(&world, &states, &open(id));
        assert_eq!(
            (world.served(&selection), selection.fail_open.as_slice()),
            ("0>n2 1>n1".into(), &[1][..])
        );
    }
    assert_eq!(
        choose(&world, &states, &Request { fail_open: ON, ..Request::these(&[0], 0) }).fail_open_gate,
        FailOpenGate::NotNeeded
    );
}

#[test]
fn balanced_has_a_rotation_of_its_own_over_the_unavailable() {
    let mut world = World::of("n1 n2 n3 n4").exclude("n1 n2");
    let states = world.states(SelectorKind::Balanced, &["n3 n4", "n1 n2", "n3 n4", "n1 n2"]);
    let selection = choose(&world, &states, &open(0));
    assert_eq!(world.served(&selection), "0>n3 1>n1 2>n4 3>n2");
    assert_eq!(selection.fail_open, [1, 3]);
    assert_eq!(world.served(&choose(&world, &states, &open(1))), "0>n4 1>n2 2>n3 3>n1");
}

#[test]
fn the_index_counts_excluded_and_enabled_candidates_only() {
    let mut world = World::of("n1 n2 n3").exclude("n2 n3").disable("n1");
    let states = world.states(SelectorKind::Balanced, &["n1 n2 n3", "n1 n2 n3"]);
    assert_eq!(world.served(&choose(&world, &states, &open(0))), "0>n2 1>n3");
}

#[test]
fn replica_groups_start_afresh_over_the_unavailable() {
    let mut world = World::of("n1 n2 n3").exclude("n1 n2");
    let states = world.states(SelectorKind::ReplicaGroup, &["n3", "n1 n2", "n1 n2", "n1 n2"]);
    let request = Request { num_replica_groups: 2, ..open(0) };
    // The single candidate of segment 0 narrowed the normal selection; fail-open has both groups.
    assert_eq!(world.served(&choose(&world, &states, &request)), "0>n3 1>n1 2>n2 3>n1");
    assert_eq!(world.served(&choose(&world, &states, &open(1))), "0>n3 1>n2 2>n2 3>n2");
}

#[test]
fn strict_groups_go_to_one_replica_whatever_the_options() {
    let mut world = World::of("n1 n2 n3 n4 n5").exclude("n1 n2 n4 n5");
    let pieces = ["n1 n2", "n3 n4 n5", "n1 n2", "n3=on/err n4 n5"];
    let states = world.states(SelectorKind::StrictReplicaGroup, &pieces);
    let fail_open = FailOpen { strict: true, ..ON };
    let request = Request { fail_open, num_replica_groups: 2, ..Request::all(2) };
    let selection = choose(&world, &states, &request);
    assert_eq!(world.served(&selection), "0>n1 1>n4 2>n1 3>n4");
    let request = Request { id: 3, fixed_replica: Some(true), ..request };
    assert_eq!(world.served(&choose(&world, &states, &request)), "0>n2 1>n5 2>n2 3>n5");
}

#[test]
fn nothing_is_fixed_and_nothing_is_ranked() {
    let mut world = World::of("n1 n2 n3").exclude("n1 n2 n3");
    for selector in [SelectorKind::Balanced, SelectorKind::ReplicaGroup] {
        let states = world.states(selector, &["n1 n2 n3"]);
        let request = Request { fixed_replica: Some(true), ..open(1) };
        assert_eq!(world.served(&choose(&world, &states, &request)), "0>n2");
        let scores = Scores::new([(world.node("n2"), Standing::Measured(9.0))]);
        let request = Request { scores: Some(&scores), ..open(1) };
        assert_eq!(world.served(&choose(&world, &states, &request)), "0>n2");
    }
}

#[test]
fn new_segments_neither_cause_nor_hinder_it() {
    let mut world = World::of("n1 n2").exclude("n1 n2");
    let pieces = [world.piece("n1 n2"), world.piece("n1=on/- n2").aged(seconds(1))];
    let states = world.build(&routing(SelectorKind::Balanced), &pieces).unwrap();
    let selection = choose(&world, &states, &open(0));
    assert_eq!((world.served(&selection), selection.new.as_slice()), ("0>n1".into(), &[1][..]));
    let selection = choose(&world, &states, &Request { fail_open: ON, ..Request::these(&[1], 0) });
    assert_eq!(selection.fail_open_gate, FailOpenGate::NotNeeded);
}

#[test]
fn its_picks_count_under_their_pools_and_keep_the_order_of_the_request() {
    let mut world = World::of("n1 n2").pool("n1", 1).pool("n2", 2).exclude("n1");
    let states = world.states(SelectorKind::Balanced, &["n1", "n2", "n1"]);
    let request = Request { fail_open: ON, ..Request::these(&[2, 1, 0], 0) };
    let selection = choose(&world, &states, &request);
    assert_eq!(selection.pools, [(GroupNumber(1), 2), (GroupNumber(2), 1)]);
    assert_eq!(selection.parts[0].segments, [2, 0]);
    assert_eq!(selection.fail_open, [2, 0]);
}
