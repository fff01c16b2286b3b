//! What is loaded next.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::time::Duration;

use pointsman_clock::WallTime;
use pointsman_ids::{SegmentId, catalog::Segment};
use pointsman_query_coord::{
    LoadKind, LoadStatus, Pulled, SegmentReport, Stores, Target, new_partitions, pull,
};
use world::*;

const AGE: Duration = Duration::from_secs(300);

fn loaded() -> Stores {
    let mut stores = world(&[("east", &["n1"])]);
    collection(&mut stores, 1, &[1, 1]);
    load(&mut stores, &[("east", 1)]);
    stores.targets.remove_next(COLLECTION);
    stores
}

fn pulled(stores: &mut Stores, now: u64) -> Target {
    match pull(stores, COLLECTION, WallTime(now), AGE) {
        Pulled::Next(target) => target,
        other => panic!("no target: {other:?}"),
    }
}

fn in_partition(id: u64, name: &str) -> Segment {
    let mut segment = segment(id, 1, 1);
    segment.content.partition = name.parse().unwrap();
    segment
}

fn push(stores: &mut Stores, segment: Segment) {
    stores.collections.get_mut(&COLLECTION).unwrap().insert(segment);
}

#[test]
fn a_next_target_stays_until_it_is_served_lost_a_segment_or_is_old() {
    let mut stores = loaded();
    let first = pulled(&mut stores, 10);
    assert_eq!((first.version.0, first.segment_count()), (10, 2));
    stores.targets.set_next(first);
    push(&mut stores, segment(3, 1, 1));
    assert_eq!(pull(&mut stores, COLLECTION, WallTime(11), AGE), Pulled::Unchanged);
    let old = 10 + u64::try_from(AGE.as_nanos()).unwrap();
    assert_eq!(pulled(&mut stores, old).segment_count(), 3);
    drop_segment(&mut stores, 1);
    let anew = pulled(&mut stores, 5);
    assert_eq!(anew.segments().collect::<Vec<_>>(), [SegmentId(2), SegmentId(3)]);
    assert_eq!(anew.version.0, 11, "above the former one, whatever the clock says");
    stores.targets.set_next(anew);
    promote(&mut stores);
    assert_eq!(pull(&mut stores, COLLECTION, WallTime(6), AGE), Pulled::Nothing);
}

#[test]
fn versions_exceed_those_of_views_whose_target_did_not_survive() {
    let mut stores = loaded();
    let next = pulled(&mut stores, 70);
    stores.targets.set_next(next);
    for id in [1, 2] {
        report(&mut stores, "n1", id, SegmentReport::Held);
    }
    settle(&mut stores);
    assert_eq!(leader(&stores, "n1").unwrap().target_version.0, 70);
    // The coordinator dies before the promotion is written, and the next one's clock is behind.
    stores.targets.remove_next(COLLECTION);
    assert_eq!(pulled(&mut stores, 5).version.0, 71);
}

#[test]
fn only_segments_of_registered_partitions_are_loaded() {
    let mut stores = loaded();
    push(&mut stores, in_partition(3, "late"));
    let target = pulled(&mut stores, 10);
    assert_eq!(target.segments().collect::<Vec<_>>(), [SegmentId(1), SegmentId(2)]);
    assert!(target.covers(Some("default")) && !target.covers(Some("late")));
}

#[test]
fn a_whole_collection_takes_partitions_that_come_later_and_its_figure_stays() {
    let mut stores = loaded();
    assert_eq!(new_partitions(&stores, COLLECTION, WallTime(5)), None);
    push(&mut stores, in_partition(3, "late"));
    let record = new_partitions(&stores, COLLECTION, WallTime(5)).unwrap();
    let late = &record.partitions["late"];
    assert_eq!((late.status, late.percent, late.created_at), (LoadStatus::Loaded, 100, 5));
    let next = pulled(&mut stores, 10);
    stores.targets.set_next(next);
    stores.loads.insert(record);
    // The next target is not the one that is asked for any more.
    assert_eq!(pulled(&mut stores, 11).segment_count(), 3);
    assert_eq!(new_partitions(&stores, COLLECTION, WallTime(6)), None);

    let mut record = stores.loads.get(COLLECTION).unwrap().clone();
    record.kind = LoadKind::Partitions;
    stores.loads.insert(record);
    push(&mut stores, in_partition(4, "later"));
    assert_eq!(new_partitions(&stores, COLLECTION, WallTime(7)), None, "others were asked for by name");
}

#[test]
fn a_registration_without_partitions_stays_without() {
    let mut stores = loaded();
    let mut record = stores.loads.get(COLLECTION).unwrap().clone();
    record.partitions.clear();
    stores.loads.insert(record);
    assert_eq!(new_partitions(&stores, COLLECTION, WallTime(5)), None);
    let target = pulled(&mut stores, 10);
    assert!(target.segments().next().is_none() && target.has_shard() && !target.covers(None));
}

#[test]
fn nothing_is_pulled_for_what_is_not_loaded() {
    let mut stores = loaded();
    stores.loads.remove(COLLECTION);
    assert_eq!(pull(&mut stores, COLLECTION, WallTime(5), AGE), Pulled::Unchanged);
}
