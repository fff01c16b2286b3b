//! Collections.

use pointsman_ids::{
    CollectionId, Epoch, ErrorCode, Incarnation, TargetVersion,
    catalog::{Collection, CollectionOptions, RoutingOptions, SelectorKind},
};
use pointsman_metastore::{NewCollection, NewReplica};
use pointsman_query_coord::{LoadRecord, LoadStatus, Target};

use crate::{
    fixture::{Fixture, take},
    refused,
    samples::{NOW, collection, group, name, new_collection, nodes, segment},
};

pub(crate) async fn a_collection_reads_back_whole(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let new = new_collection("orders");
    let made = metastore.create_collection(epoch, new.clone()).await.unwrap();
    assert_eq!((&made.name, &made.columns, &made.options), (&new.name, &new.columns, &new.options));
    assert_eq!((made.id, made.created_at), (CollectionId(1), NOW));
    assert_eq!(metastore.collections().await.unwrap(), [made]);
}

pub(crate) async fn collections_come_by_name(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    for text in ["b", "B", "a_", "a-", "_"] {
        collection(&metastore, epoch, text).await;
    }
    let names: Vec<_> =
        metastore.collections().await.unwrap().into_iter().map(|made| made.name.to_string()).collect();
    assert_eq!(names, ["B", "_", "a-", "a_", "b"]);
}

pub(crate) async fn a_collection_name_is_taken_once(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    collection(&metastore, epoch, "orders").await;
    let refusal = refused(
        ErrorCode::ParameterInvalid,
        metastore.create_collection(epoch, new_collection("orders")).await,
    );
    assert_eq!(refusal.message(), "there is a collection 'orders' already");
    assert_eq!(metastore.collections().await.unwrap().len(), 1);
}

pub(crate) async fn a_collection_needs_a_column(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let new = NewCollection { columns: Vec::new(), ..new_collection("orders") };
    refused(ErrorCode::ParameterInvalid, metastore.create_collection(epoch, new).await);
}

pub(crate) async fn options_are_written_whole(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let other = collection(&metastore, epoch, "other").await;
    let made = collection(&metastore, epoch, "orders").await;
    let options = CollectionOptions {
        routing: RoutingOptions { fail_closed: true, fixed_replica: true, ..RoutingOptions::default() },
        ..CollectionOptions::default()
    };
    metastore.set_options(epoch, made.id, &options).await.unwrap();
    assert_eq!(metastore.collections().await.unwrap(), [Collection { options, ..made }, other]);
    let outcome = metastore.set_options(epoch, CollectionId(77), &CollectionOptions::default()).await;
    refused(ErrorCode::CollectionNotFound, outcome);
}

pub(crate) async fn options_of_an_older_version_have_the_defaults_of_what_is_new(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    collection(&metastore, epoch, "orders").await;
    fixture
        .execute(
            r#"UPDATE collections SET options = '{"shards":4,"selector":"replica_group","query_timeout":null}'"#,
        )
        .await;
    let routing = RoutingOptions { selector: SelectorKind::ReplicaGroup, ..RoutingOptions::default() };
    let options = CollectionOptions { shards: 4, routing, ..CollectionOptions::default() };
    assert_eq!(metastore.collections().await.unwrap()[0].options, options);
}

pub(crate) async fn dropping_a_collection_drops_its_segments_and_frees_its_name(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let dropped = collection(&metastore, epoch, "orders").await.id;
    let kept = collection(&metastore, epoch, "parts").await.id;
    metastore.push_segments(epoch, dropped, vec![segment("s1", 1), segment("s2", 2)], NOW).await.unwrap();
    metastore.push_segments(epoch, kept, vec![segment("s1", 1)], NOW).await.unwrap();
    metastore.drop_collection(epoch, dropped).await.unwrap();
    metastore.drop_collection(epoch, dropped).await.unwrap();
    let names: Vec<_> =
        metastore.collections().await.unwrap().into_iter().map(|made| made.name.to_string()).collect();
    assert_eq!(names, ["parts"]);
    assert!(metastore.segments(dropped).await.unwrap().is_empty());
    assert_eq!(metastore.segments(kept).await.unwrap().len(), 1);
    assert_eq!(metastore.dropped_segments().await.unwrap().len(), 2);
    collection(&metastore, epoch, "orders").await;
}

pub(crate) async fn collection_ids_are_never_used_again(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let first = collection(&metastore, epoch, "orders").await.id;
    metastore.drop_collection(epoch, first).await.unwrap();
    assert!(collection(&metastore, epoch, "orders").await.id > first);
}

pub(crate) async fn everything_survives_a_new_start(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let made = collection(&metastore, epoch, "orders").await;
    let pushed = metastore.push_segments(epoch, made.id, vec![segment("s1", 1)], NOW).await.unwrap().added;
    let east = group(&metastore, epoch, "east").await;
    metastore.set_member(epoch, &name("n1"), Some(&east)).await.unwrap();
    let node = metastore.register_node(epoch, &name("n1"), Incarnation(5)).await.unwrap();
    let load = LoadRecord {
        collection: made.id,
        replicas: 1,
        status: LoadStatus::Loaded,
        percent: 100,
        created_at: NOW,
        updated_at: NOW,
    };
    let new_replica = NewReplica { group: east, nodes: nodes(&["n1"]) };
    let replicas = metastore.register_load(epoch, load.clone(), vec![new_replica]).await.unwrap();
    let target = Target { collection: made.id, version: TargetVersion(NOW), segments: vec![pushed[0].id] };
    metastore.promote(epoch, &target).await.unwrap();
    metastore.set_config(epoch, "broker.fail_open.enabled", "true").await.unwrap();
    let config = metastore.config().await.unwrap();
    let groups = metastore.groups().await.unwrap();
    drop(metastore);

    let metastore = fixture.open().await;
    assert_eq!(metastore.collections().await.unwrap(), std::slice::from_ref(&made));
    assert_eq!(metastore.segments(made.id).await.unwrap(), pushed);
    assert_eq!(metastore.groups().await.unwrap(), groups);
    assert_eq!(metastore.nodes().await.unwrap(), [node]);
    assert_eq!(metastore.loads().await.unwrap(), [load]);
    assert_eq!(metastore.replicas().await.unwrap(), replicas);
    assert_eq!(metastore.current_targets().await.unwrap(), [target]);
    assert_eq!(metastore.config().await.unwrap(), config);
    assert_eq!(take(&metastore, "coordinator-1").await.epoch, Epoch(epoch.0 + 1));
}
