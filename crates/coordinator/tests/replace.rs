//! Old segments out and new ones in: whoever follows the feed sees either all of the old ones or all of the new ones.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;
mod faulty;

use std::{collections::BTreeSet, sync::Arc};

use cluster::*;
use faulty::{Fault, Faulty};
use pointsman_ids::{Error, ErrorCode, feed::Snapshot};
use pointsman_proto::{coordinator::v1 as pb, error};

fn segment(cluster: &Cluster, name: &str, partition: &str) -> pb::Segment {
    pb::Segment { partition: partition.into(), ..cluster.segment("t", name, 3) }
}

/// A replacement in collection `t`; the new segments name this partition.
fn request(cluster: &Cluster, old: &[&str], new: &[&str], partition: &str) -> pb::ReplaceSegmentsRequest {
    pb::ReplaceSegmentsRequest {
        collection: "t".into(),
        old: old.iter().map(|name| (*name).to_owned()).collect(),
        new: new.iter().map(|name| segment(cluster, name, partition)).collect(),
        check_only: false,
    }
}

async fn replace(
    coordinator: &Coordinator,
    request: pb::ReplaceSegmentsRequest,
) -> Result<pb::ReplaceSegmentsResponse, Error> {
    let answer = coordinator.catalog().replace_segments(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| error(&status))
}

/// Names of the segments that queries see.
fn seen(snapshot: &Snapshot) -> BTreeSet<&str> {
    let segments = snapshot.collection("t").into_iter().flat_map(|collection| &collection.segments);
    segments.map(|segment| segment.name.as_str()).collect()
}

/// Names of all segments of the catalog.
async fn listed(coordinator: &Coordinator) -> Vec<String> {
    let request = pb::ListSegmentsRequest { collection: "t".into(), ..Default::default() };
    let answer = coordinator.catalog().list_segments(request).await.unwrap().into_inner();
    answer.segments.into_iter().map(|segment| segment.name).collect()
}

