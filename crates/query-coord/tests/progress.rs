//! How far loads are.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::time::Duration;

use pointsman_clock::WallTime;
use pointsman_ids::{PartitionName, TargetVersion};
use pointsman_query_coord::{
    CarriedCounts, LoadRecord, LoadStatus, PartitionLoad, Round, SegmentReport, Stores, Target,
    TargetSegment, is_serviceable, observe, show_load,
};
use proptest::prelude::*;
use world::*;

const TIMEOUT: Duration = Duration::from_secs(600);

/// A collection of one shard on n1, of which so many segments are held and led.
fn held(total: usize, held: usize) -> Stores {
    let mut stores = world(&[("east", &["n1"])]);
    collection(&mut stores, 1, &vec![1; total]);
    load(&mut stores, &[("east", 1)]);
    for id in 1..=held as u64 {
        report(&mut stores, "n1", id, SegmentReport::Held);
    }
    settle(&mut stores);
    stores
}

fn look(stores: &Stores, counts: &mut CarriedCounts, now: u64) -> Round {
    observe(stores, COLLECTION, counts, WallTime(now), TIMEOUT)
}

/// Looks, and writes what is to be written.
fn write(stores: &mut Stores, counts: &mut CarriedCounts, now: u64) -> Option<LoadRecord> {
    let written = look(stores, counts, now).record;
    written.iter().for_each(|record| stores.loads.insert(record.clone()));
    written
}

fn percent(stores: &Stores) -> u8 {
    show_load(stores, &stores.snapshot().wired(), COLLECTION, None).unwrap().groups["east"].percent
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn of_a_group_zero_means_nothing_and_a_hundred_means_all(total in 1..300_usize, part in 0..300_usize) {
        let carried = part.min(total);
        let figure = percent(&held(total, carried));
        // The shard counts as well, and it has a leader.
        prop_assert!(figure > 0);
        prop_assert_eq!(figure == 100, carried == total);
        prop_assert_eq!(usize::from(figure), ((carried + 1) * 100 / (total + 1)).max(1));
    }

    #[test]
    fn the_stored_figure_never_falls(steps in prop::collection::vec((1..8_u64, any::<bool>()), 1..30)) {
        let mut stores = world(&[("east", &["n1", "n2"])]);
        collection(&mut stores, 2, &[1; 7]);
        load(&mut stores, &[("east", 2)]);
        let (mut last, mut counts) = (0, CarriedCounts::default());
        for (segment, holds) in steps {
            let state = if holds { SegmentReport::Held } else { SegmentReport::Fetching };
            report(&mut stores, if segment % 2 == 0 { "n1" } else { "n2" }, segment, state);
            settle(&mut stores);
            if let Some(record) = write(&mut stores, &mut counts, 5) {
                prop_assert!(record.percent > last);
                last = record.percent;
            }
        }
    }
}

#[test]
fn a_hundred_needs_every_replica_and_a_current_target_that_covers_the_partition() {
    let mut stores = world(&[("east", &["n1"]), ("west", &["n2"])]);
    collection(&mut stores, 1, &[1]);
    load(&mut stores, &[("east", 1), ("west", 1)]);
    let mut counts = CarriedCounts::default();
    report(&mut stores, "n1", 1, SegmentReport::Held);
    settle(&mut stores);
    // Of shard and segment in two replicas: both shards are led, one segment is there.
    let half = write(&mut stores, &mut counts, 5).unwrap();
    assert_eq!((half.percent, half.status, half.updated_at), (75, LoadStatus::Loading, 5));
    report(&mut stores, "n2", 1, SegmentReport::Held);
    settle(&mut stores);
    let round = look(&stores, &mut counts, 6);
    assert_eq!(round, Round { record: None, promote: true });
    promote(&mut stores);
    let done = write(&mut stores, &mut counts, 7).unwrap();
    assert_eq!((done.percent, done.status, done.updated_at), (100, LoadStatus::Loaded, 7));
    assert_eq!(done.partitions["default"].status, LoadStatus::Loaded);
    assert_eq!(look(&stores, &mut counts, 8), Round::default(), "a load that has finished is not looked at");
}

#[test]
fn without_growth_nothing_is_written_and_the_time_stays() {
    let mut stores = held(10, 3);
    let mut counts = CarriedCounts::default();
    assert_eq!(write(&mut stores, &mut counts, 5).unwrap().percent, 36);
    assert_eq!(write(&mut stores, &mut counts, 6), None);
    for id in [1, 2] {
        report(&mut stores, "n1", id, SegmentReport::Fetching);
    }
    settle(&mut stores);
    assert_eq!(write(&mut stores, &mut counts, 7), None, "less is remembered and not written");
    report(&mut stores, "n1", 1, SegmentReport::Held);
    settle(&mut stores);
    assert_eq!(write(&mut stores, &mut counts, 8), None, "it grew, and is not above what is stored");
    for id in 1..=4 {
        report(&mut stores, "n1", id, SegmentReport::Held);
    }
    settle(&mut stores);
    let record = write(&mut stores, &mut counts, 9).unwrap();
    assert_eq!((record.percent, record.updated_at), (45, 9));
}

