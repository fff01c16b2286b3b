//! The synchronous core: snapshots and events in, views and probes out.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use pointsman_failure_detector::{Detector, Event, Inclusion, Key, Settings};
use pointsman_ids::{
    ErrorCode, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, UnavailableCause,
    feed::{GroupEntry, LoadState, ReplicaEntry},
};
use pointsman_routing::{Core, RequestIds, SelectOptions};

use crate::values::{collection, key, name, node, nodes, snapshot};

const NOW: Duration = Duration::from_secs(1);

fn core() -> Core {
    Core::new("local".parse().unwrap(), Detector::new(Settings::default()).unwrap())
}

fn applied(first: pointsman_ids::feed::Snapshot) -> Core {
    let mut core = core();
    core.apply(first, NOW).unwrap();
    core
}

fn failed(id: u64, incarnation: u64) -> Event {
    Event::Failed {
        key: Key::Node(key(&format!("n{id}"))),
        incarnation: Some(Incarnation(incarnation)),
        evidence: "connection reset".into(),
    }
}

/// Names of the nodes that all segments of a collection go to, in the order of the segments.
fn chosen(core: &Core, collection: &str, request_id: u64) -> Vec<String> {
    let view = core.view();
    let entry = view.collection(collection).unwrap();
    let segments: Vec<u32> = (0..).take(entry.segments.len()).collect();
    let selection = view.select(entry, &segments, &SelectOptions::new(request_id, &BTreeSet::new())).unwrap();
    let mut picks: Vec<_> = (selection.parts())
        .flat_map(|(node, part)| part.iter().map(move |segment| (*segment, node)))
        .map(|(segment, node)| (segment, view.node(node).key.node.to_string()))
        .collect();
    picks.sort();
    picks.into_iter().map(|(_, node)| node).collect()
}

#[test]
fn an_exclusion_is_in_the_next_view_and_leaves_the_former_alone() {
    let mut core = applied(snapshot(1, nodes(2), vec![collection("t", 1, 4, &[1, 2])]));
    let before = core.view().clone();
    assert_eq!(chosen(&core, "t", 0), ["n1", "n2", "n1", "n2"]);
    assert!(core.handle(failed(1, 1), NOW).is_empty());
    assert_eq!(chosen(&core, "t", 0), ["n2"; 4]);
    assert!(before.is_routable(&name("n1")) && !core.view().is_routable(&name("n1")));
    assert_eq!(core.view().exclusions()[&name("n1")].evidence, "connection reset");
    assert_eq!(core.view().node_counts(), (2, 1));
    let at = core.next_wakeup().unwrap();
    assert_eq!(core.handle(Event::Tick, at), [Key::Node(key("n1"))]);
}

#[test]
fn nodes_that_failed_under_a_query_are_left_out_of_leaves_and_stages() {
    let core = applied(snapshot(1, nodes(2), vec![collection("t", 1, 2, &[1, 2])]));
    let (view, without) = (core.view(), BTreeSet::from([key("n1")]));
    let stages: Vec<_> = view.stage_nodes(&without).into_iter().map(|node| node.key).collect();
    assert_eq!(stages, [key("n2")]);
    let both = BTreeSet::from([key("n1"), key("n2")]);
    let entry = view.collection("t").unwrap();
    let selection = view.select(entry, &[0, 1], &SelectOptions::new(0, &both)).unwrap();
    assert_eq!(selection.unavailable, [0, 1].map(|segment| (segment, UnavailableCause::RetriesUsedUp)));
    assert_eq!(view.nodes_of(entry, 0), [key("n1"), key("n2")]);
    let elsewhere = BTreeSet::from([pointsman_ids::NodeKey { cluster: "far".parse().unwrap(), ..key("n1") }]);
    assert_eq!(
        view.stage_nodes(&elsewhere).len(),
        2,
        "a node of the same name in another cluster is another node"
    );
}

