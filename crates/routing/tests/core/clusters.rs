//! One collection in several clusters.

use std::{collections::BTreeSet, time::Duration};

use pointsman_ids::{ErrorCode, GroupName, GroupNumber, catalog::SelectorKind, feed::GroupEntry};
use pointsman_routing::{RouteRequest, Wanted};

use crate::world::{Shape, World, gaps, key, names, seg, settings, shape, wanting, young};

/// A collection that spans the clusters, with one segment in each, on a node `n1` of each.
fn spanning(clusters: &[&'static str]) -> World {
    let mut world = World::new(clusters);
    let all = clusters.join(" ");
    for (cluster, name) in clusters.iter().zip(["a", "b", "c"]) {
        world.join(cluster, "n1");
        let part = Shape { clusters: &all, ..shape("t", &[seg(name, "n1", "n1")]) };
        world.put(cluster, part).unwrap();
    }
    world
}

#[test]
fn parts_are_merged_by_cluster_and_node() {
    let world = spanning(&["home", "east", "west"]);
    let table = world.route("t", 0).unwrap();
    assert_eq!(world.told(&table), ["a:n1", "b:east/n1", "c:west/n1"]);
    let nodes: Vec<_> = table.parts.iter().map(|part| part.node.key.to_string()).collect();
    assert_eq!(nodes, ["east/n1", "home/n1", "west/n1"], "three nodes of one name");
    let urls: BTreeSet<_> = table.parts.iter().map(|part| &part.node.url).collect();
    assert_eq!(urls.len(), 3);
}

#[test]
fn positions_run_over_the_parts_local_first_in_the_order_of_the_clusters() {
    let world = spanning(&["home", "east", "west"]);
    let view = world.core.view();
    let entry = view.collection("t").unwrap();
    let segments: Vec<_> = entry.segments.iter().map(|segment| segment.name.to_string()).collect();
    assert_eq!(segments, ["a", "b", "c"]);
    let parts: Vec<_> = view.parts("t").map(|(cluster, range)| (cluster.to_string(), range)).collect();
    assert_eq!(parts, [("home".to_owned(), 0..1), ("east".to_owned(), 1..2), ("west".to_owned(), 2..3)]);
    let request = RouteRequest { segments: Wanted::Positions(&[2, 0, 7]), ..RouteRequest::all("t", 0) };
    let table = view.route(&request).unwrap();
    assert_eq!((world.told(&table), table.unknown), (vec!["a:n1".to_owned(), "c:west/n1".to_owned()], 1));
}

#[test]
fn a_segment_that_another_part_knows_is_not_unknown() {
    let world = spanning(&["home", "east"]);
    let list = names(&["b", "nowhere", "a"]);
    let table = world.core.view().route(&wanting("t", &list)).unwrap();
    assert_eq!((world.told(&table), table.unknown), (vec!["a:n1".to_owned(), "b:east/n1".to_owned()], 1));
    assert_eq!(world.figure("unknown_segments_total", &[]), Some(1.0));
}

#[test]
fn the_local_catalog_says_which_clusters_a_collection_spans() {
    let mut world = World::new(&["home", "east"]);
    world.join("home", "n1");
    world.join("east", "n1");
    world.put("home", shape("t", &[seg("a", "n1", "n1")])).unwrap();
    world.put("east", shape("t", &[seg("b", "n1", "n1")])).unwrap();
    world.put("east", shape("far", &[seg("c", "n1", "n1")])).unwrap();
    assert_eq!(world.served("t", 0), ["a:n1"], "not said: the local one alone");
    assert_eq!(world.served("far", 0), ["c:east/n1"], "not known there: wherever it is");
}

#[test]
fn a_cluster_that_never_connected_is_missed_and_stops_nobody() {
    let mut world = World::down(settings(&["home", "east"]));
    let home = "home".parse().unwrap();
    world.core.start_cluster(&home, vec![], world.now).unwrap();
    world.join("home", "n1");
    let part = Shape { clusters: "home east north", ..shape("t", &[seg("a", "n1", "n1")]) };
    world.put("home", part).unwrap();
    let missing = |world: &World| {
        let table = world.route("t", 0).unwrap();
        assert_eq!(world.told(&table)[0], "a:n1");
        table.missing.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(missing(&world), ["east", "north"]);
    let nodes = vec![world.entry("east", "e1")];
    world.core.start_cluster(&"east".parse().unwrap(), nodes, world.now).unwrap();
    assert_eq!(missing(&world), ["north"]);
    world.put("east", shape("t", &[seg("b", "e1", "e1")])).unwrap();
    assert_eq!(world.served("t", 0), ["a:n1", "b:east/e1"]);
}

#[test]
fn a_remote_part_that_cannot_be_chosen_is_unavailable_and_an_error_of_the_local_part_fails() {
    let mut world = spanning(&["home", "east"]);
    let groups = |name: &str| vec![GroupEntry { number: GroupNumber(0), name: name.parse().unwrap() }];
    world.core.set_groups(&"home".parse().unwrap(), groups("gold")).unwrap();
    world.core.set_groups(&"east".parse().unwrap(), groups("other")).unwrap();
    let within = |group: &str| {
        let group: GroupName = group.parse().unwrap();
        let request = RouteRequest { resource_group: Some(&group), ..RouteRequest::all("t", 0) };
        world.core.view().route(&request)
    };
    let table = within("gold").unwrap();
    assert_eq!((world.told(&table), gaps(&table)[0].split(':').next()), (vec!["a:n1".to_owned()], Some("b")));
    let (cluster, error) = &table.refused[0];
    assert_eq!((cluster.as_str(), error.code()), ("east", ErrorCode::ResourceGroupNotFound));
    assert_eq!(table.unavailable[0].segment, 1);
    assert_eq!(within("other").unwrap_err().code(), ErrorCode::ResourceGroupNotFound);
    assert_eq!(within("nowhere").unwrap_err().code(), ErrorCode::ResourceGroupNotFound);
}

#[test]
fn options_that_make_no_sense_are_refused_whoever_has_the_collection() {
    let mut world = World::new(&["home", "east"]);
    world.join("east", "n1");
    world.put("east", shape("t", &[seg("a", "n1", "n1")])).unwrap();
    for num_replica_groups in [0, -1] {
        let request = RouteRequest { num_replica_groups, ..RouteRequest::all("t", 0) };
        let error = world.core.view().route(&request).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ParameterInvalid);
    }
}

#[test]
fn nodes_that_failed_in_the_query_are_those_of_one_cluster() {
    let world = spanning(&["home", "east"]);
    let without = BTreeSet::from([key("east", "n1")]);
    let request = RouteRequest { without: &without, ..RouteRequest::all("t", 0) };
    let table = world.core.view().route(&request).unwrap();
    assert_eq!(
        (world.told(&table), gaps(&table)),
        (vec!["a:n1".to_owned()], vec!["b:retries_used_up".to_owned()])
    );
}

#[test]
fn only_configured_clusters_are_taken_and_each_once() {
    let mut world = World::new(&["home"]);
    let error = world.core.set_nodes(&"far".parse().unwrap(), vec![], Duration::ZERO).unwrap_err();
    assert!(error.message().contains("'far'") && error.message().contains("'home'"), "{error}");
    assert!(pointsman_routing::Core::new(settings(&[])).is_err());
    assert!(pointsman_routing::Core::new(settings(&["a", "b", "a"])).is_err());
}

#[test]
fn of_a_remote_part_that_cannot_be_chosen_new_segments_are_not_missed() {
    let mut world = World::new(&["home", "east"]);
    world.join("home", "n1");
    world.join("east", "n1 n2");
    world.put("home", Shape { clusters: "home east", ..shape("t", &[seg("a", "n1", "n1")]) }).unwrap();
    let torn = [seg("b", "n1", "n1"), seg("c", "n2", "n2"), seg("d", "n1", "n1=error"), young("e", "n1", "")];
    let mut stages = shape("t", &torn).selector(SelectorKind::MultiStageReplicaGroup);
    let group = |node: &str| vec![node.parse().unwrap()];
    stages.routing.replica_groups = [(0, vec![group("n1"), group("n2")])].into();
    world.put("east", stages).unwrap();
    let table = world.route("t", 0).unwrap();
    assert_eq!(world.told(&table), ["a:n1"]);
    assert_eq!(gaps(&table), ["b:group_incomplete", "c:group_incomplete", "d:not_loaded"]);
    assert_eq!(table.refused[0].1.code(), ErrorCode::SegmentsUnavailable);
}

#[test]
fn a_part_that_could_not_be_built_is_missed_in_a_remote_cluster_and_fails_at_home() {
    let mut world = World::new(&["home", "east"]);
    world.join("home", "n1");
    world.join("east", "n1");
    let wrong = |name| {
        let mut part =
            Shape { clusters: "home east", ..shape("t", &[seg(name, "n1", "n1"), seg("z", "", "n1")]) };
        part.routing.consistent_replicas = true;
        part
    };
    assert!(world.put("east", wrong("b")).is_err());
    world.put("home", Shape { clusters: "home east", ..shape("t", &[seg("a", "n1", "n1")]) }).unwrap();
    let table = world.route("t", 0).unwrap();
    assert_eq!(
        (world.told(&table), gaps(&table)),
        (vec!["a:n1".to_owned()], vec!["b:not_loaded".to_owned()])
    );
    world.core.drop_collection(&"home".parse().unwrap(), &"t".parse().unwrap()).unwrap();
    assert!(world.put("home", wrong("a")).is_err());
    assert_eq!(world.route("t", 0).unwrap_err().code(), ErrorCode::CollectionNotLoaded);
}

#[test]
fn of_a_part_that_cannot_be_chosen_every_named_segment_is_in_one_place() {
    let mut world = World::new(&["home", "east"]);
    world.join("home", "n1");
    world.join("east", "n1");
    world.put("home", Shape { clusters: "home east", ..shape("t", &[seg("a", "n1", "n1")]) }).unwrap();
    let torn = [seg("b", "n1", "n1=error"), seg("c", "n1=offline", "n1"), young("d", "n1", "")];
    let mut stages = shape("t", &torn).selector(SelectorKind::MultiStageReplicaGroup);
    stages.routing.replica_groups = [(0, vec![vec!["n1".parse().unwrap()]])].into();
    world.put("east", stages).unwrap();
    let list = names(&["a", "b", "c", "d", "zz"]);
    let table = world.core.view().route(&wanting("t", &list)).unwrap();
    assert_eq!((gaps(&table), &table.new, table.unknown), (vec!["b:not_loaded".to_owned()], &vec![3], 2));
    assert_eq!(world.figure("unknown_segments_total", &[("collection", "t")]), Some(2.0));
    let dropped = |world: &mut World, cluster: &str| {
        world.core.drop_collection(&cluster.parse().unwrap(), &"t".parse().unwrap()).unwrap();
        world.figure("unknown_segments_total", &[])
    };
    assert_eq!(dropped(&mut world, "home"), Some(2.0), "the collection is not gone");
    assert_eq!(dropped(&mut world, "east"), None);
}
