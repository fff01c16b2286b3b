//! Several users of one metastore at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pointsman_ids::{Epoch, ErrorCode, Incarnation, NodeId, SegmentId};
use pointsman_metastore::{Error, LeaseOutcome, OpenOptions, SharedMetastore, open};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    fixture::Fixture,
    refused,
    samples::{NOW, collection, name, segment, segments},
};

pub(crate) async fn two_writers_take_turns(fixture: Fixture) {
    let (first, epoch) = fixture.active().await;
    let second = fixture.open().await;
    let id = collection(&first, epoch, "orders").await.id;
    let mut writers = JoinSet::new();
    for (number, metastore) in [first.clone(), second].into_iter().cycle().take(16).enumerate() {
        writers.spawn(async move {
            // Everybody pushes one segment of his own and one that all push.
            let push = vec![segment(&format!("own-{number:02}"), 1), segment("shared", 1)];
            let outcome = metastore.push_segments(epoch, id, push, NOW).await.unwrap();
            let node = metastore
                .register_node(epoch, &name(&format!("n{number:02}")), Incarnation(1))
                .await
                .unwrap();
            (outcome.added.len(), node.id)
        });
    }
    let outcomes = writers.join_all().await;
    assert_eq!(outcomes.iter().map(|(added, _)| added).sum::<usize>(), 17);
    let mut nodes: Vec<_> = outcomes.iter().map(|(_, node)| *node).collect();
    nodes.sort();
    assert_eq!(nodes, (1..=16).map(NodeId).collect::<Vec<_>>());
    let mut ids: Vec<_> = first.segments(id).await.unwrap().iter().map(|segment| segment.id).collect();
    ids.sort();
    assert_eq!(ids, (1..=17).map(SegmentId).collect::<Vec<_>>());
}

/// Coordinators that take the lease from each other; each believes in its own until somebody refuses it. They do each step
/// at the same time, whatever turns the database gives them. Gives how often it wrote, and how often it was refused.
async fn believe(
    metastore: SharedMetastore,
    number: u64,
    newest: Arc<AtomicU64>,
    together: Arc<Barrier>,
) -> (u32, u32) {
    let mut random = StdRng::seed_from_u64(number);
    let (mut mine, mut written, mut refused) = (Epoch(0), 0, 0);
    let over_at_once = Duration::ZERO;
    for step in 0..60 {
        together.wait().await;
        if random.random_bool(0.3) {
            let taken = metastore.take_lease(&format!("c{number}"), over_at_once, Epoch(0)).await.unwrap();
            if let LeaseOutcome::Taken(lease) = taken {
                mine = lease.epoch;
                newest.fetch_max(mine.0, Ordering::SeqCst);
            }
        }
        let known = newest.load(Ordering::SeqCst);
        match metastore.set_config(mine, "writer", &format!("{number}/{step}")).await {
            Ok(()) if mine.0 < known => panic!("{mine} wrote after {known} was given"),
            Ok(()) => written += 1,
            Err(Error::Fenced { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    (written, refused)
}

pub(crate) async fn of_several_coordinators_the_newest_alone_ever_writes(fixture: Fixture) {
    let (newest, together) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(3)));
    let mut coordinators = JoinSet::new();
    for number in 0..3 {
        let parts = (Arc::clone(&newest), Arc::clone(&together));
        coordinators.spawn(believe(fixture.open().await, number, parts.0, parts.1));
    }
    let outcomes = coordinators.join_all().await;
    let (written, refused) = outcomes.into_iter().fold((0, 0), |(w, r), (a, b)| (w + a, r + b));
    assert!(written > 20 && refused > 5, "{written} writes, {refused} refusals");
}

pub(crate) async fn two_metastores_open_at_once(fixture: Fixture) {
    let mut openers = JoinSet::new();
    for _ in 0..4 {
        let url = fixture.url.clone();
        openers.spawn(async move { open(&url, OpenOptions::default()).await.map(drop) });
    }
    for outcome in openers.join_all().await {
        outcome.unwrap();
    }
    assert_eq!(fixture.open().await.groups().await.unwrap().len(), 1);
}

pub(crate) async fn readers_do_not_wait_for_a_writer(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let writer = metastore.clone();
    let push = tokio::spawn(async move { writer.push_segments(epoch, id, segments(20_000), NOW).await });
    let mut reads = 0;
    while !push.is_finished() {
        let seen = metastore.segments(id).await.unwrap().len();
        assert!(seen == 0 || seen == 20_000, "a reader sees {seen} segments of a push");
        reads += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    push.await.unwrap().unwrap();
    assert!(reads > 1, "the push ended before anybody read");
}

pub(crate) async fn values_that_the_databases_cannot_hold_are_refused(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let node = metastore.register_node(epoch, &name("n1"), Incarnation(u64::MAX)).await;
    let refusal = refused(ErrorCode::ParameterInvalid, node);
    assert!(refusal.message().starts_with("the incarnation 18446744073709551615 is too large"), "{refusal}");
    let id = collection(&metastore, epoch, "orders").await.id;
    let mut new = segment("s1", 1);
    new.object = "a\0b".into();
    refused(ErrorCode::ParameterInvalid, metastore.push_segments(epoch, id, vec![new], NOW).await);
    let mut new = segment("s1", 1);
    new.rows = u64::MAX;
    refused(ErrorCode::ParameterInvalid, metastore.push_segments(epoch, id, vec![new], NOW).await);
    assert!(metastore.segments(id).await.unwrap().is_empty());
}