#[test]
fn after_a_restart_only_more_than_what_is_stored_is_written() {
    let mut stores = held(10, 3);
    write(&mut stores, &mut CarriedCounts::default(), 5).unwrap();
    stores.distribution = Default::default();
    let mut counts = CarriedCounts::default();
    assert_eq!(write(&mut stores, &mut counts, 6), None);
    settle(&mut stores);
    assert_eq!(write(&mut stores, &mut counts, 7), None, "it is as far as it was");
}

#[test]
fn progress_within_one_percent_keeps_a_large_load_from_counting_as_stuck() {
    let mut stores = held(1_000, 15);
    let mut counts = CarriedCounts::default();
    let now = write(&mut stores, &mut counts, 5).unwrap().updated_at;
    let one_more = |stores: &mut Stores, id| {
        report(stores, "n1", id, SegmentReport::Held);
        settle(stores);
    };
    one_more(&mut stores, 16);
    assert_eq!(write(&mut stores, &mut counts, now + 1), None, "1 percent still, and written a moment ago");
    one_more(&mut stores, 17);
    let later = now + u64::try_from((TIMEOUT / 10).as_nanos()).unwrap();
    let record = write(&mut stores, &mut counts, later).unwrap();
    assert_eq!((record.percent, record.updated_at), (1, later));
    assert_eq!(write(&mut stores, &mut counts, later * 2), None, "no progress, no word of it");
}

fn partition(name: &str) -> PartitionName {
    name.parse().unwrap()
}

#[test]
fn each_partition_has_its_own_figure_and_the_collection_their_average() {
    let mut stores = held(4, 0);
    let load = PartitionLoad { status: LoadStatus::Loading, percent: 0, created_at: 1, updated_at: 1 };
    let mut record = stores.loads.get(COLLECTION).unwrap().clone();
    record.partitions = ["p1", "p2", "p3"].map(|name| (partition(name), load.clone())).into();
    stores.loads.insert(record);
    let store = &stores.collections[&COLLECTION];
    let of = |segment: TargetSegment| {
        let name = if segment.id.0 == 1 { "p1" } else { "p2" };
        TargetSegment { partition: partition(name), ..segment }
    };
    let segments: Vec<TargetSegment> = store.segments.values().map(|s| of(s.in_target())).collect();
    let target = Target::new(
        COLLECTION,
        TargetVersion(2),
        store.shards(),
        ["p1", "p2", "p3"].map(partition),
        segments,
    );
    stores.targets.set_next(target);
    stores.targets.promote(COLLECTION);
    report(&mut stores, "n1", 1, SegmentReport::Held);
    settle(&mut stores);
    let mut counts = CarriedCounts::default();
    let record = write(&mut stores, &mut counts, 5).unwrap();
    // Shard and segment of p1; the shard and none of three segments of p2; the shard alone of p3.
    let percents: Vec<u8> = record.partitions.values().map(|partition| partition.percent).collect();
    assert_eq!(percents, [100, 25, 100]);
    assert_eq!((record.percent, record.status), (75, LoadStatus::Loading));
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
    settle(&mut stores);
    let shown = show_load(&stores, &stores.snapshot().wired(), COLLECTION, None).unwrap();
    assert_eq!((shown.segments, shown.rows, shown.serving), (2, 7, true));
    let (east, west) = (&shown.groups["east"], &shown.groups["west"]);
    assert_eq!((east.percent, east.readiness.is_ready(), east.held, east.wanted), (100, true, 2, 2));
    assert_eq!((west.percent, west.readiness.is_ready(), west.held, west.failures.len()), (33, false, 0, 1));
    assert_eq!((west.failures[0].node.as_str(), west.failures[0].segment.as_str()), ("n2", "s00002"));
    assert_eq!(
        show_load(&stores, &stores.snapshot().wired(), COLLECTION, Some(&group("east")))
            .unwrap()
            .groups
            .len(),
        1
    );
    let serviceable: Vec<bool> =
        stores.replicas_of(COLLECTION).map(|replica| is_serviceable(&stores, replica)).collect();
    assert_eq!(serviceable, [true, false]);
}

#[test]
fn a_collection_without_segments_is_served_as_soon_as_its_shards_are_led() {
    let mut stores = held(0, 0);
    promote(&mut stores);
    settle(&mut stores);
    let record = write(&mut stores, &mut CarriedCounts::default(), 5).unwrap();
    assert_eq!((record.percent, record.status), (100, LoadStatus::Loaded));
    assert!(
        show_load(&stores, &stores.snapshot().wired(), COLLECTION, None).unwrap().groups["east"]
            .readiness
            .is_ready()
    );
}
