//! How loads end that do not go on, and what is known of it then.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::time::Duration;

use pointsman_clock::WallTime;
use pointsman_ids::{Error, ErrorCode, PartitionName, ReplicaId};
use pointsman_query_coord::{
    EndedLoad, LoadKind, LoadStatus, PartitionLoad, SegmentReport, SessionState, Stores, newly_visible,
    recovered, shortfall, standstill, timed_out,
};
use world::*;

const TIMEOUT: Duration = Duration::from_secs(600);
const LATE: WallTime = WallTime(700_000_000_000);

/// Two groups of one node; east holds and leads everything of a target that is served, west nothing.
fn half_loaded() -> Stores {
    let mut stores = world(&[("east", &["n1"]), ("west", &["n2"])]);
    collection(&mut stores, 1, &[1, 1]);
    load(&mut stores, &[("east", 1), ("west", 1)]);
    for id in [1, 2] {
        report(&mut stores, "n1", id, SegmentReport::Held);
    }
    settle(&mut stores);
    promote(&mut stores);
    settle(&mut stores);
    stores
}

fn end(stores: &mut Stores) -> EndedLoad {
    let ended = timed_out(stores, COLLECTION, LATE, TIMEOUT).unwrap();
    stores.apply(ended.change.clone(), Vec::new());
    ended
}

fn partition(name: &str) -> PartitionName {
    name.parse().unwrap()
}

#[test]
fn a_load_has_its_time_from_its_last_progress() {
    let stores = half_loaded();
    let at = |seconds| WallTime(1 + Duration::from_secs(seconds).as_nanos() as u64);
    assert_eq!(timed_out(&stores, COLLECTION, at(600), TIMEOUT), None);
    assert!(timed_out(&stores, COLLECTION, WallTime(at(600).0 + 1), TIMEOUT).is_some());
}

#[test]
fn what_serves_alone_stays_and_is_loaded() {
    let mut stores = half_loaded();
    let ended = end(&mut stores);
    assert_eq!(ended.stays, 1);
    let left: Vec<&str> = stores.replicas_of(COLLECTION).map(|replica| replica.group.as_str()).collect();
    assert_eq!(left, ["east"]);
    let record = stores.loads.get(COLLECTION).unwrap();
    assert_eq!((record.status, record.percent, record.replicas), (LoadStatus::Loaded, 100, 1));
    assert!(stores.targets.current(COLLECTION).is_some());
    let dropped: Vec<(&str, &str)> = stores
        .failed_loads
        .dropped_groups(COLLECTION)
        .map(|(group, dropped)| (group.as_str(), dropped.text.as_str()))
        .collect();
    assert_eq!(dropped.len(), 1);
    let (group, text) = dropped[0];
    assert_eq!(group, "west");
    for part in ["no progress for 699 s", "'west'", "'n2'", "'s00001'"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, failed) = stores.failed_loads.get(COLLECTION).unwrap();
    assert_eq!((code, failed.count, failed.text.as_str()), (ErrorCode::SegmentLoadFailed, 1, text));
}

#[test]
fn where_nothing_serves_everything_goes_and_the_reason_stays() {
    let mut stores = half_loaded();
    set(&mut stores, "n1", SessionState::Lost);
    let error = Error::new(ErrorCode::SegmentRequestResourceFailed, "needs 5, has 4");
    for at in [1, 2] {
        assert!(stores.failed_loads.record(COLLECTION, &error, WallTime(at)));
    }
    end(&mut stores);
    assert!(stores.loads.get(COLLECTION).is_none() && stores.replicas.of(COLLECTION).is_empty());
    assert!(stores.targets.current(COLLECTION).is_none() && stores.targets.next(COLLECTION).is_none());
    assert!(stores.leads.is_empty());
    let (code, failed) = stores.failed_loads.get(COLLECTION).unwrap();
    assert_eq!((code, failed.text.as_str()), (ErrorCode::SegmentRequestResourceFailed, "needs 5, has 4"));
    assert_eq!(stores.failed_loads.iter().count(), 2, "how it ended is known as well");
}

/// Partitions as (name, status, updated at).
fn partitions(stores: &mut Stores, each: &[(&str, LoadStatus, u64)]) {
    of_kind(LoadKind::Partitions, stores, each);
}

