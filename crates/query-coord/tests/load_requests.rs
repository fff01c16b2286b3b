//! What is asked for, and what that changes.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{ErrorCode, PartitionName, ReplicaId, catalog::Segment};
use pointsman_query_coord::{
    GroupWait, LoadChange, LoadKind, LoadPlan, LoadRequest, LoadStatus, NewReplica, PartialRelease, Replica,
    ReplicaNumbers, ReplicaRequest, Stores, plan_load, plan_partial_release, plan_update,
};
use proptest::prelude::*;
use world::*;

const WAIT: GroupWait = GroupWait { now: 50, at_most: Duration::from_secs(300) };

fn partition(name: &str) -> PartitionName {
    name.parse().unwrap()
}

fn numbers(each: &[(&str, u32)]) -> ReplicaNumbers {
    each.iter().map(|(name, number)| (group(name), *number)).collect()
}

fn request(number: i64, groups: &[&str]) -> ReplicaRequest {
    let groups = groups.iter().map(|name| (*name).to_owned()).collect();
    ReplicaRequest { number, groups, ..ReplicaRequest::default() }
}

fn in_partition(id: u64, name: &str) -> Segment {
    let mut segment = segment(id, 1, 1);
    segment.content.partition = partition(name);
    segment
}

/// Two groups of two nodes, and a collection of one shard with a segment in each of three partitions.
fn stores() -> Stores {
    let mut stores = world(&[("default", &["n5"]), ("east", &["n1", "n2"]), ("west", &["n3", "n4"])]);
    collection(&mut stores, 1, &[]);
    let store = stores.collections.get_mut(&COLLECTION).unwrap();
    for (id, name) in [(1, "p1"), (2, "p2"), (3, "p3")] {
        store.insert(in_partition(id, name));
    }
    stores
}

fn plan(stores: &Stores, request: &LoadRequest) -> Option<LoadPlan> {
    plan_load(stores, &stores.collections[&COLLECTION], request, WAIT).unwrap()
}

fn of_partitions(names: &[&str], adds: bool) -> LoadRequest {
    let partitions = Some(names.iter().map(|name| partition(name)).collect());
    LoadRequest { partitions, adds, ..LoadRequest::default() }
}

/// Lets a change take effect as if it was written.
fn apply(stores: &mut Stores, change: LoadChange) {
    let first = stores.replicas.iter().map(|replica| replica.id.0).max().unwrap_or(0) + 1;
    let made = |(new, id): (&NewReplica, u64)| Replica {
        id: ReplicaId(id),
        collection: new.collection,
        group: new.group.clone(),
        nodes: new.nodes.iter().cloned().collect(),
        ro_nodes: Default::default(),
        query_visible: new.query_visible,
        finished: false,
        waits_for_group_since: new.waits_for_group_since,
    };
    let created = change.created.iter().zip(first..).map(made).collect();
    stores.apply(change, created);
}

fn load_it(stores: &mut Stores, request: &LoadRequest) {
    let plan = plan(stores, request).unwrap();
    apply(stores, plan.change);
}

/// As if everything that is registered had been loaded.
fn finish(stores: &mut Stores) {
    let mut record = stores.loads.get(COLLECTION).unwrap().clone();
    let now = pointsman_clock::WallTime(60);
    record.partitions.values_mut().for_each(|load| *load = load.reached(100, now));
    stores.loads.insert(record.averaged(now));
}

#[test]
fn numbers_follow_from_what_is_said() {
    let stores = stores();
    let said = |number, groups: &[&str]| request(number, groups).numbers(&stores).map_err(|e| e.code());
    assert_eq!(said(0, &[]), Ok(numbers(&[("default", 1)])));
    assert_eq!(said(-3, &[]), Ok(numbers(&[("default", 1)])));
    assert_eq!(said(2, &["east"]), Ok(numbers(&[("east", 2)])));
    assert_eq!(said(3, &["east", "west", "east"]), Ok(numbers(&[("east", 2), ("west", 1)])));
    assert_eq!(said(0, &["east", "west"]), Ok(numbers(&[("east", 1), ("west", 1)])));
    assert_eq!(said(3, &["east", "west"]), Err(ErrorCode::ParameterInvalid));
    assert_eq!(said(1, &["north"]), Err(ErrorCode::ResourceGroupNotFound));
    assert_eq!(said(65, &[]), Err(ErrorCode::ParameterInvalid));
    let per_group: BTreeMap<String, u32> = [("east".to_owned(), 2), ("west".to_owned(), 0)].into();
    let mut said = ReplicaRequest { per_group, ..request(9, &[]) };
    assert_eq!(said.numbers(&stores).unwrap(), numbers(&[("east", 2)]));
    said.per_group = [("east".to_owned(), 0)].into();
    assert_eq!(said.numbers(&stores).unwrap_err().code(), ErrorCode::ParameterInvalid);
}