#[test]
fn what_a_snapshot_does_not_change_stays_the_same_pointer() {
    let both = |t| vec![collection("s", 1, 3, &[1]), collection("t", t, 3, &[1])];
    let mut core = applied(snapshot(1, nodes(2), both(1)));
    let before = core.view().clone();
    core.apply(snapshot(2, nodes(2), both(2)), NOW).unwrap();
    let same = |name| Arc::ptr_eq(before.collection(name).unwrap(), core.view().collection(name).unwrap());
    assert!(same("s") && !same("t"));
    assert_eq!(core.view().snapshot().version, FeedVersion(2));
}

#[test]
fn nodes_may_come_and_go_between_the_names_of_others() {
    let t = || vec![collection("t", 1, 3, &[2, 3])];
    let mut core = applied(snapshot(1, vec![nodes(3).remove(1), nodes(3).remove(2)], t()));
    assert_eq!(chosen(&core, "t", 0), ["n2", "n3", "n2"]);
    core.apply(snapshot(2, nodes(3), t()), NOW).unwrap();
    assert_eq!(chosen(&core, "t", 0), ["n2", "n3", "n2"]);
    core.apply(snapshot(3, vec![nodes(3).remove(2)], t()), NOW).unwrap();
    assert_eq!(chosen(&core, "t", 0), ["n3"; 3]);
}

#[test]
fn an_older_snapshot_and_one_of_another_cluster_change_nothing() {
    let mut core = applied(snapshot(5, nodes(1), vec![]));
    core.apply(snapshot(5, nodes(3), vec![]), NOW).unwrap();
    core.apply(snapshot(4, nodes(3), vec![]), NOW).unwrap();
    assert_eq!(core.view().node_counts(), (1, 1));
    let mut other = snapshot(6, nodes(3), vec![]);
    other.cluster = "far".parse().unwrap();
    let error = core.apply(other, NOW).unwrap_err();
    assert!(error.to_string().contains("'far'") && error.to_string().contains("'local'"), "{error}");
    assert_eq!(core.view().node_counts(), (1, 1));
}

#[test]
fn a_node_that_starts_anew_has_a_clean_record_and_late_reports_do_not_touch_it() {
    let mut core = applied(snapshot(1, nodes(1), vec![]));
    core.handle(failed(1, 1), NOW);
    let mut restarted = node(1, "http://127.0.0.1:1");
    (restarted.id, restarted.incarnation) = (NodeId(9), Incarnation(2));
    core.apply(snapshot(2, vec![restarted], vec![]), NOW).unwrap();
    core.handle(failed(1, 1), NOW);
    assert!(core.view().is_routable(&name("n1")));
    assert_eq!(core.view().counters().stale_reports, 1);
    assert_eq!(core.view().counters().inclusions[&Inclusion::ReEnabled], 1);
}

#[test]
fn a_disabled_node_gets_nothing_and_one_that_left_leaves_no_record() {
    let mut core = applied(snapshot(1, nodes(2), vec![collection("t", 1, 2, &[1, 2])]));
    core.handle(failed(1, 1), NOW);
    let mut members = nodes(2);
    members[1].enabled = false;
    core.apply(snapshot(2, members, vec![collection("t", 1, 2, &[1, 2])]), NOW).unwrap();
    assert!(chosen(&core, "t", 0).is_empty());
    assert!(!core.view().is_enabled(&name("n2")));
    core.apply(snapshot(3, vec![], vec![]), NOW).unwrap();
    assert!(core.view().exclusions().is_empty() && !core.is_unhealthy(&key("n1")));
}

#[test]
fn a_lost_node_is_probed_once_and_stays_routable_until_the_probe_says_otherwise() {
    let mut lost = nodes(2);
    lost[0].lost = true;
    let mut core = core();
    assert_eq!(core.apply(snapshot(1, lost.clone(), vec![]), NOW).unwrap(), [Key::Node(key("n1"))]);
    assert!(core.apply(snapshot(2, lost.clone(), vec![]), NOW).unwrap().is_empty());
    assert!(core.view().is_routable(&name("n1")));
}

