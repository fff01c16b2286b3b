//! `balanced`, the replica groups, and the fixed replica.

use pointsman_ids::{
    GroupNumber,
    catalog::{RoutingOptions, SelectorKind},
};
use pointsman_instance_selector::{Request, Selection, States, select};

use crate::world::{World, routing};

fn choose(world: &World, states: &States, request: &Request<'_>) -> Selection {
    select(states, &world.nodes(), request).unwrap()
}

fn served(world: &World, states: &States, request: &Request<'_>) -> String {
    world.served(&choose(world, states, request))
}

fn fixed(selector: SelectorKind) -> RoutingOptions {
    RoutingOptions { fixed_replica: true, ..routing(selector) }
}

#[test]
fn balanced_takes_the_next_candidate_for_every_segment() {
    let mut world = World::of("n1 n2 n3");
    let states = world.states(SelectorKind::Balanced, &["n3 n1 n2", "n1 n2", "n1 n2 n3"]);
    assert_eq!(served(&world, &states, &Request::all(0)), "0>n1 1>n2 2>n3");
    assert_eq!(served(&world, &states, &Request::all(2)), "0>n3 1>n2 2>n2");
}

#[test]
fn candidates_stand_in_byte_order_of_names_and_not_of_places() {
    let mut world = World::of("n2 n10 N3");
    let states = world.states(SelectorKind::Balanced, &["n2 n10 N3"]);
    assert_eq!(world.candidates(&states, 0), "N3 n10 n2");
}

#[test]
fn a_segment_without_usable_candidates_takes_no_turn() {
    let mut world = World::of("n1 n2 n3").exclude("n3");
    let states = world.states(SelectorKind::Balanced, &["n1 n2", "n3", "n1 n2"]);
    assert_eq!(served(&world, &states, &Request::all(0)), "0>n1 2>n2");
    let states = world.states(SelectorKind::ReplicaGroup, &["n1 n2", "n3", "n1 n2"]);
    let request = Request { num_replica_groups: 2, ..Request::all(0) };
    assert_eq!(served(&world, &states, &request), "0>n1 2>n2");
}

#[test]
fn request_ids_count_modulo_a_thousand_million() {
    let mut world = World::of("n1 n2 n3");
    let states = world.states(SelectorKind::Balanced, &["n1 n2 n3"]);
    assert_eq!(served(&world, &states, &Request::all(1_000_000_001)), "0>n2");
    // 2^64 - 1 leaves 709551615, a multiple of 3.
    assert_eq!(served(&world, &states, &Request::all(u64::MAX)), "0>n1");
}

#[test]
fn replica_groups_take_one_index_for_all() {
    let mut world = World::of("n1 n2 n3 n4");
    let pieces = ["n1 n2 n3", "n1 n2", "n1 n2 n3", "n4"];
    let states = world.states(SelectorKind::ReplicaGroup, &pieces);
    assert_eq!(served(&world, &states, &Request::all(4)), "0>n2 1>n1 2>n2 3>n4");
}

#[test]
fn a_short_list_narrows_the_groups_to_the_end_of_the_request() {
    let mut world = World::of("n1 n2 n3");
    let (three, two) = ("n1 n2 n3", "n1 n2");
    let states = world.states(SelectorKind::ReplicaGroup, &[three, three, two, three, three, three]);
    let request = Request { num_replica_groups: 3, ..Request::all(1) };
    assert_eq!(served(&world, &states, &request), "0>n2 1>n3 2>n2 3>n3 4>n2 5>n3");
    let states = world.states(SelectorKind::ReplicaGroup, &[three, "n1", three, three]);
    assert_eq!(served(&world, &states, &request), "0>n2 1>n1 2>n2 3>n2");
    let request = Request { num_replica_groups: i64::MAX, ..Request::all(0) };
    let states = world.states(SelectorKind::ReplicaGroup, &[three, three, three, three]);
    assert_eq!(served(&world, &states, &request), "0>n1 1>n2 2>n3 3>n1");
}

