//! Collections of one cluster: built, changed, refused, dropped.

use std::{sync::Arc, time::Duration};

use pointsman_ids::{
    CollectionId, ErrorCode, FeedVersion,
    catalog::SelectorKind,
    feed::{CollectionEntry, LoadState},
};
use pointsman_instance_selector::{AdaptiveKind, AdaptiveSettings};
use pointsman_routing::{CoreSettings, RequestIds, RouteRequest, Wanted};

use crate::world::{Seg, World, gaps, names, seg, settings, shape, wanting, young};

fn home(nodes: &str) -> World {
    let mut world = World::new(&["home"]);
    world.join("home", nodes);
    world
}

#[test]
fn a_promoted_segment_that_nobody_is_assigned_to_is_missed_and_one_of_no_target_does_not_exist() {
    let mut world = home("n1");
    let promoted = Seg { promoted: true, ..seg("b", "", "n1") };
    world.put("home", shape("t", &[seg("a", "n1", "n1"), promoted, seg("c", "n1=offline", "n1")])).unwrap();
    let table = world.route("t", 0).unwrap();
    assert_eq!(
        (world.told(&table), gaps(&table)),
        (vec!["a:n1".to_owned()], vec!["b:no_replica_assigned".to_owned()])
    );
    assert_eq!(table.unknown, 0, "a request for everything is for the universe");
    let table =
        world.core.view().route(&wanting("t", &names(&["c", "a", "nowhere", "nowhere", "a"]))).unwrap();
    assert_eq!((world.told(&table), table.unknown), (vec!["a:n1".to_owned()], 2));
    assert_eq!(world.figure("unknown_segments_total", &[("collection", "t")]), Some(2.0));
}

#[test]
fn positions_are_those_of_the_collection_and_keep_the_order_of_the_request() {
    let mut world = home("n1");
    world.put("home", shape("t", &["a", "b", "c"].map(|name| seg(name, "n1", "n1")))).unwrap();
    let request = RouteRequest { segments: Wanted::Positions(&[2, 0, 2, 9]), ..RouteRequest::all("t", 0) };
    let table = world.core.view().route(&request).unwrap();
    assert_eq!((table.parts[0].segments.as_slice(), table.unknown), (&[2, 0][..], 1));
}

#[test]
fn a_change_of_segments_leaves_ages_alone_and_a_change_of_settings_takes_them_from_creation() {
    let mut world = home("n1 n2");
    let settling = |name| Seg { age: Duration::from_hours(1), ..seg(name, "n1", "") };
    world.put("home", shape("t", &[seg("a", "n1", "n1")])).unwrap();
    // What a change brings is as old as the sight of it, and a former one stays what it was.
    world.put("home", shape("t", &[seg("a", "n1", ""), settling("b")])).unwrap();
    let table = world.route("t", 0).unwrap();
    assert_eq!((gaps(&table), table.optional_skipped), (vec!["a:not_loaded".to_owned()], vec![1]));
    let replaced = shape("t", &[seg("a", "n1", ""), settling("b")]).selector(SelectorKind::ReplicaGroup);
    world.put("home", replaced).unwrap();
    assert_eq!(gaps(&world.route("t", 0).unwrap()), ["a:not_loaded", "b:not_loaded"]);
}

#[test]
fn ages_are_looked_at_at_the_next_change_only() {
    let mut world = home("n1");
    world.put("home", shape("t", &[young("a", "n1", "")])).unwrap();
    world.now += Duration::from_mins(5);
    world.put("home", shape("t", &[young("a", "n1", "")])).unwrap();
    assert_eq!(gaps(&world.route("t", 0).unwrap()), [] as [&str; 0], "the end of the window is inside");
    world.now += Duration::from_nanos(1);
    assert_eq!(gaps(&world.route("t", 0).unwrap()), [] as [&str; 0], "time alone changes nothing");
    world.put("home", shape("t", &[young("a", "n1", "")])).unwrap();
    assert_eq!(gaps(&world.route("t", 0).unwrap()), ["a:not_loaded"]);
}