fn of_kind(kind: LoadKind, stores: &mut Stores, each: &[(&str, LoadStatus, u64)]) {
    let mut record = stores.loads.get(COLLECTION).unwrap().clone();
    record.kind = kind;
    record.partitions = each
        .iter()
        .map(|(name, status, updated_at)| {
            let percent = if *status == LoadStatus::Loaded { 100 } else { 10 };
            let load = PartitionLoad { status: *status, percent, created_at: 1, updated_at: *updated_at };
            (partition(name), load)
        })
        .collect();
    stores.loads.insert(record);
}

#[test]
fn a_load_of_partitions_ends_when_every_one_of_them_is_old() {
    let mut stores = half_loaded();
    partitions(&mut stores, &[("default", LoadStatus::Loading, 1), ("p2", LoadStatus::Loading, LATE.0 - 5)]);
    assert_eq!(timed_out(&stores, COLLECTION, LATE, TIMEOUT), None);
    partitions(&mut stores, &[("default", LoadStatus::Loading, 1), ("p2", LoadStatus::Loading, 5)]);
    end(&mut stores);
    // East serves the default partition alone; nobody serves the other one.
    let record = stores.loads.get(COLLECTION).unwrap();
    assert_eq!(record.partitions.keys().map(PartitionName::as_str).collect::<Vec<_>>(), ["default"]);
    assert_eq!((record.status, record.replicas), (LoadStatus::Loaded, 1));
}

#[test]
fn partitions_that_nobody_serves_go_and_what_was_loaded_before_stays_everywhere() {
    let mut stores = half_loaded();
    partitions(&mut stores, &[("default", LoadStatus::Loaded, 1), ("p2", LoadStatus::Loading, 5)]);
    end(&mut stores);
    let record = stores.loads.get(COLLECTION).unwrap();
    assert_eq!(record.partitions.len(), 1);
    assert_eq!(
        (record.status, record.replicas, stores.replicas.of(COLLECTION).len()),
        (LoadStatus::Loaded, 2, 2)
    );
    assert!(stores.failed_loads.get(COLLECTION).is_some());
}

/// Readiness, section 2.6: it was to be served as a whole.
#[test]
fn of_a_whole_collection_that_nobody_serves_no_finished_partition_stays() {
    let each = [("default", LoadStatus::Loaded, 1), ("p2", LoadStatus::Loading, 5)];
    let mut stores = half_loaded();
    of_kind(LoadKind::Collection, &mut stores, &each);
    set(&mut stores, "n1", SessionState::Lost);
    end(&mut stores);
    assert!(stores.loads.get(COLLECTION).is_none() && stores.replicas.of(COLLECTION).is_empty());
    assert!(stores.targets.current(COLLECTION).is_none() && stores.targets.next(COLLECTION).is_none());
}

/// Readiness, section 2.6: the others are removed.
#[test]
fn of_a_whole_collection_only_replicas_that_serve_it_stay() {
    let mut stores = half_loaded();
    of_kind(
        LoadKind::Collection,
        &mut stores,
        &[("default", LoadStatus::Loaded, 1), ("p2", LoadStatus::Loading, 5)],
    );
    end(&mut stores);
    let record = stores.loads.get(COLLECTION).unwrap();
    assert_eq!((record.status, record.percent, record.replicas), (LoadStatus::Loaded, 100, 1));
    assert_eq!(
        stores.replicas_of(COLLECTION).map(|replica| replica.group.as_str()).collect::<Vec<_>>(),
        ["east"]
    );
}