#[test]
fn what_is_not_said_of_a_loaded_collection_stays_as_it_is() {
    let stores = stores();
    let present = numbers(&[("east", 1), ("west", 2)]);
    let said = |number, groups: &[&str]| {
        request(number, groups).numbers_after(&stores, &present).map_err(|e| e.code())
    };
    assert_eq!(said(0, &[]), Ok(present.clone()));
    assert_eq!(said(3, &[]), Ok(present.clone()));
    assert_eq!(said(2, &[]), Ok(numbers(&[("east", 1), ("west", 1)])), "one in each group that it is in");
    assert_eq!(said(4, &[]), Err(ErrorCode::ParameterInvalid), "where should they go");
    assert_eq!(said(0, &["east"]), Ok(numbers(&[("east", 3)])));
}

#[test]
fn a_first_load_registers_everything_and_needs_nodes() {
    let mut stores = stores();
    let request = LoadRequest { replicas: request(2, &["east", "west"]), ..LoadRequest::default() };
    let plan = plan(&stores, &request).unwrap();
    let record = &plan.change.records[0];
    assert_eq!((record.kind, record.status, record.percent), (LoadKind::Collection, LoadStatus::Loading, 0));
    assert_eq!((record.replicas, record.replicas_chosen, record.partitions.len()), (2, true, 3));
    let nodes: Vec<usize> = plan.change.created.iter().map(|new| new.nodes.len()).collect();
    assert_eq!(nodes, [2, 2], "nodes are divided at once");
    assert!(plan.warning.is_none() && plan.dropped.is_empty());
    apply(&mut stores, plan.change);
    assert!(plan_load(&stores, &stores.collections[&COLLECTION], &request, WAIT).unwrap().is_none());

    let mut stores = self::stores();
    let many = LoadRequest { replicas: self::request(3, &["east"]), ..LoadRequest::default() };
    let refused = plan_load(&stores, &stores.collections[&COLLECTION], &many, WAIT).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ResourceGroupNotEnoughNodes);
    load_it(&mut stores, &LoadRequest::default());
    let plan = self::plan(&stores, &many).unwrap();
    assert_eq!(plan.warning.unwrap().code(), ErrorCode::ResourceGroupNotEnoughNodes, "later only a warning");
    assert!(!stores.loads.get(COLLECTION).unwrap().replicas_chosen);
}

#[test]
fn defaults_hold_for_a_first_load_that_says_nothing() {
    let stores = stores();
    let defaults = request(2, &["west"]);
    let silent = LoadRequest { defaults: defaults.clone(), ..LoadRequest::default() };
    let plan = plan(&stores, &silent).unwrap();
    assert_eq!(plan.change.created.len(), 2);
    assert!(plan.change.created.iter().all(|new| new.group == group("west")));
    assert!(!plan.change.records[0].replicas_chosen);
    let loud = LoadRequest { replicas: request(1, &[]), defaults, ..LoadRequest::default() };
    assert_eq!(self::plan(&stores, &loud).unwrap().change.created[0].group, group("default"));
}

/// What a timeout took from a load comes back by the same request.
#[test]
fn groups_that_are_listed_get_a_replica_each_whatever_is_left() {
    let mut stores = stores();
    load_it(&mut stores, &LoadRequest { replicas: request(0, &["east"]), ..LoadRequest::default() });
    finish(&mut stores);
    let both = LoadRequest { replicas: request(0, &["east", "west"]), ..LoadRequest::default() };
    load_it(&mut stores, &both);
    assert_eq!(
        replicas(&stores).iter().map(|(_, group)| group.as_str()).collect::<Vec<_>>(),
        ["east", "west"]
    );
    finish(&mut stores);
    assert_eq!(plan(&stores, &both), None, "it is what is there");
}

#[test]
fn partitions_that_are_loaded_keep_their_figure_and_others_begin_at_nothing() {
    let mut stores = stores();
    load_it(&mut stores, &of_partitions(&["p1", "p2"], false));
    finish(&mut stores);
    let plan = plan(&stores, &of_partitions(&["p2", "p3"], false)).unwrap();
    let record = &plan.change.records[0];
    let shown: Vec<(&str, u8)> =
        record.partitions.iter().map(|(name, load)| (name.as_str(), load.percent)).collect();
    assert_eq!(shown, [("p2", 100), ("p3", 0)]);
    assert_eq!((record.kind, record.status, record.percent), (LoadKind::Partitions, LoadStatus::Loading, 50));
    assert_eq!(plan.dropped, [partition("p1")]);
    assert!(plan.change.created.is_empty() && plan.change.removed.is_empty(), "replicas stay");
}

