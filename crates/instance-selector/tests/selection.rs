//! The rules of selection, and what holds for every input.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pointsman_ids::{
    CollectionId, ErrorCode, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, SegmentId,
    UnavailableCause,
    catalog::SelectorKind,
    feed::{CollectionEntry, CopyEntry, CopyState, LoadState, NodeEntry, ReplicaEntry, SegmentEntry},
};
use pointsman_instance_selector::{NodeSet, Nodes, Request, Selection, States, select};
use proptest::prelude::*;

fn node(id: u64, enabled: bool) -> NodeEntry {
    NodeEntry {
        name: format!("n{id}").parse().unwrap(),
        id: NodeId(id),
        address: format!("http://127.0.0.1:{id}"),
        incarnation: Incarnation(1),
        switched_on: true,
        enabled,
        lost: false,
        pool: GroupNumber(1),
    }
}

/// A copy on a node, by replica, assigned and observed state.
type Copy = (u64, u32, Option<CopyState>, Option<CopyState>);

fn online(node: u64) -> Copy {
    (node, 0, Some(CopyState::Online), Some(CopyState::Online))
}

fn collection(segments: &[Vec<Copy>]) -> CollectionEntry {
    let segment = |(at, copies): (usize, &Vec<Copy>)| SegmentEntry {
        id: SegmentId(at as u64),
        name: format!("s{at:06}").parse().unwrap(),
        partition: 0,
        shard: 0,
        rows: 1,
        bytes: 1,
        created_at: 0,
        statistics: Arc::new(BTreeMap::new()),
        copies: (copies.iter())
            .map(|(node, replica, assigned, observed)| CopyEntry {
                node: NodeId(*node),
                replica: *replica,
                assigned: *assigned,
                observed: *observed,
            })
            .collect(),
    };
    CollectionEntry {
        name: "orders".parse().unwrap(),
        id: CollectionId(1),
        version: FeedVersion(1),
        selector: SelectorKind::Balanced,
        query_timeout: None,
        clusters: vec![],
        columns: vec![],
        partitions: vec!["default".parse().unwrap()],
        shards: vec!["shard-0".parse().unwrap()],
        load: LoadState::Serving,
        finished_groups: vec![],
        replicas: vec![
            ReplicaEntry { id: ReplicaId(1), group: GroupNumber(1) },
            ReplicaEntry { id: ReplicaId(2), group: GroupNumber(2) },
        ],
        segments: segments.iter().enumerate().map(segment).collect(),
        leaders: vec![],
    }
}

fn nodes(count: u64) -> Nodes {
    Nodes::new(&(1..=count).map(|id| node(id, true)).collect::<Vec<_>>(), |_| false)
}

/// The picks of a selection as segment -> node name.
fn picks(selection: &Selection, nodes: &Nodes) -> BTreeMap<u32, String> {
    let named = |(node, segments): (_, &[u32])| {
        let name = nodes.entry(node).name.to_string();
        segments.iter().map(move |segment| (*segment, name.clone())).collect::<Vec<_>>()
    };
    selection.parts().flat_map(named).collect()
}

fn names(picks: &BTreeMap<u32, String>) -> Vec<&str> {
    picks.values().map(String::as_str).collect()
}

#[test]
fn balanced_takes_the_next_candidate_for_every_segment() {
    let nodes = nodes(3);
    let states = States::new(&collection(&vec![vec![online(3), online(1), online(2)]; 4]), &nodes);
    let choose = |id| picks(&select(&states, &nodes, &Request::all(&states, id)).unwrap(), &nodes);
    assert_eq!(names(&choose(0)), ["n1", "n2", "n3", "n1"]);
    assert_eq!(names(&choose(1)), ["n2", "n3", "n1", "n2"]);
    assert_eq!(choose(1_000_000_001), choose(1), "ids are taken modulo a thousand million");
}

#[test]
fn a_segment_without_usable_candidates_takes_no_turn() {
    let nodes = nodes(2);
    let both = vec![online(1), online(2)];
    let states = States::new(&collection(&[both.clone(), vec![], both]), &nodes);
    let selection = select(&states, &nodes, &Request::all(&states, 0)).unwrap();
    assert_eq!(names(&picks(&selection, &nodes)), ["n1", "n2"]);
    assert_eq!(selection.unavailable, [(1, UnavailableCause::NoReplicaAssigned)]);
}