#[test]
fn a_standstill_says_what_is_in_the_way() {
    let mut stores = half_loaded();
    let patience = Duration::from_secs(60);
    assert_eq!(standstill(&stores, COLLECTION, WallTime(2), patience), None);
    fail(&mut stores, "n2", 1);
    report(&mut stores, "n2", 2, SegmentReport::Fetching);
    let text = standstill(&stores, COLLECTION, LATE, patience).unwrap().to_string();
    for part in
        ["no progress for 699 s because of", "segment 's00001': ", "checksum differs", "it is being fetched"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    set(&mut stores, "n2", SessionState::Lost);
    let text = standstill(&stores, COLLECTION, LATE, patience).unwrap().to_string();
    assert!(text.contains("node 'n2': it takes no work"), "{text}");
    let mut replica = stores.replicas.get(ReplicaId(2)).unwrap().as_ref().clone();
    replica.nodes.clear();
    stores.replicas.insert(replica);
    let standstill = standstill(&stores, COLLECTION, LATE, patience).unwrap();
    assert_eq!(standstill.causes.len(), 1, "{standstill}");
    assert_eq!((standstill.causes[0].group.as_str(), &standstill.causes[0].node), ("west", &None));
    assert_eq!(shortfall(&stores, COLLECTION, LATE, patience), [], "it has not finished");
}

/// Of something that is loaded it is told as well, once its newest target is old.
#[test]
fn a_group_that_does_not_serve_what_is_loaded_says_what_is_in_the_way() {
    let mut stores = half_loaded();
    of_kind(LoadKind::Collection, &mut stores, &[("default", LoadStatus::Loaded, 1)]);
    let mut record = stores.loads.get(COLLECTION).unwrap().clone();
    record.status = LoadStatus::Loaded;
    stores.loads.insert(record);
    let mut replica = stores.replicas.get(ReplicaId(2)).unwrap().as_ref().clone();
    replica.nodes.clear();
    stores.replicas.insert(replica);
    let patience = Duration::from_secs(60);
    let told = shortfall(&stores, COLLECTION, LATE, patience);
    let text = told.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(text.contains("resource group 'west': it has no node that takes work"), "{text}");
    let version = stores.next_first(COLLECTION).unwrap().version.0;
    assert_eq!(shortfall(&stores, COLLECTION, WallTime(version + 1), patience), []);
    assert_eq!(standstill(&stores, COLLECTION, LATE, patience), None, "it has finished");
}

#[test]
fn a_load_goes_on_after_a_restart_so_many_times_and_not_more() {
    let mut stores = half_loaded();
    for start in 1..=3 {
        let (change, ended) = recovered(&stores, WallTime(start * 100), 3);
        assert!(ended.is_empty());
        stores.apply(change, Vec::new());
        let record = stores.loads.get(COLLECTION).unwrap();
        assert_eq!((u64::from(record.recoveries), record.updated_at), (start, start * 100));
        assert!(record.partitions.values().all(|load| load.updated_at == start * 100));
    }
    let (change, ended) = recovered(&stores, LATE, 3);
    assert!(change.is_empty() && ended[0].change.released == [COLLECTION]);
    stores.apply(ended[0].change.clone(), Vec::new());
    assert!(stores.failed_loads.get(COLLECTION).unwrap().1.text.contains("started 4 times"));

    let mut stores = half_loaded();
    let record = stores.loads.get(COLLECTION).unwrap().clone();
    let done = record.partitions.iter().map(|(name, load)| (name.clone(), load.reached(100, LATE))).collect();
    stores.loads.insert(
        pointsman_query_coord::LoadRecord { partitions: done, recoveries: 2, ..record }.averaged(LATE),
    );
    assert_eq!(stores.loads.get(COLLECTION).unwrap().recoveries, 0, "it arrived");
    assert_eq!(recovered(&stores, LATE, 3), Default::default(), "what is loaded is loaded at once");
}

#[test]
fn a_record_without_replicas_is_released_and_replicas_without_a_record_go() {
    let mut stores = half_loaded();
    let mut record = stores.loads.get(COLLECTION).unwrap().clone();
    record.replicas = 0;
    stores.loads.insert(record);
    assert_eq!(recovered(&stores, LATE, 3).1[0].change.released, [COLLECTION]);
    // What it has loaded is nowhere.
    let mut record = stores.loads.get(COLLECTION).unwrap().clone();
    record.partitions.values_mut().for_each(|load| *load = load.reached(100, LATE));
    stores.loads.insert(record.averaged(LATE));
    assert_eq!(recovered(&stores, LATE, 3).1[0].change.released, [COLLECTION]);
    stores.loads.remove(COLLECTION);
    let (change, _) = recovered(&stores, LATE, 3);
    assert_eq!(change.removed, [(COLLECTION, ReplicaId(1)), (COLLECTION, ReplicaId(2))]);
}

#[test]
fn all_invisible_replicas_become_visible_at_once_or_none() {
    let mut stores = half_loaded();
    for id in [1, 2] {
        let mut replica = stores.replicas.get(ReplicaId(id)).unwrap().as_ref().clone();
        replica.query_visible = false;
        stores.replicas.insert(replica);
    }
    assert!(newly_visible(&stores).is_empty(), "west is not serviceable");
    for id in [1, 2] {
        report(&mut stores, "n2", id, SegmentReport::Held);
    }
    settle(&mut stores);
    let visible = newly_visible(&stores);
    assert_eq!(
        visible.iter().map(|replica| (replica.id.0, replica.query_visible)).collect::<Vec<_>>(),
        [(1, true), (2, true)]
    );
    visible.into_iter().for_each(|replica| stores.replicas.insert(replica));
    assert!(newly_visible(&stores).is_empty());
}
