//! Replicas that must not be mixed.

use pointsman_ids::{
    UnavailableCause,
    catalog::{RoutingOptions, SelectorKind},
};
use pointsman_instance_selector::{Edit, Request, States, select};

use crate::world::{Piece, World, routing, seconds};

const STRICT: SelectorKind = SelectorKind::StrictReplicaGroup;

fn served(world: &World, states: &States, id: u64) -> String {
    world.served(&select(states, &world.nodes(), &Request::all(id)).unwrap())
}

#[test]
fn a_gap_takes_the_node_out_for_its_whole_group() {
    let mut world = World::of("n1 n2 n3 n4");
    let states = world.states(STRICT, &["n1 n2", "n1=on/err n2", "n3 n4"]);
    assert_eq!(served(&world, &states, 0), "0>n2 1>n2 2>n3");
    assert_eq!(served(&world, &states, 1), "0>n2 1>n2 2>n4");
}

#[test]
fn groups_are_sets_of_assigned_nodes_whatever_their_states() {
    let mut world = World::of("n1 n2 n3");
    let states = world.states(STRICT, &["n2 n1", "n1=off/on n2", "n1 n2 n3", "n1 n2=con/con"]);
    let group = |at| states.segment(at).unwrap().assignment_group();
    assert_eq!((group(0), group(0)), (group(1), group(3)));
    assert_ne!(group(0), group(2));
    // Assigned offline is not loaded, even if it is observed.
    assert_eq!(served(&world, &states, 0), "0>n2 1>n2 2>n1 3>n2");
}

#[test]
fn new_segments_put_nobody_out_and_have_every_assigned_node() {
    let mut world = World::of("n1 n2 n3");
    let fresh = world.piece("n1=off/- n2=on/- n3").aged(seconds(1));
    let pieces = [fresh, world.piece("n1"), world.piece("n2"), world.piece("n3")];
    let states = world.build(&routing(STRICT), &pieces).unwrap();
    assert_eq!(world.candidates(&states, 0), "(n1) (n2) n3");
    assert_eq!(served(&world, &states, 2), "0>n3 1>n1 2>n2 3>n3");
}

#[test]
fn a_node_that_is_out_takes_no_new_segment_either() {
    let mut world = World::of("n1 n2");
    let pieces = [world.piece("n1=on/err n2"), world.piece("n1=on/- n2").aged(seconds(1))];
    let states = world.build(&routing(STRICT), &pieces).unwrap();
    assert_eq!(world.candidates(&states, 1), "n2");
}

#[test]
fn a_segment_that_nobody_has_empties_its_group_and_is_named() {
    let mut world = World::of("n1 n2 n3");
    let states = world.states(STRICT, &["n1 n2", "n1=on/err n2=on/off", "n2 n3", "n1 n2"]);
    let selection = select(&states, &world.nodes(), &Request::all(0)).unwrap();
    assert_eq!(world.served(&selection), "2>n2");
    let causes = [UnavailableCause::GroupIncomplete, UnavailableCause::NotLoaded];
    assert_eq!(selection.unavailable, [(0, causes[0]), (1, causes[1]), (3, causes[0])]);
    assert_eq!([0, 1, 2, 3].map(|at| states.emptied_by(at)), [Some(1), Some(1), None, Some(1)]);
}

#[test]
fn each_replica_with_a_gap_of_its_own_leaves_nobody() {
    let mut world = World::of("n1 n2");
    let states = world.states(STRICT, &["n1 n2=on/err", "n1=on/err n2"]);
    let selection = select(&states, &world.nodes(), &Request::all(0)).unwrap();
    let causes: Vec<_> = selection.unavailable.iter().map(|(_, cause)| *cause).collect();
    assert_eq!(causes, [UnavailableCause::GroupIncomplete; 2]);
    assert_eq!(states.emptied_by(0), None, "no segment alone is the cause");
}

#[test]
fn replica_group_is_consistent_only_on_demand() {
    let mut world = World::of("n1 n2");
    let pieces = [world.piece("n1 n2"), world.piece("n1=on/err n2")];
    let loose = world.build(&routing(SelectorKind::ReplicaGroup), &pieces).unwrap();
    assert_eq!(served(&world, &loose, 0), "0>n1 1>n2");
    assert_eq!(loose.segment(0).unwrap().assignment_group(), None);
    let consistent = RoutingOptions { consistent_replicas: true, ..routing(SelectorKind::ReplicaGroup) };
    let states = world.build(&consistent, &pieces).unwrap();
    assert_eq!(served(&world, &states, 0), "0>n2 1>n2");
}

#[test]
fn a_gap_that_closes_brings_the_node_back() {
    let mut world = World::of("n1 n2");
    let states = world.states(STRICT, &["n1 n2", "n1=on/err n2", "n1=on/off n2"]);
    let nodes = world.nodes();
    let whole = world.piece("n1 n2");
    let set = |states: &States, at, piece: &Piece| {
        states.change(&nodes, [Edit::Set { at, segment: piece.input() }], seconds(1)).unwrap()
    };
    let states = set(&states, 1, &whole);
    assert_eq!(served(&world, &states, 0), "0>n2 1>n2 2>n2");
    assert_eq!(served(&world, &set(&states, 2, &whole), 0), "0>n1 1>n1 2>n1");
    let gone = states.change(&nodes, [Edit::Remove { at: 2 }], seconds(1)).unwrap();
    assert_eq!(served(&world, &gone, 0), "0>n1 1>n1");
    // The states before the change still say what they said.
    assert_eq!(served(&world, &states, 0), "0>n2 1>n2 2>n2");
}

#[test]
fn one_that_grows_old_without_a_node_puts_it_out() {
    let mut world = World::of("n1 n2");
    let pieces = [world.piece("n1 n2"), world.piece("n1=on/- n2").aged(seconds(299))];
    let states = world.build(&routing(STRICT), &pieces).unwrap();
    assert_eq!(served(&world, &states, 0), "0>n1");
    let states = states.change(&world.nodes(), [], seconds(2)).unwrap();
    assert_eq!(served(&world, &states, 0), "0>n2 1>n2");
}
