//! The lease of the active coordinator.

use std::time::Duration;

use pointsman_ids::Epoch;
use pointsman_metastore::{Error, Lease, LeaseOutcome, SharedMetastore};

use crate::fixture::{Fixture, take};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

async fn try_take(metastore: &SharedMetastore, holder: &str, ttl: Duration) -> LeaseOutcome {
    metastore.take_lease(holder, ttl, Epoch(0)).await.unwrap()
}

/// Takes the lease as soon as it is free, and not later than in ten seconds.
async fn wait_for_lease(metastore: &SharedMetastore, holder: &str) -> Lease {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        match try_take(metastore, holder, LONG).await {
            LeaseOutcome::Taken(lease) => return lease,
            LeaseOutcome::Held { remaining, .. } => {
                assert!(tokio::time::Instant::now() < deadline, "the lease never ends");
                tokio::time::sleep(remaining).await;
            }
            moved => panic!("{moved:?}"),
        }
    }
}

pub(crate) async fn a_free_lease_is_taken(fixture: Fixture) {
    let lease = take(&fixture.open().await, "a").await;
    assert_eq!(lease, Lease { epoch: Epoch(1), holder: "a".into() });
}

pub(crate) async fn a_held_lease_is_refused_with_its_holder_and_rest(fixture: Fixture) {
    let metastore = fixture.open().await;
    take(&metastore, "a").await;
    let LeaseOutcome::Held { holder, remaining } = try_take(&metastore, "b", LONG).await else {
        panic!("two hold the lease")
    };
    assert_eq!(holder, "a");
    assert!(remaining <= LONG && remaining > LONG / 2, "{remaining:?}");
}

pub(crate) async fn an_expired_lease_is_taken_by_somebody_else(fixture: Fixture) {
    let metastore = fixture.open().await;
    try_take(&metastore, "a", SHORT).await;
    let lease = wait_for_lease(&metastore, "b").await;
    assert_eq!(lease, Lease { epoch: Epoch(2), holder: "b".into() });
}

pub(crate) async fn a_renewed_lease_does_not_expire(fixture: Fixture) {
    let metastore = fixture.open().await;
    let LeaseOutcome::Taken(lease) = try_take(&metastore, "a", SHORT).await else { panic!("it is free") };
    metastore.renew_lease(&lease, LONG).await.unwrap();
    tokio::time::sleep(SHORT * 2).await;
    assert!(matches!(try_take(&metastore, "b", LONG).await, LeaseOutcome::Held { .. }));
}

pub(crate) async fn the_same_holder_takes_it_again_with_a_higher_epoch(fixture: Fixture) {
    let metastore = fixture.open().await;
    take(&metastore, "a").await;
    assert_eq!(take(&metastore, "a").await.epoch, Epoch(2));
}

pub(crate) async fn a_lease_given_back_is_free_at_once(fixture: Fixture) {
    let metastore = fixture.open().await;
    let lease = take(&metastore, "a").await;
    metastore.give_back_lease(&lease).await.unwrap();
    assert_eq!(take(&metastore, "b").await.epoch, Epoch(2));
    let renewed = metastore.renew_lease(&lease, LONG).await;
    assert!(matches!(renewed, Err(Error::Fenced { ours: Epoch(1), newest: Epoch(2) })), "{renewed:?}");
}

pub(crate) async fn the_epoch_exceeds_at_least(fixture: Fixture) {
    let metastore = fixture.open().await;
    let outcome = metastore.take_lease("a", LONG, Epoch(41)).await.unwrap();
    assert_eq!(outcome, LeaseOutcome::Taken(Lease { epoch: Epoch(42), holder: "a".into() }));
    let outcome = metastore.take_lease("a", LONG, Epoch(7)).await.unwrap();
    assert_eq!(outcome, LeaseOutcome::Taken(Lease { epoch: Epoch(43), holder: "a".into() }));
}

pub(crate) async fn only_the_newest_holder_renews(fixture: Fixture) {
    let metastore = fixture.open().await;
    let old = take(&metastore, "a").await;
    let new = take(&metastore, "a").await;
    let renewed = metastore.renew_lease(&old, LONG).await;
    assert!(matches!(renewed, Err(Error::Fenced { ours: Epoch(1), newest: Epoch(2) })), "{renewed:?}");
    metastore.renew_lease(&new, LONG).await.unwrap();
}

pub(crate) async fn a_foreign_lease_is_not_given_back(fixture: Fixture) {
    let metastore = fixture.open().await;
    let old = take(&metastore, "a").await;
    take(&metastore, "a").await;
    metastore.give_back_lease(&old).await.unwrap();
    assert!(matches!(try_take(&metastore, "b", LONG).await, LeaseOutcome::Held { .. }));
}

pub(crate) async fn a_taker_among_many_is_alone(fixture: Fixture) {
    let mut takers = tokio::task::JoinSet::new();
    for number in 0..8 {
        let metastore = fixture.open().await;
        takers.spawn(async move { try_take(&metastore, &format!("taker-{number}"), LONG).await });
    }
    let outcomes = takers.join_all().await;
    let winners = outcomes.iter().filter(|outcome| matches!(outcome, LeaseOutcome::Taken(_))).count();
    assert_eq!(winners, 1, "{outcomes:?}");
}
