//! Collections of more segments than fit into one leaf of the vector that holds them.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::catalog::SelectorKind;
use pointsman_instance_selector::{Edit, Nodes, Request, States, select};

use crate::world::{Piece, World, routing, seconds};

const SEGMENTS: u32 = 1000;

/// A segment with 1 to 5 of 7 nodes.
fn piece(world: &mut World, at: u32) -> Piece {
    let copies: Vec<_> = (0..1 + at * 7 % 5).map(|copy| format!("n{}", (at + copy * 3) % 7)).collect();
    world.piece(&copies.join(" "))
}

fn collection() -> (World, States) {
    let mut world = World::of("n0 n1 n2 n3 n4 n5 n6");
    let pieces: Vec<_> = (0..SEGMENTS).map(|at| piece(&mut world, at)).collect();
    let states = world.build(&routing(SelectorKind::Balanced), &pieces).unwrap();
    (world, states)
}

/// What `balanced` gives to each node, by the letter.
fn by_the_letter(states: &States, nodes: &Nodes, list: &[u32], id: u64) -> BTreeMap<u32, Vec<u32>> {
    let (mut parts, mut turn) = (BTreeMap::<u32, Vec<u32>>::new(), id);
    for segment in list {
        let candidates = states.segment(*segment).unwrap().candidates();
        let usable: Vec<_> = candidates.filter(|candidate| nodes.is_routable(candidate.node())).collect();
        if !usable.is_empty() {
            let chosen = usable[usize::try_from(turn % usable.len() as u64).unwrap()];
            parts.entry(chosen.node().0).or_default().push(*segment);
            turn += 1;
        }
    }
    parts
}

fn check(states: &States, nodes: &Nodes) {
    let count = u32::try_from(states.len()).unwrap();
    let all: Vec<u32> = (0..count).collect();
    let parts = |request: &Request<'_>| -> BTreeMap<u32, Vec<u32>> {
        let selection = select(states, nodes, request).unwrap();
        selection.parts.iter().map(|part| (part.node.0, part.segments.clone())).collect()
    };
    assert_eq!(parts(&Request::all(5)), by_the_letter(states, nodes, &all, 5));
    let lists: [Vec<u32>; 5] = [
        all.clone(),
        (70..count - 3).collect(),
        (0..count).step_by(3).collect(),
        (0..count).rev().collect(),
        (0..count).map(|at| at * 611 % count).collect(),
    ];
    for list in lists {
        let mut seen = BTreeSet::new();
        let first: Vec<u32> = list.iter().copied().filter(|segment| seen.insert(*segment)).collect();
        assert_eq!(parts(&Request::these(&list, 8)), by_the_letter(states, nodes, &first, 8));
    }
}

#[test]
fn every_list_is_served_by_the_letter() {
    let (world, states) = collection();
    check(&states, &world.nodes());
    let world = world.exclude("n2 n5");
    check(&states, &world.nodes());
}

#[test]
fn and_after_many_changes_too() {
    let (mut world, mut states) = collection();
    for round in 0..40 {
        let pieces: Vec<_> = (0..10).map(|at| piece(&mut world, round * 31 + at)).collect();
        let edits = pieces.iter().zip(0..).map(|(piece, at): (_, u32)| {
            let at = (round * 577 + at * 97) % 950;
            match at % 3 {
                0 => Edit::Set { at, segment: piece.input() },
                1 => Edit::Insert { at, segment: piece.input() },
                _ => Edit::Remove { at },
            }
        });
        states = states.change(&world.nodes(), edits, seconds(1)).unwrap();
    }
    check(&states, &world.nodes());
    check(&states, &world.exclude("n0").nodes());
}
