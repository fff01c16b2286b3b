//! Whole replica groups per placement partition.

use pointsman_ids::{AnswerCode, catalog::RoutingOptions};
use pointsman_instance_selector::{FailOpen, Request, SegmentNames, Selection, States, select};

use crate::world::{World, seconds, staged};

fn states(world: &mut World, routing: &RoutingOptions, pieces: &[&str]) -> States {
    let pieces: Vec<_> = pieces.iter().map(|text| world.piece(text)).collect();
    world.build(routing, &pieces).unwrap()
}

fn choose(world: &World, states: &States, id: u64) -> Selection {
    select(states, &world.nodes(), &Request::all(id)).unwrap()
}

fn served(world: &World, states: &States, id: u64) -> String {
    world.served(&choose(world, states, id))
}

/// The message of an error that answers 305.
fn failure(world: &World, states: &States, id: u64) -> String {
    let name = |at: u32| format!("s{at}");
    let request = Request { names: SegmentNames::by(&name), ..Request::all(id) };
    let error = select(states, &world.nodes(), &request).unwrap_err();
    assert_eq!(AnswerCode::from(error.code()).number(), 305, "{error}");
    error.to_string()
}

#[test]
fn the_request_id_prefers_a_group_and_no_pool_is_counted() {
    let mut world = World::of("n1 n2 n3 n4");
    let routing = staged(&[(0, "n1,n2|n3,n4")]);
    let states = states(&mut world, &routing, &["n1 n3", "n2 n4", "n1 n3"]);
    assert_eq!(served(&world, &states, 0), "0>n1 1>n2 2>n1");
    let selection = choose(&world, &states, 5);
    assert_eq!(world.served(&selection), "0>n3 1>n4 2>n3");
    assert!(selection.pools.is_empty());
    let fixed = Request { fixed_replica: Some(true), ..Request::all(5) };
    assert_eq!(world.served(&select(&states, &world.nodes(), &fixed).unwrap()), "0>n1 1>n2 2>n1");
    let world = world.exclude("n1");
    assert_eq!(served(&world, &states, 0), "0>n3 1>n4 2>n3");
}

#[test]
fn partitions_choose_alone_and_around_the_end() {
    let mut world = World::of("n1 n2 n3 n4 n5 n6");
    let routing = staged(&[(0, "n1|n3|n5"), (1, "n2|n4|n6")]);
    let pieces = ["n1 n3=on/err n5", "n2=on/err n4 n6=on/err"];
    let states = states(&mut world, &routing, &pieces);
    assert_eq!(served(&world, &states, 0), "0>n1 1>n4");
    assert_eq!(served(&world, &states, 1), "0>n5 1>n4");
    assert_eq!(served(&world, &states, 2), "0>n5 1>n4");
}

#[test]
fn inside_a_group_the_last_listed_node_takes_the_segment() {
    let mut world = World::of("n1 n2 n3");
    let routing = staged(&[(0, "n2,n1|n3,n9")]);
    world.node("n9");
    let states = states(&mut world, &routing, &["n1 n2 n3", "n2 n3"]);
    assert_eq!(served(&world, &states, 0), "0>n1 1>n2");
}

#[test]
fn a_segment_that_several_partitions_need_goes_to_the_last() {
    let mut world = World::of("n1 n2 n3 n4");
    let routing = staged(&[(3, "n1|n2"), (7, "n3|n4")]);
    let states = states(&mut world, &routing, &["n1 n2 n3 n4", "n1 n2"]);
    let selection = choose(&world, &states, 0);
    assert_eq!(world.served(&selection), "0>n3 1>n1");
    let node = |name: &str| world.table.find(&name.parse().unwrap()).unwrap();
    assert_eq!(states.placement_partition(node("n3")), Some(7));
}

#[test]
fn no_complete_group_fails_the_request_naming_the_partition() {
    let mut world = World::of("n1 n2 n3");
    let routing = staged(&[(4, "n1|n2"), (9, "n3|n9")]);
    world.node("n9");
    let states = states(&mut world, &routing, &["n1 n2=on/err", "n1=on/err n2", "n3"]);
    let text = failure(&world, &states, 0);
    assert!(text.contains("'t'") && text.contains("partition 4"), "{text}");
}

#[test]
fn a_segment_without_usable_candidates_fails_the_request_naming_it() {
    let mut world = World::of("n1 n2 n3");
    let states = states(&mut world, &staged(&[(0, "n1|n2")]), &["n1 n2", "n3", "n3"]);
    let world = world.exclude("n3");
    let text = failure(&world, &states, 0);
    assert!(text.contains("'t'") && text.contains("'s1'"), "{text}");
}

#[test]
fn it_never_fails_open() {
    let mut world = World::of("n1 n2").exclude("n1 n2");
    let states = states(&mut world, &staged(&[(0, "n1|n2")]), &["n1 n2"]);
    let fail_open = FailOpen { enabled: true, multi_stage: true, strict: true };
    let request = Request { fail_open, ..Request::all(0) };
    assert!(select(&states, &world.nodes(), &request).is_err());
}

#[test]
fn segments_outside_every_group_are_dropped() {
    let mut world = World::of("n1 n2 n8 n9");
    let states = states(&mut world, &staged(&[(0, "n8|n9")]), &["n1 n2", "n8 n9", "n1 n8"]);
    let selection = choose(&world, &states, 0);
    assert_eq!((world.served(&selection), selection.dropped.as_slice()), ("1>n8 2>n8".into(), &[0][..]));
    // Its node inside a group is not usable: it does not vanish unseen.
    let world = world.exclude("n8");
    assert_eq!(choose(&world, &states, 0).dropped, [0, 2]);
}

#[test]
fn new_segments_do_not_block() {
    let mut world = World::of("n1 n2 n5").disable("n5");
    let pieces = [
        world.piece("n1 n2"),
        world.piece("n5=on/-").aged(seconds(1)),
        world.piece("n1=on/- n2").aged(seconds(1)),
    ];
    let states = world.build(&staged(&[(0, "n1|n2")]), &pieces).unwrap();
    let selection = choose(&world, &states, 0);
    assert_eq!((world.served(&selection), world.optional(&selection)), ("0>n1".into(), "2>n1".into()));
    assert_eq!(selection.new, [1]);
    assert_eq!(served(&world, &states, 1), "0>n2 2>n2");
}

#[test]
fn other_replica_groups_take_effect_without_a_look_at_the_ages() {
    let mut world = World::of("n1 n2 n3");
    let first = staged(&[(0, "n1|n2")]);
    let pieces = [world.piece("n1 n2 n3"), world.piece("n3=on/- n2").aged(seconds(1))];
    let states = world.build(&first, &pieces).unwrap();
    let groups = world.settings("t", &staged(&[(0, "n3|n2")])).replica_groups;
    let states = states.with_replica_groups(&groups, &world.nodes()).unwrap();
    let selection = choose(&world, &states, 0);
    assert_eq!((world.served(&selection), world.optional(&selection)), ("0>n3".into(), "1>n3".into()));
    assert!(states.with_replica_groups(&Default::default(), &world.nodes()).is_err());
}
