//! Registrations, replicas and current targets.

use pointsman_ids::{CollectionId, Epoch, ErrorCode, ReplicaId, SegmentId, TargetVersion};
use pointsman_metastore::{NewReplica, SharedMetastore};
use pointsman_query_coord::{LoadRecord, LoadStatus, Replica, Target};

use crate::{
    fixture::Fixture,
    refused,
    samples::{NOW, collection, group, name, nodes},
};

fn record(collection: CollectionId) -> LoadRecord {
    LoadRecord {
        collection,
        replicas: 2,
        status: LoadStatus::Loading,
        percent: 0,
        created_at: NOW,
        updated_at: NOW + 1,
    }
}

fn replica_in(group: &str) -> NewReplica {
    NewReplica { group: name(group), nodes: nodes(&["n2", "n1"]) }
}

/// A collection with two replicas.
async fn loaded(metastore: &SharedMetastore, epoch: Epoch) -> (CollectionId, Vec<Replica>) {
    let id = collection(metastore, epoch, "orders").await.id;
    group(metastore, epoch, "east").await;
    let new = vec![replica_in("east"), replica_in("default")];
    (id, metastore.register_load(epoch, record(id), new).await.unwrap())
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
    };
    assert_eq!(made, [expected(1, "east"), expected(2, "default")]);
    assert_eq!(metastore.replicas().await.unwrap(), made);
    assert_eq!(metastore.loads().await.unwrap(), [record(id)]);
    assert!(metastore.current_targets().await.unwrap().is_empty());
}

pub(crate) async fn a_load_is_registered_once(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (id, made) = loaded(&metastore, epoch).await;
    let outcome = metastore.register_load(epoch, record(id), vec![replica_in("east")]).await;
    let refusal = refused(ErrorCode::ParameterInvalid, outcome);
    assert_eq!(refusal.message(), "collection 1 is registered for loading already; release it first");
    assert_eq!(metastore.replicas().await.unwrap(), made);
}

pub(crate) async fn a_load_needs_collection_and_groups(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let outcome = metastore.register_load(epoch, record(CollectionId(5)), vec![replica_in("default")]).await;
    refused(ErrorCode::CollectionNotFound, outcome);
    let id = collection(&metastore, epoch, "orders").await.id;
    let new = vec![replica_in("default"), replica_in("north")];
    refused(ErrorCode::ResourceGroupNotFound, metastore.register_load(epoch, record(id), new).await);
    assert!(metastore.loads().await.unwrap().is_empty());
    assert!(metastore.replicas().await.unwrap().is_empty());
}

pub(crate) async fn a_load_is_updated(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (id, _) = loaded(&metastore, epoch).await;
    let done = LoadRecord { status: LoadStatus::Loaded, percent: 100, updated_at: NOW + 9, ..record(id) };
    metastore.update_load(epoch, &done).await.unwrap();
    assert_eq!(metastore.loads().await.unwrap(), [done]);
    metastore.update_load(epoch, &record(CollectionId(99))).await.unwrap();
    assert_eq!(metastore.loads().await.unwrap().len(), 1);
}

pub(crate) async fn replicas_are_written_whole(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (_, mut made) = loaded(&metastore, epoch).await;
    made[1].nodes = nodes(&["n3"]);
    made[1].ro_nodes = nodes(&["n1", "n2"]);
    made[1].query_visible = false;
    made[1].finished = true;
    let gone = Replica { id: ReplicaId(99), ..made[0].clone() };
    metastore.update_replicas(epoch, &[made[1].clone(), gone]).await.unwrap();
    assert_eq!(metastore.replicas().await.unwrap(), made);
}

pub(crate) async fn a_promoted_target_replaces_the_former_one(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (collection, _) = loaded(&metastore, epoch).await;
    let first =
        Target { collection, version: TargetVersion(NOW), segments: (1..=2_000).map(SegmentId).collect() };
    metastore.promote(epoch, &first).await.unwrap();
    assert_eq!(metastore.current_targets().await.unwrap(), [first]);
    let second = Target { collection, version: TargetVersion(NOW + 1), segments: Vec::new() };
    metastore.promote(epoch, &second).await.unwrap();
    assert_eq!(metastore.current_targets().await.unwrap(), [second]);
}

pub(crate) async fn nothing_is_promoted_without_a_registration(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (collection, _) = loaded(&metastore, epoch).await;
    metastore.release_load(epoch, collection).await.unwrap();
    let target = Target { collection, version: TargetVersion(NOW), segments: vec![SegmentId(1)] };
    metastore.promote(epoch, &target).await.unwrap();
    assert!(metastore.current_targets().await.unwrap().is_empty());
}

pub(crate) async fn a_release_forgets_replicas_and_target(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (id, _) = loaded(&metastore, epoch).await;
    let target = Target { collection: id, version: TargetVersion(NOW), segments: vec![SegmentId(1)] };
    metastore.promote(epoch, &target).await.unwrap();
    metastore.release_load(epoch, id).await.unwrap();
    metastore.release_load(epoch, id).await.unwrap();
    assert!(metastore.loads().await.unwrap().is_empty());
    assert!(metastore.replicas().await.unwrap().is_empty());
    assert!(metastore.current_targets().await.unwrap().is_empty());
}

pub(crate) async fn replica_ids_are_never_used_again(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let (id, first) = loaded(&metastore, epoch).await;
    metastore.release_load(epoch, id).await.unwrap();
    let second = metastore.register_load(epoch, record(id), vec![replica_in("east")]).await.unwrap();
    assert!(second[0].id > first[1].id);
}