#[test]
fn replica_group_takes_one_index_or_a_few_in_turn() {
    let nodes = nodes(3);
    let mut entry = collection(&vec![vec![online(1), online(2), online(3)]; 4]);
    entry.selector = SelectorKind::ReplicaGroup;
    let states = States::new(&entry, &nodes);
    let choose = |id, num_replica_groups| {
        let request = Request { num_replica_groups, ..Request::all(&states, id) };
        picks(&select(&states, &nodes, &request).unwrap(), &nodes)
    };
    assert_eq!(names(&choose(1, 1)), ["n2", "n2", "n2", "n2"]);
    assert_eq!(names(&choose(1, 2)), ["n2", "n3", "n2", "n3"]);
    assert_eq!(names(&choose(0, 9)), ["n1", "n2", "n3", "n1"], "never more groups than candidates");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_chosen() {
    let nodes = nodes(1);
    let mut entry = collection(&[vec![online(1)]]);
    let states = States::new(&entry, &nodes);
    let request = Request { num_replica_groups: 0, ..Request::all(&states, 0) };
    assert_eq!(select(&states, &nodes, &request).unwrap_err().code(), ErrorCode::ParameterInvalid);
    for selector in [SelectorKind::StrictReplicaGroup, SelectorKind::MultiStageReplicaGroup] {
        entry.selector = selector;
        let states = States::new(&entry, &nodes);
        let error = select(&states, &nodes, &Request::all(&states, 0)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotImplemented);
        assert!(error.to_string().contains("'orders'"), "{error}");
    }
}

#[test]
fn a_candidate_is_assigned_to_serve_and_observed_to_serve() {
    use CopyState::{Consuming, Error, Offline, Online};
    let nodes = nodes(6);
    let copies = vec![
        (1, 0, Some(Online), Some(Consuming)),
        (2, 0, Some(Consuming), Some(Online)),
        (3, 0, Some(Online), Some(Offline)),
        (4, 0, Some(Online), None),
        (5, 0, None, Some(Online)),
        (6, 0, Some(Offline), Some(Error)),
    ];
    let states = States::new(&collection(&[copies]), &nodes);
    let names: Vec<_> =
        states.candidates(0).unwrap().iter().map(|c| nodes.entry(c.node).name.as_str()).collect();
    assert_eq!(names, ["n1", "n2"]);
}

#[test]
fn the_cause_says_what_would_help() {
    let entries = [node(1, true), node(2, false), node(3, true)];
    let nodes = Nodes::new(&entries, |name| name.as_str() == "n3");
    let loading = (1, 0, Some(CopyState::Online), None);
    let segments =
        [vec![], vec![loading], vec![online(2)], vec![online(2), online(3)], vec![online(1), online(3)]];
    let states = States::new(&collection(&segments), &nodes);
    let mut without = NodeSet::empty(nodes.len());
    without.insert(nodes.by_name(&"n1".parse().unwrap()).unwrap());
    let request = Request { without, ..Request::all(&states, 0) };
    use UnavailableCause::{AllDisabled, AllExcluded, NoReplicaAssigned, NotLoaded, RetriesUsedUp};
    assert_eq!(
        select(&states, &nodes, &request).unwrap().unavailable,
        [(0, NoReplicaAssigned), (1, NotLoaded), (2, AllDisabled), (3, AllExcluded), (4, RetriesUsedUp)]
    );
}

#[test]
fn a_scope_keeps_the_copies_of_its_group_wherever_they_lie() {
    let nodes = nodes(2);
    let west = (2, 1, Some(CopyState::Online), Some(CopyState::Online));
    let states = States::new(&collection(&[vec![online(1), west], vec![online(1)]]), &nodes);
    let request = Request { group: Some(GroupNumber(2)), ..Request::all(&states, 0) };
    let selection = select(&states, &nodes, &request).unwrap();
    assert_eq!(picks(&selection, &nodes), BTreeMap::from([(0, "n2".to_owned())]));
    assert_eq!(selection.unavailable, [(1, UnavailableCause::NotLoaded)]);
}

#[test]
fn parts_are_by_node_and_keep_the_order_of_the_request() {
    let nodes = nodes(2);
    let states = States::new(&collection(&[vec![online(2)], vec![online(1)], vec![online(2)]]), &nodes);
    let selection = select(&states, &nodes, &Request::these(&[2, 0, 1, 7], 0)).unwrap();
    let parts: Vec<_> = selection.parts().map(|(node, segments)| (node.0, segments.to_vec())).collect();
    assert_eq!(parts, [(0, vec![1]), (1, vec![2, 0])]);
    assert_eq!((selection.served(), selection.unknown), (3, 1));
}

fn state() -> impl Strategy<Value = Option<CopyState>> {
    prop_oneof![
        6 => Just(Some(CopyState::Online)),
        1 => Just(Some(CopyState::Consuming)),
        1 => Just(Some(CopyState::Offline)),
        1 => Just(Some(CopyState::Error)),
        1 => Just(None),
    ]
}

fn copies() -> impl Strategy<Value = Vec<Copy>> {
    proptest::collection::vec((1..=70u64, 0..2u32, state(), state()), 0..5)
}

proptest! {
    #[test]
    fn every_choice_is_sound(
        segments in proptest::collection::vec(copies(), 0..30),
        enabled in proptest::collection::vec(prop::bool::weighted(0.8), 70),
        excluded in proptest::collection::btree_set(1..=70u64, 0..40),
        failed in proptest::collection::btree_set(1..=70u64, 0..10),
        kind in prop_oneof![Just(SelectorKind::Balanced), Just(SelectorKind::ReplicaGroup)],
        id in any::<u64>(),
        num_replica_groups in 1..4u32,
        wanted in proptest::collection::vec(0..40u32, 0..40),
    ) {
        let entries: Vec<_> = (1..=70).zip(&enabled).map(|(id, enabled)| node(id, *enabled)).collect();
        let number = |name: &str| name[1..].parse::<u64>().unwrap();
        let nodes = Nodes::new(&entries, |name| excluded.contains(&number(name.as_str())));
        let mut entry = collection(&segments);
        entry.selector = kind;
        let states = States::new(&entry, &nodes);
        let mut without = NodeSet::empty(nodes.len());
        for id in &failed {
            without.insert(nodes.by_id(NodeId(*id)).unwrap());
        }
        let wanted: Vec<u32> = wanted.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let request = Request { without, num_replica_groups, ..Request::these(&wanted, id) };
        let selection = select(&states, &nodes, &request).unwrap();

        prop_assert_eq!(&selection, &select(&states, &nodes, &request).unwrap(), "the same input, another output");
        let served = picks(&selection, &nodes);
        prop_assert_eq!(served.len(), selection.served(), "a segment stands twice");
        let unavailable: BTreeSet<u32> = selection.unavailable.iter().map(|(segment, _)| *segment).collect();
        let unknown = wanted.iter().filter(|segment| **segment as usize >= segments.len()).count();
        prop_assert_eq!(selection.unknown as usize, unknown);
        prop_assert_eq!(served.len() + unavailable.len() + unknown, wanted.len());
        prop_assert!(served.keys().all(|segment| !unavailable.contains(segment)));

        // By the letter of the rules, without the compact form.
        let usable = |segment: u32| -> BTreeSet<u64> {
            (segments[segment as usize].iter())
                .filter(|(id, _, assigned, observed)| {
                    assigned.is_some_and(CopyState::serves)
                        && observed.is_some_and(CopyState::serves)
                        && enabled[usize::try_from(*id).unwrap() - 1]
                        && !excluded.contains(id)
                        && !failed.contains(id)
                })
                .map(|(id, ..)| *id)
                .collect()
        };
        for (segment, node) in &served {
            prop_assert!(usable(*segment).contains(&number(node)), "{segment} went to {node}");
        }
        for segment in unavailable {
            prop_assert!(usable(segment).is_empty(), "a healthy candidate was passed over");
        }
    }
}
