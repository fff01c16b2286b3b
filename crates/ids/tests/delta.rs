//! Deltas lead from any snapshot to any other, in one step or in several.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{
    CollectionId, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, SegmentId,
    catalog::RoutingOptions,
    feed::{
        CollectionChange, CollectionDelta, CollectionEntry, CopiesChange, CopyEntry, CopyState, Delta,
        GroupEntry, LeaderDrops, LeaderEntry, LoadState, NodeEntry, ReplicaEntry, SegmentEntry, Snapshot,
    },
};
use proptest::{collection::btree_map, prelude::*};

fn copy(node: u64, observed: bool) -> CopyEntry {
    let observed = observed.then_some(CopyState::Online);
    CopyEntry { node: NodeId(node), replica: 0, assigned: Some(CopyState::Online), observed }
}

fn segment(name: u8, rows: u64, copies: Vec<CopyEntry>) -> Arc<SegmentEntry> {
    Arc::new(SegmentEntry {
        id: SegmentId(u64::from(name)),
        name: format!("s{name:02}").parse().unwrap(),
        partition: 0,
        shard: 0,
        rows,
        bytes: 10,
        created_at: 5,
        promoted: true,
        statistics: Arc::default(),
        copies,
    })
}

fn collection(name: u8, id: u64, shards: usize, segments: Vec<Arc<SegmentEntry>>) -> CollectionEntry {
    let leader = |at: usize| LeaderEntry {
        node: NodeId(segments.len() as u64 + at as u64),
        serviceable: true,
        group: GroupNumber(1),
    };
    CollectionEntry {
        name: format!("c{name}").parse().unwrap(),
        id: CollectionId(id),
        version: FeedVersion(0),
        routing: RoutingOptions::default(),
        query_timeout: None,
        key: None,
        vector_indexes: Vec::new(),
        clusters: vec![],
        columns: vec![],
        partitions: vec!["default".parse().unwrap()],
        shards: (0..shards).map(|at| format!("shard-{at}").parse().unwrap()).collect(),
        load: LoadState::Serving,
        finished_groups: vec![],
        replicas: vec![ReplicaEntry { id: ReplicaId(1), group: GroupNumber(1) }],
        leaders: (0..shards).map(|at| vec![leader(at)]).collect(),
        segments: segments.into_iter().collect(),
    }
}

fn node(name: u8, incarnation: u64) -> NodeEntry {
    NodeEntry {
        name: format!("n{name}").parse().unwrap(),
        id: NodeId(u64::from(name)),
        address: "http://127.0.0.1:1".into(),
        incarnation: Incarnation(incarnation),
        switched_on: true,
        enabled: true,
        lost: false,
        pool: GroupNumber(1),
    }
}

fn segments() -> impl Strategy<Value = Vec<Arc<SegmentEntry>>> {
    let copies = prop::collection::vec((0..3_u64, any::<bool>()), 0..3);
    let copies = copies.prop_map(|copies| copies.into_iter().map(|(n, seen)| copy(n, seen)).collect());
    // Many or few names, so that both single edits and whole passes are taken.
    btree_map(0..60_u8, (0..2_u64, copies), 0..60)
        .prop_map(|map| map.into_iter().map(|(name, (rows, copies))| segment(name, rows, copies)).collect())
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let collections = btree_map(0..3_u8, (0..2_u64, 1..4_usize, segments()), 0..3);
    let nodes = btree_map(0..4_u8, 0..2_u64, 0..4);
    let config = btree_map("[ab]", "[xy]", 0..2);
    (nodes, 1..3_i32, collections, config).prop_map(|(nodes, group, collections, config)| Snapshot {
        nodes: nodes.into_iter().map(|(name, incarnation)| node(name, incarnation)).collect(),
        groups: vec![GroupEntry { number: GroupNumber(group), name: "east".parse().unwrap() }],
        collections: (collections.into_iter())
            .map(|(name, (id, shards, segments))| Arc::new(collection(name, id, shards, segments)))
            .collect(),
        config,
        ..Snapshot::empty("local".parse().unwrap())
    })
}

/// Snapshots of one cluster with growing versions; entries carry the version that made them.
fn history(len: usize) -> impl Strategy<Value = Vec<Snapshot>> {
    let number = |(at, mut snapshot): (u64, Snapshot)| {
        snapshot.version = FeedVersion(at);
        for entry in &mut snapshot.collections {
            Arc::make_mut(entry).version = FeedVersion(at);
        }
        snapshot
    };
    prop::collection::vec(snapshot(), len).prop_map(move |list| (1..).zip(list).map(number).collect())
}