#[test]
fn a_fixed_replica_is_the_hash_of_the_collection() {
    let mut world = World::of("n1 n2 n3");
    // The hash of `t` is 116: the third of three, the first of two.
    let pieces: Vec<_> = ["n1 n2 n3", "n1 n2"].iter().map(|text| world.piece(text)).collect();
    for selector in [SelectorKind::Balanced, SelectorKind::ReplicaGroup, SelectorKind::StrictReplicaGroup] {
        let states = world.build(&fixed(selector), &pieces).unwrap();
        for id in 0..3 {
            assert_eq!(served(&world, &states, &Request::all(id)), "0>n3 1>n1", "{selector:?}");
        }
    }
}

#[test]
fn a_fixed_replica_still_walks_over_several_groups() {
    let mut world = World::of("n1 n2 n3");
    let pieces = [world.piece("n1 n2 n3"), world.piece("n1 n2 n3"), world.piece("n1 n2 n3")];
    let states = world.build(&fixed(SelectorKind::ReplicaGroup), &pieces).unwrap();
    let request = Request { num_replica_groups: 2, ..Request::all(5) };
    assert_eq!(served(&world, &states, &request), "0>n3 1>n1 2>n3");
}

#[test]
fn the_request_overrides_a_fixed_replica_either_way() {
    let mut world = World::of("n1 n2 n3");
    let pieces = [world.piece("n1 n2 n3")];
    let free = world.build(&routing(SelectorKind::Balanced), &pieces).unwrap();
    let bound = world.build(&fixed(SelectorKind::Balanced), &pieces).unwrap();
    let with = |fixed| Request { fixed_replica: Some(fixed), ..Request::all(0) };
    assert_eq!(served(&world, &free, &with(true)), "0>n3");
    assert_eq!(served(&world, &bound, &with(false)), "0>n1");
}

#[test]
fn a_list_keeps_its_order_and_counts_what_it_repeats_once() {
    let mut world = World::of("n1 n2");
    let states = world.states(SelectorKind::Balanced, &["n1 n2", "n1 n2", "n1 n2", "n1=off/on"]);
    let list = [2, 0, 2, 9, 3, 0, 1, 9, u32::MAX];
    let selection = choose(&world, &states, &Request::these(&list, 0));
    assert_eq!(world.served(&selection), "0>n2 1>n1 2>n1");
    assert_eq!(selection.unknown, [9, 3, u32::MAX]);
    assert_eq!(selection.parts[0].segments, [2, 1], "in the order of the request");
}

#[test]
fn a_request_for_all_is_for_the_universe() {
    let mut world = World::of("n1 n2");
    let states = world.states(SelectorKind::Balanced, &["n1 n2", "n1=off/on", "n1 n2"]);
    let selection = choose(&world, &states, &Request::all(0));
    assert_eq!(world.served(&selection), "0>n1 2>n2");
    assert!(selection.unknown.is_empty());
}

#[test]
fn nothing_asked_nothing_missing() {
    let mut world = World::of("n1");
    let states = world.states(SelectorKind::Balanced, &["n1"]);
    let selection = choose(&world, &states, &Request::these(&[], 0));
    assert_eq!(selection, Selection::default());
}

#[test]
fn picks_count_under_the_pool_of_their_candidate_at_the_last_change() {
    let mut world = World::of("n1 n2 n3").pool("n1", 4).pool("n2", 2).disable("n3").pool("n3", 2);
    let states = world.states(SelectorKind::Balanced, &["n1", "n2", "n2", "n3 n9"]);
    let world = world.pool("n1", 7);
    let selection = choose(&world, &states, &Request::all(0));
    assert_eq!(selection.pools, [(GroupNumber(2), 2), (GroupNumber(4), 1)]);
    // Enabled only after the change: a node of no pool yet.
    let mut world = world;
    let node = world.node("n3");
    world.members.get_mut(&node).unwrap().enabled = true;
    let selection = choose(&world, &states, &Request::these(&[3], 0));
    assert_eq!(selection.pools, [(GroupNumber::NONE, 1)]);
    let states = states.change(&world.nodes(), [], std::time::Duration::ZERO).unwrap();
    let selection = choose(&world, &states, &Request::these(&[0, 3], 0));
    assert_eq!(selection.pools, [(GroupNumber(2), 1), (GroupNumber(7), 1)]);
}
