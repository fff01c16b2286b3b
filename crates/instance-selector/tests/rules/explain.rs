//! How a choice is explained.

use pointsman_ids::{GroupNumber, UnavailableCause, catalog::SelectorKind, feed::CopyState};
use pointsman_instance_selector::{
    FailOpen, FailOpenGate, Fate, NodeSet, Request, Rule, States, Verdict, explain,
};

use crate::world::{World, routing, seconds, staged};

/// Verdicts of the nodes of a segment, in order.
fn verdicts(
    world: &mut World,
    states: &States,
    request: &Request<'_>,
    piece: &str,
) -> Vec<(String, Verdict)> {
    let copies = world.piece(piece).copies;
    let nodes = world.nodes();
    let explanation = explain(states, &nodes, request).segment(0, &copies);
    let name = |node| world.table.name(node).unwrap().to_string();
    explanation.nodes.iter().map(|node| (name(node.node), node.verdict)).collect()
}

#[test]
fn every_node_has_its_verdict() {
    let mut world = World::of("n1 n2 n3 n4 n5 n6 n7 n8").disable("n2").exclude("n3");
    let piece = "n1@7 n2@7 n3@7 n4@7 n5@8 n9@7 n6=on/err n7=off/on n8=-/on";
    let states = world.states(SelectorKind::Balanced, &[piece]);
    let without: NodeSet = [world.node("n4")].into_iter().collect();
    let request = Request { without: &without, group: Some(GroupNumber(7)), ..Request::all(0) };
    let expected = [
        ("n1", Verdict::Usable),
        ("n2", Verdict::Disabled),
        ("n3", Verdict::Excluded),
        ("n4", Verdict::FailedInThisQuery),
        ("n5", Verdict::OtherResourceGroup),
        ("n9", Verdict::NotMember),
        ("n6", Verdict::NotLoaded(Some(CopyState::Error))),
        ("n7", Verdict::AssignedWithoutServing),
        ("n8", Verdict::NotAssigned),
    ];
    let expected = expected.map(|(name, verdict)| (name.to_owned(), verdict));
    assert_eq!(verdicts(&mut world, &states, &request, piece), expected);
}

#[test]
fn rules_tell_what_made_the_pick() {
    let mut world = World::of("n1 n2 n3").exclude("n3");
    let pieces = ["n1 n2", "n1 n2", "n3"];
    let nodes = world.nodes();
    let states = world.states(SelectorKind::Balanced, &pieces);
    let request = Request { fail_open: FailOpen { enabled: true, ..FailOpen::default() }, ..Request::all(6) };
    let explained = explain(&states, &nodes, &request);
    let rule = |at| explained.segment(at, &[]).rule;
    assert_eq!([0, 1, 2].map(rule), [6, 7, 6].map(|turn| Some(Rule::Turn(turn))));
    let third = explained.segment(2, &[]);
    assert_eq!((third.fate, third.fail_open), (Fate::FailOpen(world.node("n3")), FailOpenGate::Passed));
    assert_eq!(explained.segment(9, &[]).fate, Fate::NotRequested);
    let states = world.states(SelectorKind::ReplicaGroup, &pieces);
    let request = Request { num_replica_groups: 2, fixed_replica: Some(true), ..Request::all(6) };
    let explained = explain(&states, &nodes, &request);
    let rule = |at| explained.segment(at, &[]).rule;
    assert_eq!([0, 1, 2].map(rule), [Some(Rule::Fixed(116)), Some(Rule::Fixed(117)), None]);
    let cause = UnavailableCause::AllExcluded;
    assert_eq!(explained.segment(2, &[]).fate, Fate::Unavailable(cause));
}

#[test]
fn optional_work_and_replica_groups_are_explained_too() {
    let mut world = World::of("n1 n2 n3");
    let fresh = world.piece("n1=on/- n3=on/-").aged(seconds(1));
    let pieces = [fresh, world.piece("n1 n2")];
    let states = world.build(&staged(&[(4, "n1|n2")]), &pieces).unwrap();
    let nodes = world.nodes();
    let request = Request::all(0);
    let explained = explain(&states, &nodes, &request);
    let explanation = explained.segment(0, &[]);
    assert_eq!(explanation.rule, Some(Rule::ReplicaGroup { partition: 4, group: 0 }));
    assert_eq!((explanation.new, explanation.fate), (Some(true), Fate::OptionalSent(world.node("n1"))));
    let found: Vec<_> = explanation.nodes.iter().map(|node| node.verdict).collect();
    assert_eq!(found, [Verdict::Optional, Verdict::OutsideReplicaGroups]);
}

#[test]
fn a_request_that_fails_is_explained_segment_by_segment() {
    let mut world = World::of("n1 n2").exclude("n1");
    let pieces = [world.piece("n1 n2=on/-")];
    let states = world.build(&staged(&[(0, "n1|n2")]), &pieces).unwrap();
    let nodes = world.nodes();
    let request = Request::all(0);
    let explained = explain(&states, &nodes, &request);
    assert!(explained.selection().is_err());
    let explanation = explained.segment(0, &pieces[0].copies);
    assert_eq!(explanation.fate, Fate::Refused);
    let found: Vec<_> = explanation.nodes.iter().map(|node| node.verdict).collect();
    assert_eq!(found, [Verdict::Excluded, Verdict::NotLoaded(None)]);
}

#[test]
fn who_is_out_for_its_group_is_said() {
    let mut world = World::of("n1 n2");
    let states = world.states(SelectorKind::StrictReplicaGroup, &["n1 n2", "n1=on/err n2"]);
    let found = verdicts(&mut world, &states, &Request::all(0), "n1 n2");
    assert_eq!(found, [("n1".into(), Verdict::OutForItsGroup), ("n2".into(), Verdict::Usable)]);
    let piece = [world.piece("")];
    let states = world.build(&routing(SelectorKind::Balanced), &piece).unwrap();
    assert!(verdicts(&mut world, &states, &Request::all(0), "").is_empty());
}
