//! Registrations, replicas, current targets and failures.

use pointsman_ids::{CollectionId, Epoch, ErrorCode, ReplicaId};
use pointsman_metastore::SharedMetastore;
use pointsman_query_coord::{
    CollectionFailures, DroppedGroup, FailedLoad, LoadChange, LoadRecord, NewReplica, Replica, Target,
};

use crate::{
    fixture::Fixture,
    refused,
    samples::{NOW, collection, group, load, name, nodes, target},
};

fn replica_in(collection: CollectionId, group: &str) -> NewReplica {
    let nodes = nodes(&["n2", "n1"]);
    NewReplica { collection, group: name(group), nodes, query_visible: true, waits_for_group_since: None }
}

fn registering(record: LoadRecord, created: Vec<NewReplica>) -> LoadChange {
    LoadChange { records: vec![record], created, ..LoadChange::default() }
}

fn promoting(target: &Target) -> LoadChange {
    LoadChange { targets: vec![target.clone()], ..LoadChange::default() }
}

fn releasing(collection: CollectionId) -> LoadChange {
    LoadChange { released: vec![collection], ..LoadChange::default() }
}

/// A collection with two replicas.
async fn loaded(metastore: &SharedMetastore, epoch: Epoch) -> (CollectionId, Vec<Replica>) {
    let id = collection(metastore, epoch, "orders").await.id;
    group(metastore, epoch, "east").await;
    let change = registering(load(id, 0), vec![replica_in(id, "east"), replica_in(id, "default")]);
    (id, metastore.change_loads(epoch, &change).await.unwrap())
}

/// Everything that a change of loads can change.
async fn all(metastore: &SharedMetastore) -> String {
    format!(
        "{:?} {:?} {:?} {:?}",
        metastore.loads().await.unwrap(),
        metastore.replicas().await.unwrap(),
        metastore.current_targets().await.unwrap(),
        metastore.failed_loads().await.unwrap(),
    )
}

pub(crate) async fn a_load_reads_back_whole(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (id, made) = loaded(&metastore, epoch).await;
    let expected = |number, group: &str| Replica {
        id: ReplicaId(number),
        collection: id,
        group: name(group),
        nodes: nodes(&["n1", "n2"]),
        ro_nodes: nodes(&[]),
        query_visible: true,
        finished: false,
        waits_for_group_since: None,
    };
    assert_eq!(made, [expected(1, "east"), expected(2, "default")]);
    assert_eq!(metastore.replicas().await.unwrap(), made);
    assert_eq!(metastore.loads().await.unwrap(), [load(id, 0)]);
    assert!(metastore.current_targets().await.unwrap().is_empty());
    let waiting =
        NewReplica { query_visible: false, waits_for_group_since: Some(NOW), ..replica_in(id, "east") };
    let change = LoadChange { created: vec![waiting], ..LoadChange::default() };
    let made = metastore.change_loads(epoch, &change).await.unwrap();
    assert_eq!((made[0].query_visible, made[0].waits_for_group_since), (false, Some(NOW)));
    assert_eq!(metastore.replicas().await.unwrap()[2], made[0]);
}

pub(crate) async fn a_load_needs_collection_and_groups_or_nothing_changes(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let stranger = CollectionId(5);
    let change = registering(load(stranger, 0), vec![replica_in(stranger, "default")]);
    refused(ErrorCode::CollectionNotFound, metastore.change_loads(epoch, &change).await);
    let (id, made) = loaded(&metastore, epoch).await;
    let before = all(&metastore).await;
    let moved = Replica { group: name("north"), ..made[0].clone() };
    let changes = [
        registering(load(id, 70), vec![replica_in(id, "default"), replica_in(id, "north")]),
        LoadChange { replicas: vec![moved], ..releasing(id) },
        LoadChange { records: vec![load(stranger, 0)], ..releasing(id) },
    ];
    for change in changes {
        metastore.change_loads(epoch, &change).await.unwrap_err();
        assert_eq!(all(&metastore).await, before);
    }
}

pub(crate) async fn a_registration_is_written_whole(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (id, _) = loaded(&metastore, epoch).await;
    let mut done = LoadRecord { replicas: 7, recoveries: 3, replicas_chosen: false, ..load(id, 100) };
    metastore.change_loads(epoch, &registering(done.clone(), vec![])).await.unwrap();
    assert_eq!(metastore.loads().await.unwrap(), std::slice::from_ref(&done));
    done.partitions.remove("p1");
    let late = done.partitions["p2"].clone();
    done.partitions.insert(name("p3"), pointsman_query_coord::PartitionLoad { percent: 5, ..late });
    metastore.change_loads(epoch, &registering(done.clone(), vec![])).await.unwrap();
    assert_eq!(metastore.loads().await.unwrap(), std::slice::from_ref(&done));
    done.partitions.clear();
    metastore.change_loads(epoch, &registering(done.clone(), vec![])).await.unwrap();
    assert_eq!(metastore.loads().await.unwrap(), [done], "none is a lawful state");
}

