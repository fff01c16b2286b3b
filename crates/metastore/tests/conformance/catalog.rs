//! Collections.

use pointsman_ids::{
    CollectionId, Epoch, ErrorCode, Incarnation,
    catalog::{Collection, CollectionOptions, RoutingOptions, SelectorKind},
};
use pointsman_metastore::NewCollection;
use pointsman_query_coord::{LoadChange, NewReplica};

use crate::{
    fixture::{Fixture, take},
    refused,
    samples::{NOW, collection, group, load, moves, name, new_collection, nodes, segment, target},
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
    metastore.change_groups(epoch, &moves(&[("n1", Some("east"))])).await.unwrap();
    let node = metastore.register_node(epoch, &name("n1"), Incarnation(5)).await.unwrap();
    let load = load(made.id, 100);
    let target = target(made.id, NOW, [pushed[0].id.0]);
    let change = LoadChange {
        records: vec![load.clone()],
        created: vec![NewReplica {
            collection: made.id,
            group: east,
            nodes: nodes(&["n1"]),
            query_visible: true,
            waits_for_group_since: None,
        }],
        targets: vec![target.clone()],
        ..LoadChange::default()
    };
    let replicas = metastore.change_loads(epoch, &change).await.unwrap();
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