#[test]
fn replica_groups_come_with_the_assignment_and_leave_ages_alone() {
    let mut world = home("n1 n2");
    let stages = |groups: [&str; 2], segments: &[Seg<'static>]| {
        let mut shape = shape("t", segments).selector(SelectorKind::MultiStageReplicaGroup);
        let groups = groups.map(|node| vec![node.parse().unwrap()]);
        shape.routing.replica_groups = [(0, groups.to_vec())].into();
        shape
    };
    world.put("home", stages(["n1", "n2"], &[seg("a", "n1 n2", "n1 n2")])).unwrap();
    assert_eq!(world.served("t", 0), ["a:n1"]);
    let changed = [seg("a", "n1 n2", "n1 n2"), seg("b", "n5", "")];
    world.put("home", stages(["n2", "n1"], &changed)).unwrap();
    assert_eq!(world.served("t", 0), ["a:n2"], "and b is new: it is left out instead of failing the request");
    let error = world.put("home", stages(["n1", "n1"], &changed)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ParameterInvalid);
    assert_eq!(world.served("t", 0), ["a:n2"], "what was routed stays in place");
}

#[test]
fn a_change_counts_when_its_version_is_newer() {
    let mut world = home("n1 n2");
    world.put("home", shape("t", &[seg("a", "n1", "n1")])).unwrap();
    let mut again = world.shaped("home", shape("t", &[seg("a", "n2", "n2")]));
    let newer = again.version;
    again.version = FeedVersion(newer.0 - 1);
    let home = "home".parse().unwrap();
    world.core.set_collection(&home, Arc::new(again.clone()), world.now).unwrap();
    assert_eq!(world.served("t", 0), ["a:n1"]);
    again.version = newer;
    world.core.set_collection(&home, Arc::new(again.clone()), world.now).unwrap();
    assert_eq!(world.served("t", 0), ["a:n2"]);
    // Another collection of the same name, whatever its version.
    let other = CollectionEntry { id: CollectionId(9), version: FeedVersion(0), ..again };
    world
        .core
        .set_collection(
            &home,
            Arc::new(CollectionEntry { segments: imbl::Vector::new(), ..other }),
            world.now,
        )
        .unwrap();
    assert_eq!(world.served("t", 0), [] as [&str; 0]);
}

#[test]
fn what_cannot_be_built_has_no_routing_and_says_why() {
    let adaptive = AdaptiveSettings { kind: AdaptiveKind::Latency, ..AdaptiveSettings::default() };
    let mut world = World::with(CoreSettings { adaptive, ..settings(&["home"]) });
    world.join("home", "n1");
    let mut fixed = shape("t", &[seg("a", "n1", "n1")]);
    fixed.routing.fixed_replica = true;
    let error = world.put("home", fixed.clone()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ParameterInvalid);
    let refused = world.route("t", 0).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CollectionNotLoaded);
    assert!(refused.message().contains("'t'") && refused.message().contains("fixed_replica"), "{refused}");
    world.put("home", shape("other", &[seg("a", "n1", "n1")])).unwrap();
    assert_eq!(world.served("other", 0), ["a:n1"], "others are not affected");
    fixed.routing.fixed_replica = false;
    world.put("home", fixed.clone()).unwrap();
    assert_eq!(world.served("t", 0), ["a:n1"]);
    fixed.routing.fixed_replica = true;
    assert!(world.put("home", fixed).is_err());
    assert_eq!(world.served("t", 0), ["a:n1"], "the former version stays in place");
}

#[test]
fn a_collection_that_nobody_has_or_that_is_not_loaded_has_no_routing() {
    let mut world = home("n1");
    let load = |name, load| crate::world::Shape { load, ..shape(name, &[]) };
    world.put("home", load("loading", LoadState::Loading { percent: 40 })).unwrap();
    world.put("home", load("idle", LoadState::NotLoaded)).unwrap();
    let refused = |name| world.route(name, 0).unwrap_err();
    assert_eq!(refused("loading").code(), ErrorCode::CollectionNotFullyLoaded);
    assert!(refused("loading").message().contains("40%"));
    assert_eq!(refused("idle").code(), ErrorCode::CollectionNotLoaded);
    let unknown = refused("nothing");
    assert_eq!(pointsman_ids::AnswerCode::from(unknown.code()).number(), 410);
    assert!(unknown.message().contains("'nothing'"));
}