#[test]
fn an_address_that_cannot_be_read_keeps_the_last_good_one_or_skips_the_node() {
    let mut core = applied(snapshot(1, nodes(1), vec![]));
    let broken = vec![node(1, "not an address"), node(2, "neither this")];
    core.apply(snapshot(2, broken, vec![]), NOW).unwrap();
    let urls: Vec<_> = core.view().stage_nodes(&BTreeSet::new()).into_iter().map(|node| node.url).collect();
    assert_eq!(urls, ["http://127.0.0.1:1".parse().unwrap()]);
}

#[test]
fn a_collection_without_a_current_target_has_no_routing() {
    let mut loading = collection("t", 1, 0, &[]);
    loading.load = LoadState::Loading { percent: 40 };
    let mut not_loaded = collection("u", 1, 0, &[]);
    not_loaded.load = LoadState::NotLoaded;
    let core = applied(snapshot(1, nodes(1), vec![loading, not_loaded]));
    let none = BTreeSet::new();
    let refused = |entry: &pointsman_ids::feed::CollectionEntry| {
        core.view().select(entry, &[], &SelectOptions::new(0, &none)).unwrap_err()
    };
    let error = refused(core.view().collection("t").unwrap());
    assert_eq!(error.code(), ErrorCode::CollectionNotFullyLoaded);
    assert!(error.to_string().contains("40%"), "{error}");
    assert_eq!(refused(core.view().collection("u").unwrap()).code(), ErrorCode::CollectionNotLoaded);
    assert_eq!(refused(&collection("v", 1, 0, &[])).code(), ErrorCode::CollectionNotFound);
    assert_eq!(refused(&collection("t", 7, 0, &[])).code(), ErrorCode::ServiceInternal);
}

#[test]
fn every_collection_counts_its_requests_on_its_own_and_over_snapshots() {
    let both = || vec![collection("s", 1, 1, &[1]), collection("t", 1, 1, &[1])];
    let mut core = applied(snapshot(1, nodes(1), both()));
    let next = |core: &Core, name: &str| core.view().next_request_id(core.view().collection(name).unwrap());
    assert_eq!([next(&core, "s"), next(&core, "t"), next(&core, "s")], [0, 0, 1]);
    core.apply(snapshot(2, nodes(2), both()), NOW).unwrap();
    assert_eq!([next(&core, "s"), next(&core, "t")], [2, 1]);
    let ids = RequestIds::default();
    let t = core.view().collection("t").unwrap();
    assert_eq!([ids.of(core.view(), t), ids.of(core.view(), t)], [2, 2], "all scans of a query share one id");
}

#[test]
fn a_scope_takes_a_known_group_in_which_the_load_has_finished() {
    let mut entry = collection("t", 1, 2, &[1, 2]);
    entry.replicas.push(ReplicaEntry { id: ReplicaId(2), group: GroupNumber(2) });
    entry.segments.iter_mut().for_each(|segment| segment.copies[1].replica = 1);
    entry.finished_groups = vec![GroupNumber(2)];
    let mut first = snapshot(1, nodes(2), vec![entry]);
    first.groups = [(1, "east"), (2, "west"), (3, "north")]
        .map(|(number, name)| GroupEntry { number: GroupNumber(number), name: name.parse().unwrap() })
        .into();
    let core = applied(first);
    let (view, none) = (core.view(), BTreeSet::new());
    let entry = view.collection("t").unwrap();
    let within = |group: &str| {
        let group = group.parse().unwrap();
        let options = SelectOptions { resource_group: Some(&group), ..SelectOptions::new(0, &none) };
        view.select(entry, &[0, 1], &options)
    };
    let west = within("west").unwrap();
    let parts: Vec<_> = west.parts().map(|(node, part)| (view.node(node).key, part.len())).collect();
    assert_eq!(parts, [(key("n2"), 2)]);
    assert_eq!(within("east").unwrap_err().code(), ErrorCode::CollectionNotFullyLoaded);
    assert_eq!(within("north").unwrap_err().code(), ErrorCode::CollectionNotFullyLoaded);
    assert_eq!(within("south").unwrap_err().code(), ErrorCode::ResourceGroupNotFound);
}
