//! A coordinator whose lease is over writes nothing.

use pointsman_ids::{
    CollectionId, Epoch, Incarnation, ReplicaId, SegmentId, TargetVersion, catalog::CollectionOptions,
};
use pointsman_metastore::{Error, NewGroup, NewReplica, Result, SharedMetastore};
use pointsman_query_coord::{LoadRecord, LoadStatus, Replica, Target};

use crate::{
    fixture::{Fixture, take},
    samples::{NOW, collection, name, new_collection, nodes, segment, segments},
};

/// What the metastore holds, all of it.
async fn everything(metastore: &SharedMetastore) -> String {
    let collections = metastore.collections().await.unwrap();
    let mut live = Vec::new();
    for collection in &collections {
        live.extend(metastore.segments(collection.id).await.unwrap());
    }
    format!(
        "{collections:?} {live:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        metastore.dropped_segments().await.unwrap(),
        metastore.groups().await.unwrap(),
        metastore.nodes().await.unwrap(),
        metastore.loads().await.unwrap(),
        metastore.replicas().await.unwrap(),
        metastore.current_targets().await.unwrap(),
        metastore.config().await.unwrap(),
    )
}

fn load(collection: CollectionId, percent: u8) -> LoadRecord {
    LoadRecord {
        collection,
        replicas: 1,
        status: LoadStatus::Loading,
        percent,
        created_at: NOW,
        updated_at: NOW + u64::from(percent),
    }
}

/// Every write there is, each of which would change something, and what came of it.
async fn write_everything(
    metastore: &SharedMetastore,
    epoch: Epoch,
    (loaded, other): (CollectionId, CollectionId),
    dropped: SegmentId,
    live: SegmentId,
    replica: &Replica,
) -> Vec<(&'static str, Result<()>)> {
    let changed = Replica { finished: true, query_visible: true, ..replica.clone() };
    let target = Target { collection: loaded, version: TargetVersion(9), segments: vec![live] };
    let group = NewGroup { name: name("late"), requests: 0, limits: 1 };
    let new_replica = NewReplica { group: name("default"), nodes: nodes(&["n1"]) };
    vec![
        ("create_collection", metastore.create_collection(epoch, new_collection("late")).await.map(drop)),
        (
            "push_segments",
            metastore.push_segments(epoch, loaded, vec![segment("late", 9)], NOW).await.map(drop),
        ),
        ("drop_segments", metastore.drop_segments(epoch, &[live]).await),
        ("purge_segments", metastore.purge_segments(epoch, &[dropped]).await),
        ("create_group", metastore.create_group(epoch, group).await.map(drop)),
        ("set_member", metastore.set_member(epoch, &name("n1"), Some(&name("default"))).await),
        ("unset_member", metastore.set_member(epoch, &name("n2"), None).await),
        ("set_switch", metastore.set_switch(epoch, &[name("n1")], false).await),
        ("set_options", metastore.set_options(epoch, loaded, &CollectionOptions::default()).await),
        ("set_config", metastore.set_config(epoch, "late", "true").await),
        ("unset_config", metastore.unset_config(epoch, "early").await),
        ("register_node", metastore.register_node(epoch, &name("n1"), Incarnation(2)).await.map(drop)),
        ("register_load", metastore.register_load(epoch, load(other, 0), vec![new_replica]).await.map(drop)),
        ("update_load", metastore.update_load(epoch, &load(loaded, 50)).await),
        ("update_replicas", metastore.update_replicas(epoch, &[changed]).await),
        ("promote", metastore.promote(epoch, &target).await),
        ("release_load", metastore.release_load(epoch, loaded).await),
        ("remove_node", metastore.remove_node(epoch, &name("n1")).await),
        ("drop_collection", metastore.drop_collection(epoch, loaded).await),
    ]
}

pub(crate) async fn an_old_epoch_writes_nothing(fixture: Fixture) {
    let (metastore, old) = fixture.active().await;
    let (loaded, other) =
        (collection(&metastore, old, "loaded").await.id, collection(&metastore, old, "other").await.id);
    let pushed = metastore.push_segments(old, loaded, segments(2), NOW).await.unwrap().added;
    metastore.drop_segments(old, &[pushed[0].id]).await.unwrap();
    metastore.register_node(old, &name("n1"), Incarnation(1)).await.unwrap();
    metastore.set_member(old, &name("n2"), Some(&name("default"))).await.unwrap();
    metastore.set_config(old, "early", "true").await.unwrap();
    let new_replica = NewReplica { group: name("default"), nodes: nodes(&["n1"]) };
    let replica = metastore.register_load(old, load(loaded, 0), vec![new_replica]).await.unwrap().remove(0);
    assert_ne!(replica.id, ReplicaId(0));

    let new = take(&metastore, "coordinator-1").await.epoch;
    let before = everything(&metastore).await;
    for (write, outcome) in
        write_everything(&metastore, old, (loaded, other), pushed[0].id, pushed[1].id, &replica).await
    {
        assert!(
            matches!(outcome, Err(Error::Fenced { ours, newest }) if ours == old && newest == new),
            "{write}: {outcome:?}"
        );
    }
    assert_eq!(everything(&metastore).await, before);

    // The same writes change something for the holder: the comparison above can fail.
    for (write, outcome) in
        write_everything(&metastore, new, (loaded, other), pushed[0].id, pushed[1].id, &replica).await
    {
        assert!(outcome.is_ok(), "{write}: {outcome:?}");
    }
    assert_ne!(everything(&metastore).await, before);
}

pub(crate) async fn an_epoch_that_the_database_never_gave_writes_nothing(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let outcome = metastore.create_collection(Epoch(epoch.0 + 1), new_collection("c")).await;
    assert!(matches!(outcome, Err(Error::Fenced { .. })), "{outcome:?}");
    assert!(metastore.collections().await.unwrap().is_empty());
}
