//! Callers that go away, and rows that make no sense.

use std::time::{Duration, Instant};

use pointsman_metastore::Error;

use crate::{
    fixture::Fixture,
    samples::{NOW, collection, moves, segment, segments},
};

const MANY: usize = 5_000;

/// Cuts a push off at many moments, and leaves the last one alone.
pub(crate) async fn a_push_that_is_cut_off_is_there_whole_or_not_at_all(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let measured = collection(&metastore, epoch, "measured").await.id;
    let begin = Instant::now();
    metastore.push_segments(epoch, measured, segments(MANY), NOW).await.unwrap();
    let whole = begin.elapsed();
    let (mut cut, mut done) = (0, 0);
    const STEPS: u32 = 12;
    for step in 0..STEPS {
        let id = collection(&metastore, epoch, &format!("c{step:02}")).await.id;
        let push = metastore.push_segments(epoch, id, segments(MANY), NOW);
        let patience = if step + 1 < STEPS { whole * step / 8 } else { Duration::MAX };
        let outcome = tokio::time::timeout(patience, push).await;
        // The next write takes its turn after the one that was cut off: then its fate is decided.
        metastore.change_groups(epoch, &moves(&[("n1", None)])).await.unwrap();
        let there = metastore.segments(id).await.unwrap().len();
        match outcome {
            Ok(pushed) => {
                pushed.unwrap();
                assert_eq!(there, MANY);
                done += 1;
            }
            Err(_) => {
                assert!(there == 0 || there == MANY, "{there} segments of a push are there");
                cut += 1;
            }
        }
    }
    assert!(cut > 0 && done > 0, "{cut} pushes were cut off, {done} were not");
}

/// Cuts a replacement off at many moments, and leaves the last one alone.
pub(crate) async fn a_replacement_that_is_cut_off_leaves_all_of_the_old_or_all_of_the_new(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let numbered = |round: u32| -> Vec<_> {
        (0..MANY).map(|number| segment(&format!("r{round:02}.{number}"), 1)).collect()
    };
    let mut there = metastore.push_segments(epoch, id, numbered(0), NOW).await.unwrap().added;
    let mut whole = Duration::MAX;
    let (mut cut, mut done) = (0, 0);
    const ROUNDS: u32 = 12;
    for round in 1..=ROUNDS {
        let old: Vec<_> = there.iter().map(|segment| segment.id).collect();
        let begin = Instant::now();
        let replacement = metastore.replace_segments(epoch, id, &old, numbered(round), NOW);
        // The first one is measured, the last one left alone.
        let alone = round == 1 || round == ROUNDS;
        let patience = if alone { Duration::MAX } else { whole * round / 10 };
        let outcome = tokio::time::timeout(patience, replacement).await;
        whole = if round == 1 { begin.elapsed() } else { whole };
        // The next write takes its turn after the one that was cut off: then its fate is decided.
        metastore.change_groups(epoch, &moves(&[("n1", None)])).await.unwrap();
        let before = there;
        there = metastore.segments(id).await.unwrap();
        let begins = |name: String| there.iter().all(|one| one.content.name.as_str().starts_with(&name));
        let replaced = begins(format!("r{round:02}."));
        assert!(there.len() == MANY && (replaced || there == before), "round {round}: a mix");
        match outcome {
            Ok(outcome) => {
                outcome.unwrap();
                assert!(replaced);
                done += 1;
            }
            Err(_) => cut += 1,
        }
    }
    assert!(cut > 0 && done > 1, "{cut} replacements were cut off, {done} were not");
}

pub(crate) async fn the_metastore_works_on_after_a_write_was_cut_off(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    // More often than there are connections.
    for _ in 0..20 {
        let push = metastore.push_segments(epoch, id, segments(MANY), NOW);
        assert!(
            tokio::time::timeout(Duration::from_millis(5), push).await.is_err(),
            "the push was not cut off"
        );
    }
    metastore.push_segments(epoch, id, vec![segment("after", 1)], NOW).await.unwrap();
    assert_eq!(metastore.segments(id).await.unwrap().len(), 1);
}

pub(crate) async fn a_corrupt_row_is_named(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    metastore.push_segments(epoch, id, vec![segment("s1", 1)], NOW).await.unwrap();
    fixture
        .execute(
            "UPDATE collections SET options = '{}'; UPDATE segments SET shard = 'no shard'; \
             UPDATE resource_groups SET limits = -1; \
             INSERT INTO loads (collection, replicas, status, percent, created_at, updated_at) \
             VALUES (5, 1, 'melting', 0, 0, 0);",
        )
        .await;
    let check = |error: Error, text: &str| {
        let error = error.to_string();
        assert!(error.starts_with(text), "{error}");
    };
    check(
        metastore.collections().await.unwrap_err(),
        "a row of collections is corrupt: row 1, column options: missing",
    );
    check(
        metastore.segments(id).await.unwrap_err(),
        "a row of segments is corrupt: row 1, column shard: 'no shard'",
    );
    check(
        metastore.groups().await.unwrap_err(),
        "a row of resource_groups is corrupt: row 0, column limits: ",
    );
    check(
        metastore.loads().await.unwrap_err(),
        "a row of loads is corrupt: row 5, column status: there is no status",
    );
}
