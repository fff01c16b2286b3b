//! A coordinator whose lease is over writes nothing.

use std::time::Duration;

use pointsman_ids::{CollectionId, Epoch, Incarnation, ReplicaId, SegmentId, catalog::CollectionOptions};
use pointsman_metastore::{Drain, Error, Result, SharedMetastore, StopLease};
use pointsman_query_coord::{LoadChange, NewReplica, Replica};

use crate::{
    fixture::{Fixture, take},
    samples::{
        NOW, collection, load, moves, name, new_collection, new_group, nodes, segment, segments, target,
    },
};

/// What the metastore holds, all of it.
async fn everything(metastore: &SharedMetastore) -> String {
    let collections = metastore.collections().await.unwrap();
    let mut live = Vec::new();
    for collection in &collections {
        live.extend(metastore.segments(collection.id).await.unwrap());
    }
    format!(
        "{collections:?} {live:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        metastore.dropped_segments().await.unwrap(),
        metastore.groups().await.unwrap(),
        metastore.nodes().await.unwrap(),
        metastore.loads().await.unwrap(),
        metastore.replicas().await.unwrap(),
        (metastore.current_targets().await.unwrap(), metastore.failed_loads().await.unwrap()),
        metastore.config().await.unwrap(),
        metastore.drains().await.unwrap(),
        metastore.stop_leases().await.unwrap().into_iter().map(|lease| lease.node).collect::<Vec<_>>(),
    )
}

/// Registers a load with one replica.
fn registers(collection: CollectionId) -> LoadChange {
    let created = NewReplica {
        collection,
        group: name("default"),
        nodes: nodes(&["n1"]),
        query_visible: true,
        waits_for_group_since: None,
    };
    LoadChange { records: vec![load(collection, 0)], created: vec![created], ..LoadChange::default() }
}

fn drain(node: &str) -> Drain {
    Drain { node: name(node), since: NOW }
}

fn stop_lease(node: &str) -> StopLease {
    StopLease { node: name(node), incarnation: Incarnation(1), remaining: Duration::from_secs(300) }
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
    let target = target(loaded, 9, [live.0]);
    let group = new_group("late", 0, 1);
    let (joins, leaves) = (moves(&[("n1", Some("default"))]), moves(&[("n2", None)]));
    let labels = [("disk".to_owned(), "ssd".to_owned())].into();
    let changes = LoadChange { replicas: vec![changed], ..LoadChange::default() };
    let promotes = LoadChange { targets: vec![target], ..LoadChange::default() };
    let releases = LoadChange { released: vec![loaded], ..LoadChange::default() };
    vec![
        ("create_collection", metastore.create_collection(epoch, new_collection("late")).await.map(drop)),
        (
            "push_segments",
            metastore.push_segments(epoch, loaded, vec![segment("late", 9)], NOW).await.map(drop),
        ),
        ("drop_segments", metastore.drop_segments(epoch, &[live]).await),
        ("purge_segments", metastore.purge_segments(epoch, &[dropped]).await),
        ("create_group", metastore.create_group(epoch, group).await.map(drop)),
        ("change_groups, joining", metastore.change_groups(epoch, &joins).await),
        ("change_groups, leaving", metastore.change_groups(epoch, &leaves).await),
        ("set_labels", metastore.set_labels(epoch, &name("n1"), &labels).await),
        ("set_switch", metastore.set_switch(epoch, &[name("n1")], false).await),
        ("set_options", metastore.set_options(epoch, loaded, &CollectionOptions::default()).await),
        ("set_config", metastore.set_config(epoch, "late", "true").await),
        ("unset_config", metastore.unset_config(epoch, "early").await),
        ("register_node", metastore.register_node(epoch, &name("n1"), Incarnation(2)).await.map(drop)),
        ("change_loads, registering", metastore.change_loads(epoch, &registers(other)).await.map(drop)),
        ("change_loads, replicas", metastore.change_loads(epoch, &changes).await.map(drop)),
        ("change_loads, promoting", metastore.change_loads(epoch, &promotes).await.map(drop)),
        ("change_loads, releasing", metastore.change_loads(epoch, &releases).await.map(drop)),
        ("start_drain", metastore.start_drain(epoch, &drain("n2")).await),
        ("end_drain", metastore.end_drain(epoch, &name("n3")).await),
        ("grant_stop_lease", metastore.grant_stop_lease(epoch, &stop_lease("n2")).await),
        ("end_stop_lease", metastore.end_stop_lease(epoch, &name("n3")).await),
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
    metastore.change_groups(old, &moves(&[("n2", Some("default"))])).await.unwrap();
    metastore.set_config(old, "early", "true").await.unwrap();
    metastore.start_drain(old, &drain("n3")).await.unwrap();
    metastore.grant_stop_lease(old, &stop_lease("n3")).await.unwrap();
    let replica = metastore.change_loads(old, &registers(loaded)).await.unwrap().remove(0);
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
