//! Nodes that are to leave.

use std::time::Duration;

use pointsman_ids::Incarnation;
use pointsman_metastore::{Drain, SharedMetastore, StopLease};

use crate::{
    fixture::Fixture,
    samples::{NOW, name},
};

const LONG: Duration = Duration::from_secs(300);

fn drain(node: &str, since: u64) -> Drain {
    Drain { node: name(node), since }
}

fn lease(node: &str, incarnation: u64, remaining: Duration) -> StopLease {
    StopLease { node: name(node), incarnation: Incarnation(incarnation), remaining }
}

/// Nodes and incarnations of the leases that run.
async fn leases(metastore: &SharedMetastore) -> Vec<(String, u64)> {
    let leases = metastore.stop_leases().await.unwrap();
    leases.into_iter().map(|lease| (lease.node.to_string(), lease.incarnation.0)).collect()
}

pub(crate) async fn a_drain_stays_until_it_is_taken_back(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    assert!(metastore.drains().await.unwrap().is_empty());
    for (node, since) in [("n2", NOW), ("N", NOW), ("n2", NOW + 1)] {
        metastore.start_drain(epoch, &drain(node, since)).await.unwrap();
    }
    drop(metastore);
    let metastore = fixture.open().await;
    assert_eq!(metastore.drains().await.unwrap(), [drain("N", NOW), drain("n2", NOW + 1)]);
    for _ in 0..2 {
        metastore.end_drain(epoch, &name("N")).await.unwrap();
    }
    assert_eq!(metastore.drains().await.unwrap(), [drain("n2", NOW + 1)]);
}

pub(crate) async fn a_drain_ends_with_the_return_of_its_node(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    metastore.register_node(epoch, &name("n1"), Incarnation(7)).await.unwrap();
    for node in ["n1", "n2"] {
        metastore.start_drain(epoch, &drain(node, NOW)).await.unwrap();
    }
    metastore.register_node(epoch, &name("n1"), Incarnation(7)).await.unwrap();
    assert_eq!(metastore.drains().await.unwrap().len(), 2, "the same process came again");
    metastore.register_node(epoch, &name("n1"), Incarnation(8)).await.unwrap();
    assert_eq!(metastore.drains().await.unwrap(), [drain("n2", NOW)]);
}

pub(crate) async fn a_stop_lease_runs_by_the_clock_of_the_database(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    metastore.grant_stop_lease(epoch, &lease("n1", 3, LONG)).await.unwrap();
    metastore.grant_stop_lease(epoch, &lease("n2", 4, Duration::ZERO)).await.unwrap();
    let running = metastore.stop_leases().await.unwrap();
    assert_eq!(running.len(), 1, "{running:?}");
    assert!(running[0].remaining <= LONG && running[0].remaining > LONG / 2, "{running:?}");
    assert_eq!(leases(&metastore).await, [("n1".to_owned(), 3)]);
    // An hour later by the database's clock.
    fixture.execute("UPDATE stop_leases SET expires_at = expires_at - 3600000").await;
    assert!(leases(&metastore).await.is_empty());
}

pub(crate) async fn a_stop_lease_is_granted_again_and_given_back(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    metastore.grant_stop_lease(epoch, &lease("n1", 3, LONG)).await.unwrap();
    metastore.grant_stop_lease(epoch, &lease("N", 1, LONG)).await.unwrap();
    metastore.grant_stop_lease(epoch, &lease("n1", 4, LONG)).await.unwrap();
    drop(metastore);
    let metastore = fixture.open().await;
    assert_eq!(leases(&metastore).await, [("N".to_owned(), 1), ("n1".to_owned(), 4)]);
    for _ in 0..2 {
        metastore.end_stop_lease(epoch, &name("n1")).await.unwrap();
    }
    assert_eq!(leases(&metastore).await, [("N".to_owned(), 1)]);
}

pub(crate) async fn a_removed_node_leaves_no_drain_and_no_lease(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    for node in ["n1", "n2"] {
        metastore.register_node(epoch, &name(node), Incarnation(1)).await.unwrap();
        metastore.start_drain(epoch, &drain(node, NOW)).await.unwrap();
        metastore.grant_stop_lease(epoch, &lease(node, 1, LONG)).await.unwrap();
    }
    metastore.remove_node(epoch, &name("n1")).await.unwrap();
    assert_eq!(metastore.drains().await.unwrap(), [drain("n2", NOW)]);
    assert_eq!(leases(&metastore).await, [("n2".to_owned(), 1)]);
}