#[test]
fn a_dropped_collection_leaves_nothing_and_begins_anew() {
    let mut world = home("n1 n2");
    let t = || shape("t", &[seg("a", "n1 n2", "n1 n2")]);
    world.put("home", t()).unwrap();
    world.served("t", 0);
    assert_eq!(world.figure("replica_percent", &[("collection", "t")]), Some(100.0));
    world.core.drop_collection(&"home".parse().unwrap(), &"t".parse().unwrap()).unwrap();
    assert_eq!(world.figure("replica_percent", &[("collection", "t")]), None);
    assert_eq!(world.figure("selected_segments_total", &[]), None);
    assert!(world.route("t", 0).is_err() && world.core.view().collection("t").is_none());
    world.put("home", t()).unwrap();
    assert_eq!(world.served("t", 1), ["a:n2"]);
    assert_eq!(world.figure("selected_segments_total", &[]), Some(1.0));
}

#[test]
fn every_collection_counts_its_requests_on_its_own_and_over_changes() {
    let mut world = home("n1");
    let put = |world: &mut World, name| world.put("home", shape(name, &[seg("a", "n1", "n1")])).unwrap();
    put(&mut world, "s");
    put(&mut world, "t");
    let next = |world: &World, name: &str| {
        let view = world.core.view();
        view.next_request_id(view.collection(name).unwrap())
    };
    assert_eq!([next(&world, "s"), next(&world, "t"), next(&world, "s")], [0, 0, 1]);
    put(&mut world, "s");
    assert_eq!([next(&world, "s"), next(&world, "t")], [2, 1]);
    let ids = RequestIds::default();
    let view = world.core.view();
    let t = view.collection("t").unwrap();
    assert_eq!([ids.of(view, t), ids.of(view, t)], [2, 2], "all scans of a query share one id");
}

#[test]
fn what_emptied_an_assignment_group_is_named() {
    let mut world = home("n1 n2");
    let segments = [seg("a", "n1 n2", "n1 n2"), seg("b", "n1 n2", "n1=error n2=error"), seg("c", "n1", "n1")];
    world.put("home", shape("t", &segments).selector(SelectorKind::StrictReplicaGroup)).unwrap();
    let table = world.route("t", 0).unwrap();
    assert_eq!(gaps(&table), ["a:group_incomplete", "b:not_loaded"]);
    assert_eq!(table.unavailable[0].emptied_by, Some("b".parse().unwrap()));
    let concerned =
        |at: usize| table.unavailable[at].nodes.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        (concerned(0), concerned(1)),
        (vec!["home/n1".to_owned(), "home/n2".to_owned()], vec!["home/n1".to_owned(), "home/n2".to_owned()])
    );
    assert_eq!(world.told(&table), ["c:n1"]);
}

#[test]
fn segments_of_an_assignment_group_or_of_a_placement_partition_move_together() {
    let mut world = home("n1 n2 n3");
    let segments = [seg("a", "n1 n2", "n1 n2"), seg("b", "n3", "n3"), seg("c", "n1 n2", "n1 n2")];
    let groups = |world: &World| {
        let table = world.route("t", 0).unwrap();
        let node = |at: u32| {
            let part = table.parts.iter().find(|part| part.segments.contains(&at));
            part.map(|part| &part.node.key)
        };
        world.core.view().groups("t", None, [0, 1, 2, 9].map(|at| (at, node(at))))
    };
    let may = |world: &World| world.core.view().may_move_together("t", None);
    assert!(!may(&world), "nobody knows the collection");
    world.put("home", shape("t", &segments)).unwrap();
    assert_eq!((may(&world), groups(&world)), (false, vec![None; 4]));
    world.put("home", shape("t", &segments).selector(SelectorKind::StrictReplicaGroup)).unwrap();
    assert_eq!((may(&world), groups(&world)), (true, vec![Some(0), Some(1), Some(0), None]));
    let mut stages = shape("t", &segments).selector(SelectorKind::MultiStageReplicaGroup);
    let group = |nodes: &str| nodes.split(' ').map(|node| node.parse().unwrap()).collect::<Vec<_>>();
    stages.routing.replica_groups = [(4, vec![group("n1 n3")])].into();
    world.put("home", stages).unwrap();
    assert_eq!((may(&world), groups(&world)), (true, vec![Some(0), Some(0), Some(0), None]));
}
