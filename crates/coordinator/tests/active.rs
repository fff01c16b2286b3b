//! One coordinator is active; what it knew survives it.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;
mod faulty;

use std::{collections::BTreeSet, sync::Arc};

use cluster::*;
use faulty::Faulty;
use pointsman_coordinator::RunError;
use pointsman_ids::{Epoch, ErrorCode};
use pointsman_metastore::{Lease, LeaseOutcome};
use pointsman_proto::coordinator::v1::ListSegmentsRequest;

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_everything_and_its_first_snapshot_lacks_no_copy() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let n1 = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let n2 = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3), cluster.segment("t", "b", 3)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let before = watch.until(|s| servers(s, "t", "a").len() + servers(s, "t", "b").len() == 2).await;
    let (held1, held2) = (n1.wanted(), n2.wanted());
    coordinator.stop().await.unwrap();
    assert_eq!(n1.ended().await.map(|error| error.code()), Some(ErrorCode::ServiceNotReady));

    let coordinator = cluster.active().await;
    assert!(coordinator.loaded("t").await.serving);
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let mut first = Box::pin(watch.next());
    let hello = |name, held: &BTreeSet<u64>| Hello { held: held.clone(), ..Hello::new(name, "") };
    let n1 = hello("n1", &held1).connect(&coordinator).await.unwrap();
    // One of two has reported: nothing is said yet.
    let early = tokio::time::timeout(NODE_LEASE / 4, &mut first).await;
    assert!(early.is_err(), "a snapshot before all nodes were heard: {early:?}");
    let n2 = hello("n2", &held2).connect(&coordinator).await.unwrap();
    let first = first.await.unwrap();
    assert!(first.version > before.version);
    for segment in ["a", "b"] {
        assert_eq!(servers(&first, "t", segment), servers(&before, "t", segment));
    }
    // Nobody was told to move anything.
    n1.wants(held1.len()).await;
    n2.wants(held2.len()).await;
    assert_eq!((n1.wanted(), n2.wanted()), (held1, held2));
    assert_eq!(first.nodes, before.nodes);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_a_node_that_stays_away_is_waited_for_and_then_replaced() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let n1 = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let _n2 = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3), cluster.segment("t", "b", 3)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    let held = n1.wanted();
    coordinator.stop().await.unwrap();

    let coordinator = cluster.active().await;
    let n1 = Hello { held, ..Hello::new("n1", "") }.connect(&coordinator).await.unwrap();
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    watch.until(|s| servers(s, "t", "a").len() == 1 && servers(s, "t", "b").len() == 1).await;
    n1.wants(2).await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_coordinators_one_stands_by_or_exits() {
    let cluster = Cluster::new();
    let first = cluster.active().await;
    let mut settings = cluster.settings("c2");
    settings.stand_by = false;
    let exits = cluster.start_with(settings).await.ended().await.unwrap_err();
    assert!(matches!(&exits, RunError::OtherActive { holder } if holder.starts_with("c1")), "{exits:?}");
    assert!(exits.to_string().contains("c1") && exits.to_string().contains("stand_by"), "{exits}");

    let second = cluster.start("c2").await;
    let stands_by = until("an answer", || second.describe()).await;
    assert_eq!((stands_by.active, stands_by.epoch), (false, 0));
    assert_eq!(second.create("t").await.unwrap_err().code(), ErrorCode::ServiceNotReady);
    let refused = Hello::new("n1", "").connect(&second).await.err().unwrap();
    assert_eq!(refused.code(), ErrorCode::ServiceNotReady);

    let epoch = first.describe().await.unwrap().epoch;
    first.create("t").await.unwrap();
    first.stop().await.unwrap();
    second.is_active().await;
    assert!(second.describe().await.unwrap().epoch > epoch);
    assert!(!second.create("t").await.unwrap(), "it is there already");
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_stands_by_has_read_what_it_takes_over() {
    let cluster = Cluster::new();
    let first = cluster.active().await;
    first.create("t").await.unwrap();
    first.push("t", vec![cluster.segment("t", "a", 1), cluster.segment("t", "b", 1)]).await.unwrap();
    let faulty = Faulty::new(cluster.metastore().await);
    let second = cluster.start_over(cluster.settings("c2"), Arc::new(faulty.clone())).await;
    until("a copy", || async { (faulty.read_anew() == 1).then_some(()) }).await;
    first.push("t", vec![cluster.segment("t", "c", 1)]).await.unwrap();
    until("a copy that follows", || async { (faulty.followed() >= 1).then_some(()) }).await;
    first.create("u").await.unwrap();
    first.push("u", vec![cluster.segment("u", "d", 1)]).await.unwrap();
    first.stop().await.unwrap();
    second.is_active().await;
    for (collection, names) in [("t", vec!["a", "b", "c"]), ("u", vec!["d"])] {
        let request = ListSegmentsRequest { collection: collection.into(), ..Default::default() };
        let segments = second.catalog().list_segments(request).await.unwrap().into_inner().segments;
        assert_eq!(segments.iter().map(|segment| &segment.name).collect::<Vec<_>>(), names);
    }
    // What it pushes now has the next number, and is found by those that read everything.
    assert_eq!(second.push("u", vec![cluster.segment("u", "e", 1)]).await.unwrap(), (1, 0));
    assert_eq!(faulty.read_anew(), 1, "it read everything once, long before");
    second.stop().await.unwrap();
}

/// Takes the lease away from whoever has it.
async fn usurp(cluster: &Cluster, epoch: u64) -> Lease {
    let metastore = cluster.metastore().await;
    let ttl = NODE_LEASE;
    let LeaseOutcome::Held { holder, .. } = metastore.take_lease("other", ttl, Epoch(0)).await.unwrap()
    else {
        panic!("nobody holds the lease");
    };
    metastore.give_back_lease(&Lease { epoch: Epoch(epoch), holder }).await.unwrap();
    match metastore.take_lease("other", ttl, Epoch(0)).await.unwrap() {
        LeaseOutcome::Taken(lease) => lease,
        other => panic!("somebody was quicker: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_lost_the_lease_writes_nothing_more() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let epoch = coordinator.describe().await.unwrap().epoch;
    let lease = usurp(&cluster, epoch).await;
    assert!(lease.epoch.0 > epoch);
    assert_eq!(coordinator.create("t").await.unwrap_err().code(), ErrorCode::ServiceNotReady);
    assert_eq!(node.ended().await.map(|error| error.code()), Some(ErrorCode::ServiceNotReady));
    assert!(cluster.metastore().await.collections().await.unwrap().is_empty());
    // The other's lease is not renewed, so it is active again soon, above it.
    coordinator.is_active().await;
    assert!(coordinator.describe().await.unwrap().epoch > lease.epoch.0);
    assert!(coordinator.create("t").await.unwrap());
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_may_not_stand_by_exits_when_it_loses_the_lease() {
    let cluster = Cluster::new();
    let mut settings = cluster.settings("c1");
    settings.stand_by = false;
    let coordinator = cluster.start_with(settings).await;
    coordinator.is_active().await;
    usurp(&cluster, coordinator.describe().await.unwrap().epoch).await;
    let error = coordinator.ended().await.unwrap_err();
    assert!(matches!(error, RunError::LeaseLost { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_epoch_that_somebody_has_seen_is_exceeded() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let hello = Hello { epoch_seen: 1000, ..Hello::new("n1", "east") };
    assert_eq!(hello.clone().connect(&coordinator).await.err().unwrap().code(), ErrorCode::ServiceNotReady);
    let node = until("a session", || async { hello.clone().connect(&coordinator).await.ok() }).await;
    assert!(node.welcome.epoch > 1000);
    let refused = async { coordinator.watch("b1", 5000).await.err() };
    assert_eq!(refused.await.map(|error| error.code()), Some(ErrorCode::ServiceNotReady));
    let above = || async { coordinator.describe().await.filter(|c| c.active && c.epoch > 5000) };
    let epoch = until("an epoch above", above).await.epoch;
    let absurd = Hello { epoch_seen: u64::MAX, ..hello };
    assert_eq!(absurd.connect(&coordinator).await.err().unwrap().code(), ErrorCode::ParameterInvalid);
    assert_eq!(coordinator.describe().await.unwrap().epoch, epoch);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_kept_a_snapshot_of_a_forgotten_epoch_is_told_again() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let kept = (77 << 32) + 5;
    let watch = || async { coordinator.watch_from("b1", kept, 0).await.ok() };
    let mut watch = until("a watch", watch).await;
    assert!(watch.next().await.unwrap().version.0 > kept);
    coordinator.stop().await.unwrap();
}
