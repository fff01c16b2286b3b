//! Several users of one metastore at once.

use std::time::Duration;

use pointsman_ids::{ErrorCode, Incarnation, NodeId, SegmentId};
use pointsman_metastore::{OpenOptions, open};
use tokio::task::JoinSet;

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
