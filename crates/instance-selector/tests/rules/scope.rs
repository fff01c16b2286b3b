//! Who may be chosen at all, and why nobody can.

use pointsman_ids::{GroupNumber, UnavailableCause, catalog::SelectorKind};
use pointsman_instance_selector::{FailOpen, NodeSet, Request, States, select};

use crate::world::{World, routing, seconds};

fn cause(world: &World, states: &States, request: &Request<'_>) -> UnavailableCause {
    let selection = select(states, &world.nodes(), request).unwrap();
    assert_eq!((selection.served(), selection.unavailable.len()), (0, 1));
    selection.unavailable[0].1
}

/// Why nobody can answer for a segment.
fn cause_of(world: &mut World, piece: &str) -> UnavailableCause {
    let states = world.states(SelectorKind::Balanced, &[piece]);
    cause(world, &states, &Request::all(0))
}

#[test]
fn only_routable_nodes_are_chosen() {
    let mut world = World::of("n1 n2 n3").disable("n1").exclude("n2 n4");
    let states = world.states(SelectorKind::Balanced, &["n1 n2 n3 n4"]);
    for id in 0..4 {
        let selection = select(&states, &world.nodes(), &Request::all(id)).unwrap();
        assert_eq!(world.served(&selection), "0>n3");
    }
}

#[test]
fn nodes_that_failed_in_this_query_are_left_alone() {
    let mut world = World::of("n1 n2 n3");
    let states = world.states(SelectorKind::Balanced, &["n1 n2 n3", "n2"]);
    let without: NodeSet = [world.node("n2")].into_iter().collect();
    let fail_open = FailOpen { enabled: true, ..FailOpen::default() };
    let request = Request { without: &without, fail_open, ..Request::all(1) };
    let selection = select(&states, &world.nodes(), &request).unwrap();
    assert_eq!(world.served(&selection), "0>n3");
    assert_eq!(selection.unavailable, [(1, UnavailableCause::RetriesUsedUp)]);
    assert!(!selection.fail_open_eligible);
    // Nor does fail-open try them once they are excluded.
    let world = world.exclude("n2");
    let selection = select(&states, &world.nodes(), &request).unwrap();
    assert_eq!(selection.unavailable.len(), 1);
    assert!(selection.fail_open.is_empty() && !selection.fail_open_eligible);
}

#[test]
fn a_scope_keeps_the_candidates_of_its_group_alone() {
    let mut world = World::of("n1 n2 n3").pool("n3", 7);
    let pieces = ["n1@7 n2@8 n3@8", "n1@7=on/err n2@8", "n1@7 n2@8"];
    let states = world.states(SelectorKind::Balanced, &pieces);
    let request = Request { group: Some(GroupNumber(7)), ..Request::all(1) };
    let selection = select(&states, &world.nodes(), &request).unwrap();
    assert_eq!(world.served(&selection), "0>n1 2>n1", "the replica's group counts, not the node's");
    assert_eq!(selection.unavailable, [(1, UnavailableCause::NotLoaded)]);
}

#[test]
fn a_scope_holds_for_fail_open_too() {
    let mut world = World::of("n1 n2").exclude("n1");
    let states = world.states(SelectorKind::Balanced, &["n1@7 n2@8"]);
    let fail_open = FailOpen { enabled: true, ..FailOpen::default() };
    let request = Request { group: Some(GroupNumber(7)), fail_open, ..Request::all(0) };
    let selection = select(&states, &world.nodes(), &request).unwrap();
    assert_eq!((world.served(&selection), selection.fail_open.as_slice()), ("0>n1".into(), &[0][..]));
    let world = world.exclude("n2");
    let other = Request { group: Some(GroupNumber(9)), ..request };
    let selection = select(&states, &world.nodes(), &other).unwrap();
    assert!(selection.is_empty() && !selection.fail_open_eligible, "never another group");
}

#[test]
fn causes_name_what_stands_in_the_way() {
    let mut world = World::of("n1 n2 n3 n4").disable("n1").disable("n2").exclude("n2 n3");
    assert_eq!(cause_of(&mut world, "n4=on/err"), UnavailableCause::NotLoaded);
    assert_eq!(cause_of(&mut world, "n1 n2"), UnavailableCause::AllDisabled);
    assert_eq!(cause_of(&mut world, "n9"), UnavailableCause::AllDisabled);
    assert_eq!(cause_of(&mut world, "n1 n2 n3"), UnavailableCause::AllExcluded);
    let promoted = [world.piece("n4=off/on").promoted()];
    let states = world.build(&routing(SelectorKind::Balanced), &promoted).unwrap();
    assert_eq!(cause(&world, &states, &Request::all(0)), UnavailableCause::NoReplicaAssigned);
}

#[test]
fn a_promoted_segment_of_nobody_is_missing_and_not_unknown() {
    let mut world = World::of("n1");
    let pieces = [world.piece("").promoted(), world.piece("").aged(seconds(1))];
    let states = world.build(&routing(SelectorKind::Balanced), &pieces).unwrap();
    let selection = select(&states, &world.nodes(), &Request::these(&[0, 1], 0)).unwrap();
    assert_eq!(selection.unavailable, [(0, UnavailableCause::NoReplicaAssigned)]);
    assert_eq!(selection.unknown, [1]);
}