#[test]
fn partitions_may_be_added_and_a_whole_collection_has_them_all() {
    let mut stores = stores();
    load_it(&mut stores, &of_partitions(&["p1"], true));
    let plan = plan(&stores, &of_partitions(&["p3"], true)).unwrap();
    let names: Vec<&str> = plan.change.records[0].partitions.keys().map(PartitionName::as_str).collect();
    assert_eq!((names, plan.dropped.len()), (vec!["p1", "p3"], 0));
    assert!(self::plan(&stores, &of_partitions(&["p1"], true)).is_none(), "it is registered");
    let whole = self::plan(&stores, &LoadRequest::default()).unwrap();
    assert_eq!(whole.change.records[0].partitions.len(), 3);
    apply(&mut stores, whole.change);
    assert!(self::plan(&stores, &of_partitions(&["p2"], true)).is_none());
    let only = self::plan(&stores, &of_partitions(&["p2"], false)).unwrap();
    assert_eq!(only.dropped, [partition("p1"), partition("p3")]);
}

#[test]
fn a_partition_that_is_not_there_is_named() {
    let stores = stores();
    let store = &stores.collections[&COLLECTION];
    let refused = plan_load(&stores, store, &of_partitions(&["p1", "p9"], false), WAIT).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PartitionNotFound);
    assert!(
        refused.message().contains("'p9'") && refused.message().ends_with("there are: p1, p2, p3"),
        "{refused}"
    );
    let mut empty = self::stores();
    collection(&mut empty, 1, &[]);
    let plan = plan(&empty, &LoadRequest::default()).unwrap();
    assert!(plan.change.records[0].partitions.contains_key("default"), "it is loaded all the same");
}

#[test]
fn a_new_load_forgets_what_failed_and_which_groups_were_given_up_that_it_is_for() {
    let mut stores = stores();
    let now = pointsman_clock::WallTime(7);
    let error = pointsman_ids::Error::new(ErrorCode::SegmentLoadFailed, "no room");
    stores.failed_loads.record(COLLECTION, &error, now);
    for name in ["east", "west"] {
        stores.failed_loads.drop_group(COLLECTION, group(name), "stuck", now);
    }
    load_it(&mut stores, &LoadRequest { replicas: request(1, &["east"]), ..LoadRequest::default() });
    assert_eq!(stores.failed_loads.get(COLLECTION), None);
    let dropped: Vec<&str> =
        stores.failed_loads.dropped_groups(COLLECTION).map(|(name, _)| name.as_str()).collect();
    assert_eq!(dropped, ["west"]);
}

#[test]
fn partitions_are_released_one_by_one_and_the_last_takes_the_collection_along() {
    let mut stores = stores();
    let now = pointsman_clock::WallTime(70);
    let release = |stores: &Stores, names: &[&str]| {
        let names: Vec<PartitionName> = names.iter().map(|name| partition(name)).collect();
        plan_partial_release(stores, COLLECTION, &names, now)
    };
    assert_eq!(release(&stores, &[]).unwrap_err().code(), ErrorCode::ParameterInvalid);
    assert_eq!(release(&stores, &["p1"]).unwrap(), PartialRelease::Nothing);
    load_it(&mut stores, &LoadRequest::default());
    finish(&mut stores);
    assert_eq!(release(&stores, &["p9"]).unwrap(), PartialRelease::Nothing);
    let PartialRelease::Some(change) = release(&stores, &["p1", "p9"]).unwrap() else { panic!("a part") };
    let record = &change.records[0];
    assert_eq!(
        (record.kind, record.status, record.partitions.len()),
        (LoadKind::Partitions, LoadStatus::Loaded, 2)
    );
    assert_eq!(record.updated_at, 60, "that was no progress");
    apply(&mut stores, change);
    assert_eq!(release(&stores, &["p2", "p3"]).unwrap(), PartialRelease::All);
}

/// Replicas by number with their groups.
fn replicas(stores: &Stores) -> Vec<(u64, String)> {
    stores.replicas_of(COLLECTION).map(|replica| (replica.id.0, replica.group.to_string())).collect()
}

fn update(stores: &mut Stores, wanted: &[(&str, u32)], wait: bool) -> Option<LoadChange> {
    let record = stores.loads.get(COLLECTION).unwrap();
    let change = plan_update(stores, record, &numbers(wanted), true, wait, WAIT)?;
    apply(stores, change.clone());
    Some(change)
}

