//! Figures.

use std::collections::BTreeMap;

use pointsman_ids::{GroupNumber, catalog::SelectorKind};
use pointsman_routing::{RouteRequest, SampleKind};

use crate::world::{World, gaps, key, seg, shape};

#[test]
fn nodes_and_replicas_are_gauged_per_cluster_that_runs() {
    let mut world = World::new(&["home", "east"]);
    world.join("home", "n1 n2 n3");
    world.join("east", "n1");
    world.edit(&key("home", "n3"), |entry| entry.enabled = false);
    world.mark("n1");
    world.put("home", shape("t", &[seg("a", "n1 n2", "n1 n2"), seg("b", "n1", "n1")])).unwrap();
    let of = |name: &str, cluster: &str| world.figure(name, &[("cluster", cluster)]);
    assert_eq!((of("enabled_nodes", "home"), of("routable_nodes", "home")), (Some(2.0), Some(1.0)));
    assert_eq!((of("enabled_nodes", "east"), of("routable_nodes", "east")), (Some(1.0), Some(0.0)));
    assert_eq!(
        (of("replica_percent", "home"), of("segments_at_min_replica_percent", "home")),
        (Some(50.0), Some(1.0))
    );
    assert_eq!(
        (of("unavailable_segments", "home"), of("fail_open_eligible_segments", "home")),
        (Some(1.0), Some(1.0))
    );
    assert_eq!(
        (world.figure("unhealthy_nodes", &[]), world.figure("node_exclusions_total", &[])),
        (Some(1.0), Some(1.0))
    );
    world.recover("n1");
    assert_eq!(world.figure("node_inclusions_total", &[("reason", "reported")]), Some(1.0));
    assert_eq!(
        world.figure("replica_percent", &[]),
        Some(100.0),
        "an inclusion is seen without a change of segments"
    );
}

#[test]
fn picks_count_under_pool_and_preference() {
    let mut world = World::new(&["home"]);
    world.join("home", "n1 n2");
    world.edit(&key("home", "n2"), |entry| entry.pool = GroupNumber(3));
    world.put("home", shape("t", &["a", "b", "c"].map(|name| seg(name, "n1 n2", "n1 n2")))).unwrap();
    world.route("t", 0).unwrap();
    let request = RouteRequest { preferred_pools: &[3], ..RouteRequest::all("t", 1) };
    world.core.view().route(&request).unwrap();
    let picks = |pool, preferred| {
        world.figure(
            "selected_segments_total",
            &[("cluster", "home"), ("collection", "t"), ("pool", pool), ("preferred", preferred)],
        )
    };
    assert_eq!((picks("0", "unset"), picks("3", "unset")), (Some(2.0), Some(1.0)));
    assert_eq!((picks("0", "set"), picks("3", "set")), (Some(1.0), Some(2.0)));
}

#[test]
fn a_segment_whose_nodes_stand_outside_every_replica_group_is_counted_and_missed() {
    let mut world = World::new(&["home"]);
    world.join("home", "n1 n8");
    let mut stages = shape("t", &[seg("a", "n1", "n1")]).selector(SelectorKind::MultiStageReplicaGroup);
    stages.routing.replica_groups = [(0, vec![vec!["n8".parse().unwrap()]])].into();
    world.put("home", stages).unwrap();
    assert_eq!(gaps(&world.route("t", 0).unwrap()), ["a:outside_replica_groups"]);
    assert_eq!(world.figure("dropped_segments_total", &[]), Some(1.0));
}

#[test]
fn a_change_of_a_collection_keeps_what_was_counted() {
    let mut world = World::new(&["home"]);
    world.join("home", "n1");
    for selector in [SelectorKind::Balanced, SelectorKind::Balanced, SelectorKind::ReplicaGroup] {
        world.put("home", shape("t", &[seg("a", "n1", "n1")]).selector(selector)).unwrap();
        world.route("t", 0).unwrap();
    }
    assert_eq!(world.figure("selected_segments_total", &[]), Some(3.0));
}

#[test]
fn a_name_stands_for_one_kind_and_its_series_stand_together_and_differ() {
    let mut world = World::new(&["home", "east"]);
    for cluster in ["home", "east"] {
        world.join(cluster, "n1");
        world.put(cluster, shape("s", &[seg("a", "n1", "n1")])).unwrap();
        world.put(cluster, shape("t", &[seg("a", "n1", "n1")])).unwrap();
    }
    drop(world.core.view().sent(&key("home", "n1"), world.now));
    world.mark("n1");
    let samples = world.core.view().samples();
    let mut kinds = BTreeMap::<&str, SampleKind>::new();
    for runs in samples.chunk_by(|one, other| one.name == other.name) {
        assert_eq!(kinds.insert(runs[0].name, runs[0].kind), None, "{} stands twice", runs[0].name);
        assert!(runs.iter().all(|sample| sample.kind == runs[0].kind));
        assert_eq!(runs[0].kind == SampleKind::Counter, runs[0].name.ends_with("_total"));
        let mut labels: Vec<_> = runs.iter().map(|sample| sample.labels.clone()).collect();
        labels.sort();
        labels.dedup();
        assert_eq!(labels.len(), runs.len(), "{}", runs[0].name);
    }
}
