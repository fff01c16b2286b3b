//! How far loads are, and when targets are promoted.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use pointsman_clock::WallTime;
use pointsman_ids::{ReplicaId, SegmentId};
use pointsman_query_coord::{
    LoadStatus, SegmentReport, SessionState, Stores, collection_percent, finished_replicas, next_target,
    promotable, replica_percent, show_load,
};
use proptest::prelude::*;
use world::*;

/// Ten thousand targets make the edges of rounding visible.
fn held(total: usize, held: usize) -> Stores {
    let mut stores = world(&[("east", &["n1"])]);
    collection(&mut stores, 1, &vec![1; total]);
    load(&mut stores, &[("east", 1)]);
    for id in 1..=held as u64 {
        report(&mut stores, "n1", id, SegmentReport::Held);
    }
    stores
}

fn percent(stores: &Stores) -> u8 {
    replica_percent(stores, &stores.replicas[&ReplicaId(1)], stores.next_first(COLLECTION).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn zero_means_nothing_and_a_hundred_means_all(total in 1..500_usize, part in 0..500_usize) {
        let carried = part.min(total);
        let figure = percent(&held(total, carried));
        prop_assert_eq!(figure == 0, carried == 0);
        prop_assert_eq!(figure == 100, carried == total);
        prop_assert!(carried == 0 || usize::from(figure) == (carried * 100 / total).max(1));
    }

    #[test]
    fn the_collection_wide_figure_never_falls(steps in prop::collection::vec((1..8_u64, any::<bool>()), 1..40)) {
        let mut stores = world(&[("east", &["n1", "n2"])]);
        collection(&mut stores, 2, &[1; 7]);
        load(&mut stores, &[("east", 2)]);
        let mut last = 0;
        for (segment, holds) in steps {
            let state = if holds { SegmentReport::Held } else { SegmentReport::Fetching };
            report(&mut stores, if segment % 2 == 0 { "n1" } else { "n2" }, segment, state);
            if let Some(record) = collection_percent(&stores, COLLECTION, 5) {
                prop_assert!(record.percent > last);
                last = record.percent;
                stores.loads.insert(COLLECTION, record);
            }
        }
    }
}

#[test]
fn one_of_two_hundred_reads_one_and_all_but_one_reads_ninety_nine() {
    assert_eq!(percent(&held(200, 1)), 1);
    assert_eq!(percent(&held(200, 199)), 99);
}

#[test]
fn a_hundred_needs_every_replica_and_a_current_target() {
    let mut stores = world(&[("east", &["n1"]), ("west", &["n2"])]);
    collection(&mut stores, 1, &[1]);
    load(&mut stores, &[("east", 1), ("west", 1)]);
    report(&mut stores, "n1", 1, SegmentReport::Held);
    // One group is enough to serve, and the collection-wide figure reads half.
    assert!(promotable(&stores, COLLECTION));
    assert_eq!(collection_percent(&stores, COLLECTION, 5).unwrap().percent, 50);
    report(&mut stores, "n2", 1, SegmentReport::Held);
    assert_eq!(collection_percent(&stores, COLLECTION, 5).unwrap().percent, 99);
    promote(&mut stores);
    let record = collection_percent(&stores, COLLECTION, 5).unwrap();
    assert_eq!((record.percent, record.status, record.updated_at), (100, LoadStatus::Loaded, 5));
}

#[test]
fn each_group_has_its_own_figure_and_readiness() {
    let mut stores = world(&[("east", &["n1"]), ("west", &["n2"])]);
    collection(&mut stores, 1, &[3, 4]);
    load(&mut stores, &[("east", 1), ("west", 1)]);
    report(&mut stores, "n1", 1, SegmentReport::Held);
    report(&mut stores, "n1", 2, SegmentReport::Held);
    fail(&mut stores, "n2", 2);
    promote(&mut stores);
    let shown = show_load(&stores, COLLECTION, None).unwrap();
    assert_eq!((shown.segments, shown.rows, shown.serving), (2, 7, true));
    let (east, west) = (&shown.groups["east"], &shown.groups["west"]);
    assert_eq!((east.percent, east.ready, east.held, east.wanted), (100, true, 2, 2));
    assert_eq!((west.percent, west.ready, west.held, west.failures.len()), (0, false, 0, 1));
    assert_eq!((west.failures[0].node.as_str(), west.failures[0].segment.as_str()), ("n2", "s00002"));
    assert_eq!(show_load(&stores, COLLECTION, Some(&group("east"))).unwrap().groups.len(), 1);
    let finished = finished_replicas(&stores, COLLECTION);
    assert_eq!(finished.iter().map(|replica| replica.id).collect::<Vec<_>>(), [ReplicaId(1)]);
}

#[test]
fn different_replicas_may_serve_different_shards_but_not_parts_of_one() {
    let mut stores = world(&[("east", &["n1"]), ("west", &["n2"])]);
    collection(&mut stores, 2, &[1, 1]);
    load(&mut stores, &[("east", 1), ("west", 1)]);
    report(&mut stores, "n1", 1, SegmentReport::Held);
    report(&mut stores, "n2", 2, SegmentReport::Held);
    assert!(promotable(&stores, COLLECTION));
    collection(&mut stores, 1, &[1, 1]);
    assert!(!promotable(&stores, COLLECTION));
}

#[test]
fn what_a_lost_node_holds_does_not_promote() {
    let mut stores = held(1, 1);
    assert!(promotable(&stores, COLLECTION));
    set(&mut stores, "n1", SessionState::Lost);
    assert!(!promotable(&stores, COLLECTION));
}

#[test]
fn a_next_target_stays_until_it_is_served_lost_a_segment_or_is_old() {
    let mut stores = held(2, 2);
    stores.next.clear();
    let first = next_target(&stores, COLLECTION, WallTime(10)).unwrap();
    stores.next.insert(COLLECTION, first.clone());
    stores.collections.get_mut(&COLLECTION).unwrap().insert(segment(3, 1, 1));
    assert_eq!(next_target(&stores, COLLECTION, WallTime(11)), Some(first.clone()));
    let old = WallTime(11 + 300_000_000_000);
    assert_eq!(next_target(&stores, COLLECTION, old).unwrap().segments.len(), 3);
    drop_segment(&mut stores, 1);
    let anew = next_target(&stores, COLLECTION, WallTime(5)).unwrap();
    assert_eq!(anew.segments, [SegmentId(2), SegmentId(3)]);
    assert!(anew.version > first.version);
    stores.next.insert(COLLECTION, anew);
    promote(&mut stores);
    assert_eq!(next_target(&stores, COLLECTION, WallTime(6)), None);
}

#[test]
fn a_collection_without_segments_is_served_at_once() {
    let mut stores = held(0, 0);
    assert!(promotable(&stores, COLLECTION));
    promote(&mut stores);
    assert_eq!(collection_percent(&stores, COLLECTION, 5).unwrap().percent, 100);
    assert!(show_load(&stores, COLLECTION, None).unwrap().groups["east"].ready);
}

#[test]
fn a_stopping_node_still_counts() {
    let mut stores = held(1, 1);
    set(&mut stores, "n1", SessionState::Stopping);
    assert_eq!(percent(&stores), 100);
}
