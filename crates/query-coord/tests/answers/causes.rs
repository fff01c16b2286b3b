//! Why a shard is not served: the field, and its short form in messages.

use pointsman_ids::{CollectionId, ErrorCode};
use pointsman_query_coord::answers::{Form, load_percentage, readiness, shard_leaders};

use crate::world::{Lead, Registration, World, lead, two_groups};

/// The causes of the one unready shard, in words.
fn causes(world: &World, group: Option<&str>) -> Vec<String> {
    let verdict = readiness(&world.build().wired(), CollectionId(1), group);
    let [unready] = &verdict.unready_shards[..] else { panic!("{verdict:?}") };
    assert_eq!(unready.shard.as_str(), "a");
    unready.causes.iter().map(ToString::to_string).collect()
}

fn refusal(world: &World, form: Form) -> (ErrorCode, String) {
    let error = shard_leaders(&world.build().wired(), CollectionId(1), form).unwrap_err();
    (error.code(), error.message().to_owned())
}

#[test]
fn each_replica_of_the_group_says_what_it_lacks() {
    let mut world = two_groups();
    assert_eq!(causes(&world, Some("east")), ["replica 1 in 'east': no leader reported"]);
    assert_eq!(
        causes(&world, None),
        ["replica 1 in 'east': no leader reported", "replica 2 in 'west': no leader reported"]
    );
    world.leaders = vec![Lead { serviceable: false, segments: vec![2, 9], ..lead(1) }];
    assert_eq!(causes(&world, Some("east")), ["replica 1 in 'east': leader 1 lacks 2 of 3 segments"]);
    world.leaders = vec![Lead { serviceable: false, ..lead(1) }];
    assert_eq!(causes(&world, Some("east")), ["replica 1 in 'east': leader 1 has no synced view"]);
    world.leaders = vec![lead(1)];
    world.known = vec![2];
    assert_eq!(causes(&world, Some("east")), ["replica 1 in 'east': leader 1 is not known"]);
    world.replicas[0].visible = false;
    assert_eq!(causes(&world, Some("east")), ["replica 1 in 'east': not visible to queries yet"]);
}

#[test]
fn what_an_earlier_process_of_a_node_said_is_of_nobody_who_is_known() {
    let mut world = two_groups();
    world.leaders = vec![lead(1)];
    world.restarted.insert(1);
    assert_eq!(causes(&world, Some("east")), ["replica 1 in 'east': leader 1 is not known"]);
}

#[test]
fn a_strict_refusal_names_shard_and_cause() {
    let mut world = two_groups();
    world.leaders = vec![Lead { serviceable: false, ..lead(2) }];
    let (code, text) = refusal(&world, Form::Strict);
    assert_eq!(code, ErrorCode::ChannelNotAvailable);
    assert_eq!(
        text,
        "shard 'a' of collection 1 has no leader that can serve: replica 1 in 'east': no leader reported; \
         replica 2 in 'west': leader 2 has no synced view"
    );
    world.replicas.clear();
    assert!(refusal(&world, Form::Strict).1.ends_with("can serve: no replica"));
}

#[test]
fn many_causes_are_told_in_short() {
    let mut world = two_groups();
    for id in 3..9 {
        let copy = crate::world::Copy { id, ..world.replicas[0].clone() };
        world.replicas.push(copy);
    }
    let text = refusal(&world, Form::Strict).1;
    assert!(text.ends_with("replica 3 in 'east': no leader reported; and 5 more"), "{text}");
    assert_eq!(causes(&world, None).len(), 8, "the field has all");
}

#[test]
fn an_unfinished_load_says_what_it_waits_for() {
    let mut world = two_groups();
    world.registrations.insert(1, Registration::at(60));
    let (code, text) = refusal(&world, Form::Strict);
    assert_eq!(code, ErrorCode::CollectionNotFullyLoaded);
    assert!(
        text.starts_with("collection 1 is loaded to 60 percent; shard 'a': replica 1 in 'east': no leader"),
        "{text}"
    );
    world.leaders = vec![lead(1)];
    let text = refusal(&world, Form::Strict).1;
    assert!(
        text.ends_with("every shard has a leader that can serve; segments are still being loaded"),
        "{text}"
    );
    let first = world.current.remove(&1).unwrap();
    assert!(refusal(&world, Form::Strict).1.contains("a target is still to be made"));
    world.leaders[0].serviceable = false;
    world.next.insert(1, first);
    let text = refusal(&world, Form::Strict).1;
    assert!(text.ends_with("shard 'a': replica 1 in 'east': leader 1 has no synced view; replica 2 in 'west': no leader reported"), "{text}");
}

#[test]
fn a_recovering_collection_says_what_it_waits_for() {
    let mut world = two_groups();
    let target = world.current.remove(&1).unwrap();
    for form in [Form::Strict, Form::Loose] {
        let (code, text) = refusal(&world, form);
        assert_eq!(code, ErrorCode::CollectionOnRecovering);
        assert!(
            text.contains("collection 1 recovers") && text.contains("a target is still to be made"),
            "{text}"
        );
    }
    world.next.insert(1, target);
    let text = refusal(&world, Form::Loose).1;
    assert!(text.contains("shard 'a': replica 1 in 'east': no leader reported"), "{text}");
}

#[test]
fn an_unknown_group_is_told_with_those_that_there_are() {
    let error = load_percentage(&two_groups().build().wired(), CollectionId(1), Some("wset\n")).unwrap_err();
    assert_eq!(error.message(), r"there is no resource group 'wset\n'; there are: default, east, west");
}
