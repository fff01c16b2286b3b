//! Snapshots and deltas of the feed.

use std::sync::Arc;

use pointsman_ids::{
    ErrorCode, FeedVersion, NodeId,
    feed::{CollectionEntry, Delta, Snapshot},
};

use crate::world::{Shape, World, gaps, seg, settings, shape};

struct Feed {
    world: World,
    snapshot: Snapshot,
}

impl Feed {
    /// A cluster of three nodes at version 0.
    fn new() -> Self {
        let mut world = World::down(settings(&["home", "east"]));
        let nodes = ["n1", "n2", "n3"].map(|node| world.entry("home", node)).to_vec();
        Self { world, snapshot: Snapshot { nodes, ..Snapshot::empty("home".parse().unwrap()) } }
    }

    /// The next version, with these collections.
    fn next(&mut self, collections: &[Shape<'_>]) -> Snapshot {
        self.snapshot.version.0 += 1;
        let entries = collections.iter().map(|shape| Arc::new(self.world.shaped("home", shape.clone())));
        self.snapshot.collections = entries.collect();
        self.snapshot.clone()
    }

    fn apply(&mut self, snapshot: Snapshot) {
        self.world.core.apply(snapshot, self.world.now).unwrap();
    }
}

fn t<'a>(node: &'a str) -> Shape<'a> {
    shape("t", &[seg("a", node, node), seg("b", "n3", "n3")])
}

#[test]
fn the_first_snapshot_starts_the_manager_and_an_older_one_changes_nothing() {
    let mut feed = Feed::new();
    let first = feed.next(&[t("n1")]);
    let second = feed.next(&[t("n2")]);
    feed.apply(second);
    let before = feed.world.core.view().clone();
    feed.apply(first);
    assert!(Arc::ptr_eq(&before, feed.world.core.view()));
    assert_eq!(feed.world.served("t", 0), ["a:n2", "b:n3"]);
    assert_eq!(feed.world.core.view().snapshot().version, FeedVersion(2));
}

#[test]
fn a_snapshot_of_another_cluster_is_refused_and_changes_nothing() {
    let mut feed = Feed::new();
    let first = feed.next(&[t("n1")]);
    feed.apply(first.clone());
    let far = Snapshot { cluster: "far".parse().unwrap(), version: FeedVersion(9), ..first };
    let error = feed.world.core.apply(far, feed.world.now).unwrap_err();
    assert!(error.message().contains("'far'") && error.message().contains("'home'"), "{error}");
    assert_eq!(feed.world.served("t", 0), ["a:n1", "b:n3"]);
}

#[test]
fn what_did_not_change_is_shared_down_to_the_segment() {
    let mut feed = Feed::new();
    let s = || shape("s", &[seg("a", "n1", "n1")]);
    let first = feed.next(&[s(), t("n1")]);
    feed.apply(first);
    let before = feed.world.core.view().clone();
    let kept = feed.snapshot.collections[0].clone();
    let mut second = feed.next(&[t("n2")]);
    // The same content, read from the wire again.
    second.collections.insert(0, Arc::new(CollectionEntry::clone(&kept)));
    feed.apply(second);
    let after = feed.world.core.view();
    let entry = |view: &pointsman_routing::RoutingView, name: &str| view.collection(name).unwrap().clone();
    assert!(Arc::ptr_eq(&entry(&before, "s"), &entry(after, "s")));
    let segment = |view, at: usize| entry(view, "t").segments[at].clone();
    assert!(Arc::ptr_eq(&segment(&before, 1), &segment(after, 1)));
    assert!(!Arc::ptr_eq(&segment(&before, 0), &segment(after, 0)));
}

#[test]
fn a_delta_leads_on_the_same_again_changes_nothing_and_a_gap_is_refused() {
    let mut feed = Feed::new();
    let versions = [t("n1"), t("n2"), t("n3")].map(|shape| feed.next(&[shape]));
    feed.apply(versions[0].clone());
    let delta = Delta::between(&versions[0], &versions[1]);
    let late = Delta::between(&versions[1], &versions[2]);
    let error = feed.world.core.apply_delta(&late, feed.world.now).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ParameterInvalid);
    assert_eq!(feed.world.served("t", 0), ["a:n1", "b:n3"]);
    feed.world.core.apply_delta(&delta, feed.world.now).unwrap();
    assert_eq!(feed.world.served("t", 0), ["a:n2", "b:n3"]);
    let before = feed.world.core.view().clone();
    feed.world.core.apply_delta(&delta, feed.world.now).unwrap();
    assert!(Arc::ptr_eq(&before, feed.world.core.view()));
    feed.world.core.apply_delta(&late, feed.world.now).unwrap();
    assert_eq!(feed.world.served("t", 0), ["a:n3", "b:n3"]);
    assert!(
        feed.world
            .core
            .apply_delta(&Delta { cluster: "east".parse().unwrap(), ..late }, feed.world.now)
            .is_err()
    );
}

#[test]
fn a_collection_that_cannot_be_taken_stops_no_other_and_is_tried_again() {
    let mut feed = Feed::new();
    let mut wrong = t("n2");
    wrong.routing.consistent_replicas = true;
    let s = |node| shape("s", &[seg("a", node, node)]);
    let first = feed.next(&[s("n1"), t("n1")]);
    feed.apply(first);
    let second = feed.next(&[s("n2"), wrong]);
    feed.apply(second);
    assert_eq!(feed.world.served("s", 0), ["a:n2"]);
    assert_eq!(feed.world.served("t", 0), ["a:n1", "b:n3"], "the former version stays in place");
    assert!(!feed.world.core.view().collection("t").unwrap().routing.consistent_replicas);
    let before = feed.snapshot.clone();
    let third = feed.next(&[s("n2"), t("n3")]);
    feed.world.core.apply_delta(&Delta::between(&before, &third), feed.world.now).unwrap();
    assert_eq!(feed.world.served("t", 0), ["a:n3", "b:n3"]);
}

#[test]
fn copies_of_a_node_that_nobody_has_named_count_once_it_is_known() {
    let mut feed = Feed::new();
    let mut first = feed.next(&[t("n1")]);
    let rename = |entry: &mut CollectionEntry| {
        let mut segment = (*entry.segments[0]).clone();
        segment.copies[0].node = NodeId(77);
        segment.promoted = true;
        entry.segments.set(0, Arc::new(segment));
    };
    rename(Arc::make_mut(&mut first.collections[0]));
    feed.apply(first.clone());
    assert_eq!(gaps(&feed.world.route("t", 0).unwrap()), ["a:no_replica_assigned"]);
    let mut second = first;
    second.version.0 += 1;
    second.nodes.push(pointsman_ids::feed::NodeEntry { id: NodeId(77), ..feed.world.entry("home", "n7") });
    feed.apply(second);
    assert_eq!(feed.world.served("t", 0), ["a:n7", "b:n3"]);
}

#[test]
fn ids_of_former_processes_are_forgotten_and_those_that_copies_name_are_kept() {
    let mut feed = Feed::new();
    let mut first = feed.next(&[shape("t", &[seg("a", "n9", "n9")])]);
    feed.apply(first.clone());
    for restart in 0..5_000 {
        first.version.0 += 1;
        first.nodes[0].id = NodeId(100 + restart);
        first.nodes[0].incarnation.0 += 1;
        feed.apply(first.clone());
    }
    first.version.0 += 1;
    first.nodes.push(feed.world.entry("home", "n9"));
    feed.apply(first);
    assert_eq!(feed.world.served("t", 0), ["a:n9"]);
}