pub(crate) async fn replicas_are_written_whole_and_removed(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (id, mut made) = loaded(&metastore, epoch).await;
    made[1].group = name("east");
    made[1].nodes = nodes(&["n3"]);
    made[1].ro_nodes = nodes(&["n1", "n2"]);
    made[1].query_visible = false;
    made[1].finished = true;
    made[1].waits_for_group_since = Some(NOW);
    let gone = Replica { id: ReplicaId(99), ..made[0].clone() };
    let change = LoadChange { replicas: vec![made[1].clone(), gone], ..LoadChange::default() };
    metastore.change_loads(epoch, &change).await.unwrap();
    assert_eq!(metastore.replicas().await.unwrap(), made);
    let removed = vec![(id, made[0].id), (id, ReplicaId(99))];
    metastore.change_loads(epoch, &LoadChange { removed, ..LoadChange::default() }).await.unwrap();
    assert_eq!(metastore.replicas().await.unwrap(), made[1..]);
}

pub(crate) async fn a_promoted_target_replaces_the_former_one(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (collection, _) = loaded(&metastore, epoch).await;
    for (version, segments) in [(NOW, 1..2_001), (NOW + 1, 1..1)] {
        let target = target(collection, version, segments);
        metastore.change_loads(epoch, &promoting(&target)).await.unwrap();
        assert_eq!(metastore.current_targets().await.unwrap(), [target]);
    }
}

pub(crate) async fn nothing_is_promoted_without_a_registration(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (collection, _) = loaded(&metastore, epoch).await;
    let target = target(collection, NOW, [1]);
    let change = LoadChange { targets: vec![target.clone()], ..releasing(collection) };
    metastore.change_loads(epoch, &change).await.unwrap();
    metastore.change_loads(epoch, &promoting(&target)).await.unwrap();
    assert!(metastore.current_targets().await.unwrap().is_empty());
}

pub(crate) async fn a_release_forgets_replicas_and_target(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (id, _) = loaded(&metastore, epoch).await;
    metastore.change_loads(epoch, &promoting(&target(id, NOW, [1]))).await.unwrap();
    for _ in 0..2 {
        metastore.change_loads(epoch, &releasing(id)).await.unwrap();
        assert!(metastore.loads().await.unwrap().is_empty());
        assert!(metastore.replicas().await.unwrap().is_empty());
        assert!(metastore.current_targets().await.unwrap().is_empty());
    }
    let change = registering(load(id, 0), vec![]);
    metastore.change_loads(epoch, &change).await.unwrap();
    assert_eq!(metastore.loads().await.unwrap(), [load(id, 0)], "it can be loaded again");
}

pub(crate) async fn replica_ids_are_never_used_again(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (id, first) = loaded(&metastore, epoch).await;
    metastore.change_loads(epoch, &releasing(id)).await.unwrap();
    let change = registering(load(id, 0), vec![replica_in(id, "east")]);
    let second = metastore.change_loads(epoch, &change).await.unwrap();
    assert!(second[0].id > first[1].id);
}

pub(crate) async fn failures_outlive_the_registration_and_are_replaced_whole(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (collection, _) = loaded(&metastore, epoch).await;
    let failed = |count| FailedLoad { count, text: "node 'n1' has no room".into(), last: NOW };
    let dropped = DroppedGroup { text: "no progress".into(), last: NOW + 1 };
    let failures = CollectionFailures {
        collection,
        codes: [(ErrorCode::SegmentLoadFailed, failed(3)), (ErrorCode::ServiceNotReady, failed(1))].into(),
        groups: [(name("east"), dropped)].into(),
    };
    let change = LoadChange { failures: vec![failures.clone()], ..releasing(collection) };
    metastore.change_loads(epoch, &change).await.unwrap();
    assert_eq!(metastore.failed_loads().await.unwrap(), std::slice::from_ref(&failures));
    let mut fewer = failures;
    fewer.codes.remove(&ErrorCode::ServiceNotReady);
    fewer.groups.clear();
    let change = LoadChange { failures: vec![fewer.clone()], ..LoadChange::default() };
    metastore.change_loads(epoch, &change).await.unwrap();
    assert_eq!(metastore.failed_loads().await.unwrap(), std::slice::from_ref(&fewer));
    fewer.codes.clear();
    let change = LoadChange { failures: vec![fewer], ..LoadChange::default() };
    metastore.change_loads(epoch, &change).await.unwrap();
    assert!(metastore.failed_loads().await.unwrap().is_empty());
}
