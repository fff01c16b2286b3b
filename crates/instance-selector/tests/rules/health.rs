//! Figures of replica health.

use pointsman_ids::catalog::SelectorKind;
use pointsman_instance_selector::{Health, States};

use crate::world::{World, routing, seconds};

fn figures(states: &States, world: &World) -> (u32, u64, u64, u64) {
    let Health { lowest_percent, segments_at_lowest, unavailable, fail_open_eligible } =
        states.health(&world.nodes());
    (lowest_percent, segments_at_lowest, unavailable, fail_open_eligible)
}

#[test]
fn the_lowest_share_counts_and_single_replicas_are_not_measured() {
    let mut world = World::of("n1 n2 n3");
    let pieces = ["n1 n2 n3", "n1 n2 n3=on/err", "n1=on/err", "n2"];
    let states = world.states(SelectorKind::Balanced, &pieces);
    assert_eq!(figures(&states, &world), (66, 1, 1, 0));
    let world = world.disable("n1");
    assert_eq!(figures(&states, &world), (33, 1, 1, 0));
    let world = world.exclude("n2");
    assert_eq!(figures(&states, &world), (0, 1, 3, 2));
}

#[test]
fn expected_is_who_should_serve() {
    let mut world = World::of("n1 n2 n3 n4");
    let states = world.states(SelectorKind::Balanced, &["n1 n2 n3 n4=off/on"]);
    assert_eq!(figures(&states, &world), (100, 1, 0, 0));
    let world = world.disable("n2").disable("n3");
    assert_eq!(figures(&states, &world), (33, 1, 0, 0));
}

#[test]
fn nothing_measured_is_a_hundred_percent_of_nothing() {
    let mut world = World::of("n1 n2");
    let fresh = world.piece("n1=on/- n2=on/-").aged(seconds(1));
    let states = world.build(&routing(SelectorKind::Balanced), &[fresh, world.clone().piece("n1")]).unwrap();
    assert_eq!(figures(&states, &world), (100, 0, 0, 0));
}

#[test]
fn who_is_out_for_its_group_is_not_usable() {
    let mut world = World::of("n1 n2").exclude("n1");
    let states = world.states(SelectorKind::StrictReplicaGroup, &["n1 n2", "n1 n2=on/err"]);
    assert_eq!(figures(&states, &world), (0, 2, 2, 2));
}

#[test]
fn many_replicas_are_measured_like_few() {
    let names: Vec<_> = (0..300).map(|at| format!("n{at:03}")).collect();
    let mut world = World::of(&names.join(" ")).exclude(&names[..100].join(" "));
    let states = world.states(SelectorKind::Balanced, &[&names.join(" "), &names[..50].join(" ")]);
    assert_eq!(figures(&states, &world), (0, 1, 1, 1));
    let world = World { unhealthy: names[..30].iter().cloned().collect(), ..world };
    assert_eq!(figures(&states, &world), (40, 1, 0, 0));
}
