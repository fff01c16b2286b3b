//! Adaptive selection.

use pointsman_ids::catalog::SelectorKind;
use pointsman_instance_selector::{NodeIndex, Request, Scores, Standing, select};

use crate::world::World;
use Standing::{Measured, TrialFull, Unmeasured};

/// Which of n1 to n3, each in the pool of its number, takes a segment that lies on all.
fn best(selector: SelectorKind, standings: [Standing; 3], preferred_pools: &[i32]) -> String {
    let mut world = World::of("n3 n2 n1").pool("n1", 1).pool("n2", 2).pool("n3", 3);
    let states = world.states(selector, &["n1 n2 n3"]);
    let places: Vec<NodeIndex> = ["n1", "n2", "n3"].map(|name| world.node(name)).into();
    let scores = Scores::new(places.into_iter().zip(standings));
    let request = Request { scores: Some(&scores), preferred_pools, ..Request::all(1) };
    world.served(&select(&states, &world.nodes(), &request).unwrap()).split_off(2)
}

fn balanced(standings: [Standing; 3], preferred_pools: &[i32]) -> String {
    best(SelectorKind::Balanced, standings, preferred_pools)
}

#[test]
fn the_lower_score_wins() {
    for selector in [SelectorKind::Balanced, SelectorKind::ReplicaGroup, SelectorKind::StrictReplicaGroup] {
        assert_eq!(best(selector, [Measured(3.0), Measured(2.0), Measured(2.5)], &[]), "n2");
    }
}

#[test]
fn equals_go_to_the_lower_name() {
    assert_eq!(balanced([Measured(1.0); 3], &[]), "n1");
    assert_eq!(balanced([Measured(9.0), Unmeasured, Unmeasured], &[]), "n2");
}

#[test]
fn no_statistics_come_before_statistics() {
    assert_eq!(balanced([Measured(0.0), Measured(-1.0), Unmeasured], &[]), "n3");
}

#[test]
fn the_preferred_pools_come_first_in_their_order() {
    assert_eq!(balanced([Unmeasured, Measured(1.0), Measured(9.0)], &[3, 2]), "n3");
    assert_eq!(balanced([Unmeasured, Measured(1.0), Measured(9.0)], &[8, 2, 3]), "n2");
    // Those that are not named share the place after the last; a repetition keeps its first place.
    assert_eq!(balanced([Measured(2.0), Measured(1.0), Measured(9.0)], &[7]), "n2");
    assert_eq!(balanced([Measured(2.0), Measured(1.0), Measured(9.0)], &[3, 2, 3]), "n3");
}

#[test]
fn a_full_trial_comes_after_all_others() {
    assert_eq!(balanced([TrialFull, Measured(100.0), TrialFull], &[]), "n2");
    assert_eq!(balanced([TrialFull, Measured(100.0), Measured(1.0)], &[1, 2]), "n2");
    assert_eq!(balanced([TrialFull; 3], &[2]), "n2");
}

#[test]
fn balanced_ranks_before_it_fixes_and_replica_groups_fix_before_they_rank() {
    let mut world = World::of("n1 n2 n3");
    let node = world.node("n2");
    let scores = Scores::new([(node, Measured(0.0))]);
    // The hash of `t` is 116: the third of three.
    let request = Request { scores: Some(&scores), fixed_replica: Some(true), ..Request::all(0) };
    let states = world.states(SelectorKind::Balanced, &["n2 n3"]);
    assert_eq!(world.served(&select(&states, &world.nodes(), &request).unwrap()), "0>n3");
    let scores = Scores::new(["n1", "n2", "n3"].map(|name| (world.node(name), Measured(1.0))));
    let request = Request { scores: Some(&scores), ..request };
    let states = world.states(SelectorKind::Balanced, &["n1 n2 n3"]);
    assert_eq!(world.served(&select(&states, &world.nodes(), &request).unwrap()), "0>n1");
    let states = world.states(SelectorKind::ReplicaGroup, &["n1 n2 n3"]);
    assert_eq!(world.served(&select(&states, &world.nodes(), &request).unwrap()), "0>n3");
}

#[test]
fn preferred_pools_steer_nothing_while_adaptive_selection_is_off() {
    let mut world = World::of("n1 n2").pool("n1", 1).pool("n2", 2);
    let states = world.states(SelectorKind::Balanced, &["n1 n2"]);
    let request = Request { preferred_pools: &[2], ..Request::all(0) };
    assert_eq!(world.served(&select(&states, &world.nodes(), &request).unwrap()), "0>n1");
}