/// Waits until queries see a target, and gives the snapshots on the way.
async fn served(coordinator: &Coordinator, version: u64) {
    let reached = || async {
        let shown = coordinator.show("t").await.unwrap();
        (shown.current_version >= version).then_some(())
    };
    until("the target", reached).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_and_new_segments_change_places_in_one_version_of_the_feed() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let _east = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let _west = Hello::new("n2", "west").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    let first = ["a0", "b0", "keep"].map(|name| segment(&cluster, name, "")).to_vec();
    coordinator.push("t", first).await.unwrap();
    coordinator.load("t", &["east", "west"]).await.unwrap();
    coordinator.loaded("t").await;
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let generation = |round: usize| [format!("a{round}"), format!("b{round}")];
    let lawful = |snapshot: &Snapshot, upto: usize| {
        let now = seen(snapshot);
        let is = |round: usize| {
            let [a, b] = generation(round);
            now == BTreeSet::from([a.as_str(), b.as_str(), "keep"])
        };
        (0..=upto).rev().find(|round| is(*round)).unwrap_or_else(|| panic!("a mix: {now:?}"))
    };
    for round in 1..=8 {
        let (old, new) = (generation(round - 1), generation(round));
        // Every second time the new ones go to a partition that nobody heard of.
        let partition = if round % 2 == 0 { format!("p{round}") } else { String::new() };
        let (old, new) = (old.each_ref().map(String::as_str), new.each_ref().map(String::as_str));
        let made = request(&cluster, &old, &new, &partition);
        let answer = replace(&coordinator, made.clone()).await.unwrap();
        assert!(answer.replaced && answer.target_version > 0);
        served(&coordinator, answer.target_version).await;
        // The same again is done already, and is seen with the same target.
        let again = replace(&coordinator, made).await.unwrap();
        assert_eq!((again.replaced, again.target_version), (false, answer.target_version));
        loop {
            let snapshot = watch.next().await.unwrap();
            if lawful(&snapshot, round) == round {
                break;
            }
        }
    }
    until("the objects to go", || async { (!cluster.has_object("t/a0.parquet")).then_some(()) }).await;
    assert!(cluster.has_object("t/a8.parquet") && cluster.has_object("t/keep.parquet"));
    assert_eq!(listed(&coordinator).await, ["a8", "b8", "keep"]);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_by_name_and_changes_nothing() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    coordinator.create("t").await.unwrap();
    let pushed = vec![segment(&cluster, "a", "p"), segment(&cluster, "b", "q")];
    coordinator.push("t", pushed).await.unwrap();
    let make = |old: &[&str], new: &[&str], partition: &str| request(&cluster, old, new, partition);
    let mut lost = make(&["a"], &["x"], "");
    lost.new[0].object = "t/nowhere.parquet".into();
    let unknown = pb::ReplaceSegmentsRequest { collection: "u".into(), ..make(&["a"], &["x"], "") };
    for (made, code, words) in [
        (make(&[], &["x"], ""), ErrorCode::ParameterMissing, "at least one old and one new segment"),
        (make(&["a"], &[], ""), ErrorCode::ParameterMissing, "at least one old and one new segment"),
        (make(&["a", "a"], &["x"], ""), ErrorCode::ParameterInvalid, "segment 'a' is to go twice"),
        (make(&["a"], &["x", "x"], ""), ErrorCode::ParameterInvalid, "segment 'x': it stands twice"),
        (make(&["a"], &["a"], ""), ErrorCode::ParameterInvalid, "segment 'a' is both old and new"),
        (make(&["a", "y", "z"], &["x"], ""), ErrorCode::SegmentNotFound, "has no segments 'y', 'z'"),
        (make(&["a"], &["b", "x"], ""), ErrorCode::ParameterInvalid, "has segment 'b' already"),
        (make(&["a", "b"], &["x"], ""), ErrorCode::ParameterInvalid, "lie in partitions p, q"),
        (lost, ErrorCode::ParameterInvalid, "segment 'x'"),
        (unknown, ErrorCode::CollectionNotFound, "'u'"),
    ] {
        let refused = replace(&coordinator, made.clone()).await.unwrap_err();
        assert!(refused.code() == code && refused.message().contains(words), "{made:?}: {refused}");
        assert_eq!(listed(&coordinator).await, ["a", "b"], "{made:?}");
    }
    // A look changes nothing, and needs no object.
    let mut look = make(&["a", "b"], &["x"], "p");
    look.check_only = true;
    look.new[0].object = "t/later.parquet".into();
    assert!(replace(&coordinator, look).await.unwrap().replaced);
    assert_eq!(listed(&coordinator).await, ["a", "b"]);
    // What is not loaded is replaced in the catalog alone.
    let answer = replace(&coordinator, make(&["a", "b"], &["x"], "p")).await.unwrap();
    assert_eq!((answer.replaced, answer.target_version), (true, 0));
    assert_eq!(listed(&coordinator).await, ["x"]);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_loaded_is_not_replaced_by_what_is_not() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let _node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    let pushed = vec![segment(&cluster, "a", "p"), segment(&cluster, "b", "q")];
    coordinator.push("t", pushed).await.unwrap();
    let partitions = vec!["p".to_owned()];
    let resource_groups = vec!["east".to_owned()];
    let load = pb::LoadPartitionsRequest {
        collection: "t".into(),
        partitions,
        resource_groups,
        ..Default::default()
    };
    coordinator.loads().load_partitions(load).await.unwrap();
    coordinator.loaded("t").await;
    let refused = replace(&coordinator, request(&cluster, &["a"], &["x"], "q")).await.unwrap_err();
    assert!(refused.message().contains("partition 'q', which is not loaded"), "{refused}");
    assert_eq!(listed(&coordinator).await, ["a", "b"]);
    // The other way round it only becomes more.
    let answer = replace(&coordinator, request(&cluster, &["b"], &["x"], "p")).await.unwrap();
    served(&coordinator, answer.target_version).await;
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    watch.until(|snapshot| seen(snapshot) == BTreeSet::from(["a", "x"])).await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_whose_fate_is_unknown_was_made_whole_or_not_at_all() {
    for (fault, was_made) in [(Fault::Away, false), (Fault::Cut, true)] {
        let cluster = Cluster::new();
        let faulty = Faulty::new(cluster.metastore().await);
        let coordinator = cluster.start_over(cluster.settings("c1"), Arc::new(faulty.clone())).await;
        coordinator.is_active().await;
        let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
        coordinator.create("t").await.unwrap();
        coordinator.push("t", vec![segment(&cluster, "a", ""), segment(&cluster, "b", "")]).await.unwrap();
        coordinator.load("t", &["east"]).await.unwrap();
        coordinator.loaded("t").await;
        faulty.set(fault);
        let made = request(&cluster, &["a", "b"], &["x"], "");
        let unknown = replace(&coordinator, made.clone()).await.unwrap_err();
        assert!(unknown.is_retriable(), "{fault:?}: {unknown}");
        // The coordinator dies with it, and the next one goes by what is stored.
        node.kill().await;
        coordinator.kill().await;
        let coordinator = cluster.active().await;
        let _node = Hello { incarnation: 2, ..Hello::new("n1", "east") }.connect(&coordinator).await.unwrap();
        let stored = listed(&coordinator).await;
        assert_eq!(stored, if was_made { vec!["x"] } else { vec!["a", "b"] }, "{fault:?}");
        let answer = replace(&coordinator, made).await.unwrap();
        assert_eq!(answer.replaced, !was_made, "{fault:?}");
        let mut watch = coordinator.watch("b1", 0).await.unwrap();
        loop {
            let snapshot = watch.next().await.unwrap();
            match seen(&snapshot) {
                now if now == BTreeSet::from(["x"]) => break,
                now => assert!(now.is_empty() || now == BTreeSet::from(["a", "b"]), "{fault:?}: {now:?}"),
            }
        }
        coordinator.stop().await.unwrap();
    }
}