#[test]
fn an_update_moves_what_it_can_and_creates_what_lacks() {
    let mut stores = stores();
    load_it(&mut stores, &LoadRequest { replicas: request(2, &["east"]), ..LoadRequest::default() });
    finish(&mut stores);
    assert!(update(&mut stores, &[("east", 2)], false).is_none(), "nothing changes");
    let change = update(&mut stores, &[("east", 1), ("west", 2)], true).unwrap();
    assert_eq!(replicas(&stores), [(1, "east".into()), (2, "west".into()), (3, "west".into())]);
    assert_eq!(change.created.len(), 1);
    let new = stores.replicas.get(ReplicaId(3)).unwrap();
    assert_eq!((new.query_visible, stores.replicas.get(ReplicaId(2)).unwrap().query_visible), (false, true));
    let record = stores.loads.get(COLLECTION).unwrap();
    assert_eq!((record.status, record.percent, record.replicas), (LoadStatus::Loaded, 100, 3), "reads go on");

    update(&mut stores, &[("west", 1)], false).unwrap();
    // East is not wanted, west has one too many: the first two of these go, in order of group and number.
    assert_eq!(replicas(&stores), [(2, "west".into())]);
    update(&mut stores, &[("default", 1)], false).unwrap();
    assert_eq!(replicas(&stores), [(2, "default".into())], "it moved");
}

proptest! {
    /// Whatever is wanted comes about, with as few replicas released and created as can be, and none of them twice.
    #[test]
    fn an_update_gives_what_is_wanted(
        before in prop::collection::btree_map(0..3_usize, 1..4_u32, 1..3),
        after in prop::collection::btree_map(0..3_usize, 1..4_u32, 1..3),
    ) {
        let named = |each: &BTreeMap<usize, u32>| -> Vec<(&str, u32)> {
            each.iter().map(|(at, number)| (["default", "east", "west"][*at], *number)).collect()
        };
        let total = |each: &BTreeMap<usize, u32>| usize::try_from(each.values().sum::<u32>()).unwrap();
        let mut stores = stores();
        load_it(&mut stores, &LoadRequest::default());
        update(&mut stores, &named(&before), false);
        let change = update(&mut stores, &named(&after), false).unwrap_or_default();
        prop_assert_eq!(
            pointsman_query_coord::present_numbers(stores.replicas_of(COLLECTION)), numbers(&named(&after))
        );
        prop_assert_eq!(change.removed.len(), total(&before).saturating_sub(total(&after)));
        prop_assert_eq!(change.created.len(), total(&after).saturating_sub(total(&before)));
    }
}

#[test]
fn what_was_said_of_a_load_outlives_later_ones_that_do_not_say_it() {
    let mut stores = stores();
    let replicas = request(2, &["east"]);
    load_it(&mut stores, &LoadRequest { replicas, ..of_partitions(&["p1"], false) });
    let first = stores.loads.get(COLLECTION).unwrap().clone();
    assert!(first.replicas_chosen && first.created_at == WAIT.now);
    let later = GroupWait { now: 90, ..WAIT };
    let more = of_partitions(&["p2"], true);
    let plan = plan_load(&stores, &stores.collections[&COLLECTION], &more, later).unwrap().unwrap();
    let record = &plan.change.records[0];
    assert_eq!((record.replicas, record.replicas_chosen), (2, true), "somebody chose their number");
    assert_eq!((record.created_at, record.updated_at), (WAIT.now, 90));
}

#[test]
fn nodes_that_were_not_heard_yet_count_for_a_first_load_and_disabled_ones_do_not() {
    let mut stores = stores();
    let wanted = LoadRequest { replicas: request(2, &["east"]), ..LoadRequest::default() };
    let refused = |stores: &Stores| {
        let planned = plan_load(stores, &stores.collections[&COLLECTION], &wanted, WAIT);
        planned.err().map(|error| (error.code(), error.message().to_owned()))
    };
    assert_eq!(refused(&stores), None);
    stores.nodes.get_mut("n1").unwrap().switched_on = false;
    let (code, text) = refused(&stores).unwrap();
    assert_eq!(code, ErrorCode::ResourceGroupNotEnoughNodes);
    assert!(text.contains("disabled by an operator: n1"), "{text}");
    stores.nodes.get_mut("n1").unwrap().switched_on = true;
    stores.observed.remove("n2");
    assert_eq!(refused(&stores).unwrap().0, ErrorCode::ResourceGroupNotEnoughNodes, "its lease is over");
    stores.awaiting = true;
    assert_eq!(refused(&stores), None, "it may be there");
}
