//! Settings and options that make no sense.

use pointsman_ids::{
    AnswerCode, Error,
    catalog::{RoutingOptions, SelectorKind},
};
use pointsman_instance_selector::{Request, States, StatesSettings, select};

use crate::world::{Piece, World, routing, staged};

fn refusal(routing: &RoutingOptions, adaptive: bool) -> String {
    let mut world = World::of("n1 n2 n3 n4");
    let piece = world.piece("n1 n2");
    let settings = StatesSettings { adaptive, ..world.settings("orders", routing) };
    let inputs = [&piece].map(Piece::input);
    text(States::build(&settings, &world.nodes(), inputs, std::time::Duration::ZERO).unwrap_err())
}

/// The message of an error that answers 700.
fn text(error: Error) -> String {
    assert_eq!(AnswerCode::from(error.code()).number(), 700, "{error}");
    error.to_string()
}

#[test]
fn consistent_replicas_need_replica_groups() {
    for selector in [SelectorKind::Balanced, SelectorKind::MultiStageReplicaGroup] {
        let groups = staged(&[(0, "n1|n2")]).replica_groups;
        let routing =
            RoutingOptions { consistent_replicas: true, replica_groups: groups, ..routing(selector) };
        let text = refusal(&routing, false);
        assert!(text.contains("'orders'") && text.contains(selector.as_str()), "{text}");
        assert!(text.contains("replica_group"), "{text}");
    }
}

#[test]
fn a_fixed_replica_does_not_go_with_adaptive_selection() {
    let fixed = RoutingOptions { fixed_replica: true, ..RoutingOptions::default() };
    let text = refusal(&fixed, true);
    assert!(text.contains("'orders'") && text.contains("broker.adaptive.kind"), "{text}");
    let world = World::of("n1");
    assert!(world.build(&fixed, &[]).is_ok(), "it goes without");
}

#[test]
fn several_stages_need_replica_groups_that_fit_each_other() {
    for (partitions, names) in [
        (&[][..], "replica_groups"),
        (&[(0, "n1|n2"), (3, "n3")][..], "partition 3"),
        (&[(0, "n1|n2,n1")][..], "'n1'"),
        (&[(0, "n1|n2"), (1, "n3|n1")][..], "'n1'"),
    ] {
        let text = refusal(&staged(partitions), false);
        assert!(text.contains("'orders'") && text.contains(names), "{text}");
    }
    let mut empty = staged(&[(0, "n1|n2")]);
    empty.replica_groups.insert(0, vec![vec![], vec![]]);
    assert!(refusal(&empty, false).contains("has no node"));
    empty.replica_groups.insert(0, vec![]);
    assert!(refusal(&empty, false).contains("at least one"));
}

#[test]
fn a_node_named_twice_in_one_replica_group_counts_once() {
    let world = World::of("n1 n2");
    assert!(world.build(&staged(&[(0, "n1,n1|n2")]), &[]).is_ok());
}

#[test]
fn fewer_than_one_replica_group_is_refused_whatever_the_selector() {
    for selector in [SelectorKind::Balanced, SelectorKind::ReplicaGroup, SelectorKind::StrictReplicaGroup] {
        for num_replica_groups in [0, -1, i64::MIN] {
            let mut world = World::of("n1");
            let states = world.states(selector, &["n1"]);
            let request = Request { num_replica_groups, ..Request::all(0) };
            let text = text(select(&states, &world.nodes(), &request).unwrap_err());
            assert!(text.contains("num_replica_groups") && text.contains("'t'"), "{text}");
        }
    }
    // Before anything else is found wrong: its only segment has no usable candidate.
    let mut world = World::of("n1 n2").exclude("n1 n2");
    let pieces = [world.piece("n1")];
    let states = world.build(&staged(&[(0, "n1|n2")]), &pieces).unwrap();
    let request = Request { num_replica_groups: 0, ..Request::all(0) };
    text(select(&states, &world.nodes(), &request).unwrap_err());
}