proptest! {
    #[test]
    fn a_delta_leads_from_one_snapshot_to_the_other(history in history(2)) {
        let delta = Delta::between(&history[0], &history[1]);
        let reached = history[0].apply(&delta).unwrap();
        prop_assert_eq!(&reached, &history[1]);
        prop_assert_eq!(reached.apply(&delta).unwrap(), reached, "the same delta again changes nothing");
    }

    #[test]
    fn several_deltas_made_one_lead_where_the_steps_lead(history in history(4)) {
        let steps: Vec<Delta> = history.windows(2).map(|pair| Delta::between(&pair[0], &pair[1])).collect();
        let joined = steps[1..].iter().fold(steps[0].clone(), |joined, step| joined.then(step).unwrap());
        prop_assert_eq!((joined.before, joined.after), (history[0].version, history[3].version));
        prop_assert_eq!(history[0].apply(&joined).unwrap(), history[3].clone());
    }

    #[test]
    fn a_change_of_a_collection_may_come_twice(history in history(2)) {
        let before = collection(0, 1, 2, history[0].collections.first().map_or(vec![], |c| c.segments.iter().cloned().collect()));
        let after = collection(0, 1, 3, history[1].collections.first().map_or(vec![], |c| c.segments.iter().cloned().collect()));
        let change = CollectionChange::between(&before, &after);
        let once = before.apply(&change).unwrap();
        prop_assert_eq!(&once, &after);
        prop_assert_eq!(once.apply(&change).unwrap(), once);
    }
}

fn two_versions() -> (Snapshot, Snapshot) {
    let at = |version: u64, seen: bool| {
        let mut entry = collection(0, 1, 1, vec![segment(1, 1, vec![copy(1, seen)]), segment(2, 1, vec![])]);
        entry.version = FeedVersion(version);
        Snapshot {
            version: FeedVersion(version),
            nodes: vec![node(1, 1)],
            collections: vec![Arc::new(entry)],
            ..Snapshot::empty("local".parse().unwrap())
        }
    };
    (at(1, false), at(2, true))
}

#[test]
fn a_copy_that_changes_state_is_told_without_its_segment() {
    let (before, after) = two_versions();
    let delta = Delta::between(&before, &after);
    let CollectionDelta::Changed(change) = &delta.collections[0] else { panic!("{delta:?}") };
    let copies = CopiesChange { segment: "s01".parse().unwrap(), copies: vec![copy(1, true)] };
    let name = change.name.clone();
    let wanted = CollectionChange { copies: vec![copies], ..CollectionChange::empty(name, FeedVersion(2)) };
    assert_eq!(*change, wanted);
    let empty = Delta {
        collections: delta.collections.clone(),
        ..Delta::empty(after.cluster, FeedVersion(1), FeedVersion(2))
    };
    assert_eq!(delta, empty);
}

#[test]
fn what_did_not_change_is_shared() {
    let (before, after) = two_versions();
    let reached = before.apply(&Delta::between(&before, &after)).unwrap();
    let (old, new) = (&before.collections[0].segments, &reached.collections[0].segments);
    assert!(!Arc::ptr_eq(&old[0], &new[0]) && Arc::ptr_eq(&old[1], &new[1]));
}

#[test]
fn a_collection_that_was_made_anew_under_its_name_is_told_whole() {
    let (before, mut after) = two_versions();
    Arc::make_mut(&mut after.collections[0]).id = CollectionId(9);
    let delta = Delta::between(&before, &after);
    assert_eq!(delta.collections, [CollectionDelta::Whole(after.collections[0].clone())]);
}

