//! What is new, what is old, and what becomes of optional work.

use std::time::Duration;

use pointsman_ids::{GroupNumber, catalog::SelectorKind};
use pointsman_instance_selector::{Edit, Request, States, select};

use crate::world::{Piece, WINDOW, World, routing, seconds};

fn states(world: &World, pieces: &[Piece]) -> States {
    world.build(&routing(SelectorKind::Balanced), pieces).unwrap()
}

fn is_new(states: &States, at: u32) -> bool {
    states.segment(at).unwrap().is_new()
}

/// Whether a segment of an age is new when the collection is first built.
fn new_at(text: &str, age: Duration) -> bool {
    let mut world = World::of("n1 n2 n3");
    let piece = world.piece(text).aged(age);
    is_new(&states(&world, &[piece]), 0)
}

#[test]
fn settling_is_unobserved_or_without_an_error_and_partly_loaded() {
    let young = seconds(1);
    for settling in ["n1=on/- n2=on/-", "n1 n2=on/-", "n1 n2=on/off", "n1=con/off", "n1=on/- n3=-/err"] {
        assert!(new_at(settling, young), "{settling}");
    }
    for settled in ["n1 n2", "n1=on/con", "n1=on/err n2=on/-", "n1=on/err n2", "n1 n3=off/off", "n1 n3=-/on"]
    {
        assert!(!new_at(settled, young), "{settled}");
    }
    assert!(new_at("n1=on/- n3=off/err", young), "an error where nobody should serve it says nothing");
}

#[test]
fn young_is_up_to_the_window_its_end_included() {
    assert!(new_at("n1=on/-", WINDOW));
    assert!(!new_at("n1=on/-", WINDOW + Duration::from_nanos(1)));
}

#[test]
fn a_promoted_segment_is_old_from_the_start() {
    let mut world = World::of("n1 n2");
    let piece = world.piece("n1=on/- n2=on/off").aged(Duration::ZERO).promoted();
    assert!(!is_new(&states(&world, &[piece]), 0));
}

#[test]
fn promotion_ends_youth() {
    let mut world = World::of("n1 n2");
    let piece = world.piece("n1=on/-").aged(Duration::ZERO);
    let young = states(&world, std::slice::from_ref(&piece));
    assert!(is_new(&young, 0));
    let segment = Piece { promoted: true, ..piece };
    let edit = Edit::Set { at: 0, segment: segment.input() };
    assert!(!is_new(&young.change(&world.nodes(), [edit], Duration::ZERO).unwrap(), 0));
}

#[test]
fn candidates_of_the_old_are_those_that_loaded_and_of_the_new_those_that_should_serve() {
    let mut world = World::of("n1 n2 n3 n4");
    let text = "n4=on/- n3=con/on n2=off/on n1=on/off";
    let pieces = [world.piece(text), world.piece(text).aged(seconds(1))];
    let states = states(&world, &pieces);
    assert_eq!(world.candidates(&states, 0), "n3");
    assert_eq!(world.candidates(&states, 1), "(n1) n3 (n4)");
}

#[test]
fn segments_that_nobody_should_serve_do_not_exist() {
    let mut world = World::of("n1 n2");
    let pieces = [world.piece("n1=off/on n2=err/on"), world.piece("n1=-/on"), world.piece("")];
    let states = states(&world, &pieces);
    assert!((0..4).all(|at| states.segment(at).is_none()));
}

#[test]
fn a_new_segment_keeps_its_age_and_one_that_comes_later_begins_now() {
    let mut world = World::of("n1 n2");
    let (old, fresh) = (world.piece("n1"), world.piece("n1=on/- n2=on/-"));
    let nodes = world.nodes();
    let first = states(&world, &[old, fresh.clone().aged(seconds(240))]);
    // Its own age does not count: the broker sees it now.
    let late = fresh.clone().aged(seconds(9999));
    let insert = Edit::Insert { at: 2, segment: late.input() };
    let again = Edit::Set { at: 1, segment: late.input() };
    let second = first.change(&nodes, [insert, again], seconds(30)).unwrap();
    assert!(is_new(&second, 1) && is_new(&second, 2));
    assert_eq!(second.segment(1).unwrap().young_until(), Some(seconds(60)));
    assert_eq!(second.segment(2).unwrap().young_until(), Some(seconds(330)));
    let third = second.change(&nodes, [], seconds(60)).unwrap();
    assert!(is_new(&third, 1), "the end is included");
    let fourth = third.change(&nodes, [], seconds(60) + Duration::from_nanos(1)).unwrap();
    assert!(!is_new(&fourth, 1) && is_new(&fourth, 2));
}