#[test]
fn a_delta_that_does_not_fit_is_refused_and_says_why() {
    let (before, after) = two_versions();
    let delta = Delta::between(&before, &after);
    let refused = |snapshot: &Snapshot, delta: &Delta| snapshot.apply(delta).unwrap_err().to_string();

    let older = Snapshot { version: FeedVersion(0), ..before.clone() };
    assert_eq!(refused(&older, &delta), "a delta from version 1 to 2 does not continue version 0");
    let foreign = Delta { cluster: "east".parse().unwrap(), ..delta.clone() };
    assert_eq!(refused(&before, &foreign), "a delta of cluster 'east' came to cluster 'local'");
    let bare = Snapshot { collections: vec![], ..before.clone() };
    assert_eq!(refused(&bare, &delta), "a delta changes collection 'c0', which is not known");

    let change = |make: fn(&mut CollectionChange)| {
        let mut change = CollectionChange::empty("c0".parse().unwrap(), FeedVersion(2));
        make(&mut change);
        Delta { collections: vec![CollectionDelta::Changed(change)], ..delta.clone() }
    };
    let unknown =
        change(|c| c.copies = vec![CopiesChange { segment: "s77".parse().unwrap(), copies: vec![] }]);
    let text = "collection 'c0': the copies of segment 's77' change, which is not known";
    assert_eq!(refused(&before, &unknown), text);
    let astray = CopyEntry { replica: 7, ..copy(1, true) };
    let astray = CopiesChange { segment: "s01".parse().unwrap(), copies: vec![astray] };
    let astray = CollectionChange {
        copies: vec![astray],
        ..CollectionChange::empty("c0".parse().unwrap(), FeedVersion(2))
    };
    let astray = Delta { collections: vec![CollectionDelta::Changed(astray)], ..delta.clone() };
    let text = "collection 'c0': segment 's01' points at something that is not there";
    assert_eq!(refused(&before, &astray), text);
    let headless = change(|c| {
        let head = CollectionEntry { partitions: vec![], ..collection(0, 1, 1, vec![]) };
        c.head = Some(Arc::new(head.head()));
    });
    assert_eq!(refused(&before, &headless), text);
    let unordered = delta.then(&delta).unwrap_err().to_string();
    assert_eq!(unordered, "a delta from version 1 of 'local' does not continue one to version 2 of 'local'");
}

#[test]
fn an_old_delta_changes_nothing() {
    let (before, after) = two_versions();
    let delta = Delta::between(&before, &after);
    assert_eq!(after.apply(&delta).unwrap(), after);
    let config = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    let ancient = Delta { config, ..Delta::empty(before.cluster.clone(), FeedVersion(0), FeedVersion(1)) };
    assert_eq!(after.apply(&ancient).unwrap(), after);
}

#[test]
fn a_switch_is_told_of_a_node_of_which_nothing_else_is_known() {
    let (before, _) = two_versions();
    let step = |from| Delta::empty(before.cluster.clone(), FeedVersion(from), FeedVersion(from + 1));
    let off = |from| Delta { switched_off: vec!["n1".parse().unwrap(), "n7".parse().unwrap()], ..step(from) };
    let known = |from| Delta { nodes: vec![node(1, 1)], ..step(from) };
    let gone = |from| Delta { nodes_removed: vec!["n1".parse().unwrap()], ..step(from) };
    let state =
        |snapshot: &Snapshot| snapshot.nodes.iter().map(|n| (n.switched_on, n.enabled)).collect::<Vec<_>>();
    for (first, second, wanted) in [
        (step(1), off(2), vec![(false, false)]),
        (off(1), known(2), vec![(true, true)]),
        (known(1), off(2), vec![(false, false)]),
        (off(1), gone(2), vec![]),
        (gone(1), off(2), vec![]),
    ] {
        let steps = before.apply(&first).unwrap().apply(&second).unwrap();
        assert_eq!(state(&steps), wanted, "{first:?} {second:?}");
        assert_eq!(before.apply(&first.then(&second).unwrap()).unwrap(), steps);
    }
}

#[test]
fn leaders_that_were_dropped_on_the_way_are_dropped_at_its_end() {
    let (before, _) = two_versions();
    let step = |from, leader_drops| {
        let empty = Delta::empty(before.cluster.clone(), FeedVersion(from), FeedVersion(from + 1));
        Delta { leader_drops, ..empty }
    };
    let of = |drops: &[(u64, u64)]| {
        LeaderDrops::Of(drops.iter().map(|(id, at)| (CollectionId(*id), FeedVersion(*at))).collect())
    };
    let first = step(1, of(&[(1, 2), (2, 2)]));
    for (second, wanted) in [
        (of(&[]), of(&[(1, 2), (2, 2)])),
        (of(&[(2, 3), (3, 3)]), of(&[(1, 2), (2, 3), (3, 3)])),
        (LeaderDrops::All, LeaderDrops::All),
    ] {
        assert_eq!(first.then(&step(2, second)).unwrap().leader_drops, wanted);
    }
    assert_eq!(
        step(1, LeaderDrops::All).then(&step(2, of(&[(1, 3)]))).unwrap().leader_drops,
        LeaderDrops::All
    );
}