#[test]
fn time_alone_reclassifies_nothing() {
    let mut world = World::of("n1 n2");
    let pieces = [world.piece("n1=on/- n2").aged(seconds(299))];
    let states = states(&world, &pieces);
    let request = Request::these(&[0], 0);
    // However late the request comes: it carries no clock.
    assert_eq!(select(&states, &world.nodes(), &request).unwrap().optional_skipped, [0]);
}

#[test]
fn what_was_old_stays_old_while_it_is_in_the_universe() {
    let mut world = World::of("n1 n2");
    let pieces = [world.piece("n1 n2").aged(seconds(1))];
    let nodes = world.nodes();
    let lost = world.piece("n1=on/- n2=on/-");
    let states = states(&world, &pieces);
    let set = |piece: &Piece, states: &States, now| {
        states.change(&nodes, [Edit::Set { at: 0, segment: piece.input() }], now).unwrap()
    };
    let states = set(&lost, &states, seconds(2));
    assert!(!is_new(&states, 0));
    assert_eq!(select(&states, &nodes, &Request::all(0)).unwrap().unavailable.len(), 1);
    // Out of the universe and back again: it has not been seen.
    let states = set(&world.piece("n1=off/on"), &states, seconds(3));
    assert!(states.segment(0).is_none());
    let states = set(&lost, &states, seconds(4));
    assert_eq!(states.segment(0).unwrap().young_until(), Some(seconds(304)));
}

#[test]
fn what_grows_old_keeps_only_those_that_loaded_it() {
    let mut world = World::of("n1 n2");
    let pieces = [world.piece("n1=on/- n2").aged(seconds(299)), world.piece("n1")];
    let states = states(&world, &pieces).change(&world.nodes(), [], seconds(2)).unwrap();
    assert_eq!(world.candidates(&states, 0), "n2");
    let selection = select(&states, &world.nodes(), &Request::all(0)).unwrap();
    assert_eq!(world.served(&selection), "0>n2 1>n1");
}

#[test]
fn optional_work_goes_along_and_never_alone() {
    let mut world = World::of("n1 n2").pool("n1", 1).pool("n2", 2);
    let fresh = |world: &mut World, text| world.piece(text).aged(seconds(1));
    let pieces = [world.piece("n1"), fresh(&mut world, "n1=on/-"), fresh(&mut world, "n2=on/-")];
    let states = states(&world, &pieces);
    let selection = select(&states, &world.nodes(), &Request::all(0)).unwrap();
    assert_eq!((world.served(&selection), world.optional(&selection)), ("0>n1".into(), "1>n1".into()));
    assert_eq!(selection.optional_skipped, [2]);
    // Sent or not, a pick is a pick.
    assert_eq!(selection.pools, [(GroupNumber(1), 2), (GroupNumber(2), 1)]);
    let selection = select(&states, &world.nodes(), &Request::these(&[2, 1], 0)).unwrap();
    assert!(selection.is_empty() && selection.unavailable.is_empty());
    assert_eq!(selection.optional_skipped, [2, 1]);
}

#[test]
fn a_new_segment_is_never_unavailable() {
    let mut world = World::of("n1 n2").exclude("n1 n2");
    let pieces = [world.piece("n1=on/- n2").aged(seconds(1))];
    let states = states(&world, &pieces);
    let selection = select(&states, &world.nodes(), &Request::all(0)).unwrap();
    assert_eq!(selection.new, [0]);
    assert!(selection.unavailable.is_empty() && selection.is_empty());
    assert_eq!(states.health(&world.nodes()).unavailable, 0);
}

#[test]
fn copies_of_one_node_count_as_one() {
    let mut world = World::of("n1 n2");
    let pieces = [world.piece("n1@3=on/- n1@4 n2@5 n2@6=off/-")];
    let states = states(&world, &pieces);
    let segment = states.segment(0).unwrap();
    assert_eq!(segment.expected(), 2);
    let groups: Vec<_> = segment.candidates().map(|candidate| candidate.group().0).collect();
    assert_eq!(groups, [4, 5], "the copy that is loaded speaks for the node");
}
