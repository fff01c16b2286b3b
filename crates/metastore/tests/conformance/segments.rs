//! Segments.

use std::time::{Duration, Instant};

use pointsman_ids::{
    CollectionId, ErrorCode, SegmentId,
    catalog::{ColumnStatistics, NewSegment, Segment, Value},
};

use crate::{
    fixture::Fixture,
    refused,
    samples::{NOW, collection, segment, segments},
};

fn names(segments: &[Segment]) -> Vec<&str> {
    segments.iter().map(|segment| segment.content.name.as_str()).collect()
}

pub(crate) async fn a_segment_reads_back_whole(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let new = segment("s1", 1);
    let outcome = metastore.push_segments(epoch, id, vec![new.clone()], NOW).await.unwrap();
    let shard = new.shard.clone().unwrap();
    let expected = Segment { id: SegmentId(1), collection: id, shard, created_at: NOW, content: new };
    assert_eq!((outcome.added.as_slice(), outcome.unchanged), ([expected.clone()].as_slice(), 0));
    assert_eq!(metastore.segments(id).await.unwrap(), [expected]);
}

pub(crate) async fn segments_come_by_name(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let pushed = ["b", "B", "a", "_"].map(|text| segment(text, 1)).to_vec();
    let outcome = metastore.push_segments(epoch, id, pushed, NOW).await.unwrap();
    assert_eq!(names(&outcome.added), ["b", "B", "a", "_"], "in the order of the push");
    assert_eq!(names(&metastore.segments(id).await.unwrap()), ["B", "_", "a", "b"]);
}

pub(crate) async fn a_push_is_idempotent(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let first = metastore.push_segments(epoch, id, vec![segment("s1", 1)], NOW).await.unwrap().added;
    let again = vec![segment("s2", 2), segment("s1", 1)];
    let outcome = metastore.push_segments(epoch, id, again.clone(), NOW + 1).await.unwrap();
    assert_eq!((names(&outcome.added), outcome.unchanged), (vec!["s2"], 1));
    let outcome = metastore.push_segments(epoch, id, again, NOW + 2).await.unwrap();
    assert_eq!((outcome.added.len(), outcome.unchanged), (0, 2));
    let live = metastore.segments(id).await.unwrap();
    assert_eq!(names(&live), ["s1", "s2"]);
    assert_eq!(live[0], first[0], "what was there is left alone");
}

pub(crate) async fn a_push_with_another_checksum_changes_nothing(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    metastore.push_segments(epoch, id, vec![segment("s2", 1)], NOW).await.unwrap();
    let push = vec![segment("s1", 1), segment("s2", 2)];
    let refusal = refused(ErrorCode::ParameterInvalid, metastore.push_segments(epoch, id, push, NOW).await);
    assert!(refusal.message().contains("'s2' is there with another checksum"), "{refusal}");
    assert_eq!(names(&metastore.segments(id).await.unwrap()), ["s2"]);
}

pub(crate) async fn a_name_stands_once_in_a_push(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let push = vec![segment("s1", 1), segment("s1", 1)];
    let refusal = refused(ErrorCode::ParameterInvalid, metastore.push_segments(epoch, id, push, NOW).await);
    assert_eq!(refusal.message(), "segment 's1' stands twice in the push");
    assert!(metastore.segments(id).await.unwrap().is_empty());
}

pub(crate) async fn a_push_names_its_shards(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let push = vec![NewSegment { shard: None, ..segment("s1", 1) }];
    let refusal = refused(ErrorCode::ParameterInvalid, metastore.push_segments(epoch, id, push, NOW).await);
    assert_eq!(refusal.message(), "segment 's1' names no shard");
}

pub(crate) async fn a_push_needs_its_collection(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let push = metastore.push_segments(epoch, CollectionId(9), vec![segment("s1", 1)], NOW).await;
    refused(ErrorCode::CollectionNotFound, push);
    let id = collection(&metastore, epoch, "orders").await.id;
    metastore.drop_collection(epoch, id).await.unwrap();
    refused(ErrorCode::CollectionNotFound, metastore.push_segments(epoch, id, Vec::new(), NOW).await);
}

pub(crate) async fn a_bound_that_is_no_number_is_refused(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let mut new = segment("s1", 1);
    let known = ColumnStatistics { nulls: None, min: None, max: Some(Value::Float(f64::NAN)) };
    new.statistics.insert("price".into(), known);
    let refusal =
        refused(ErrorCode::ParameterInvalid, metastore.push_segments(epoch, id, vec![new], NOW).await);
    assert_eq!(refusal.message(), "a bound of column 'price' of segment 's1' is not a number");
}

pub(crate) async fn names_of_dropped_segments_are_free(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    for content in [1, 2, 1] {
        let push = metastore.push_segments(epoch, id, vec![segment("s1", content)], NOW).await.unwrap();
        metastore.drop_segments(epoch, &[push.added[0].id]).await.unwrap();
    }
    assert!(metastore.segments(id).await.unwrap().is_empty());
    assert_eq!(names(&metastore.dropped_segments().await.unwrap()), ["s1", "s1", "s1"]);
}

pub(crate) async fn dropped_segments_wait_for_their_purge(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let pushed = metastore.push_segments(epoch, id, segments(3), NOW).await.unwrap().added;
    let unknown = [SegmentId(77), SegmentId(u64::MAX)];
    metastore.drop_segments(epoch, &[pushed[2].id, pushed[0].id, unknown[0], unknown[1]]).await.unwrap();
    assert_eq!(metastore.segments(id).await.unwrap(), [pushed[1].clone()]);
    assert_eq!(metastore.dropped_segments().await.unwrap(), [pushed[0].clone(), pushed[2].clone()]);
    metastore.purge_segments(epoch, &[pushed[0].id, unknown[0]]).await.unwrap();
    assert_eq!(metastore.dropped_segments().await.unwrap(), [pushed[2].clone()]);
    metastore.drop_segments(epoch, &[]).await.unwrap();
}

pub(crate) async fn a_purge_leaves_live_segments(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let pushed = metastore.push_segments(epoch, id, segments(1), NOW).await.unwrap().added;
    metastore.purge_segments(epoch, &[pushed[0].id]).await.unwrap();
    assert_eq!(metastore.segments(id).await.unwrap(), pushed);
}

pub(crate) async fn segment_ids_are_never_used_again(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let mut newest = SegmentId(0);
    for _ in 0..3 {
        let pushed = metastore.push_segments(epoch, id, segments(2), NOW).await.unwrap().added;
        let ids: Vec<_> = pushed.iter().map(|segment| segment.id).collect();
        assert!(ids[0] > newest && ids[1] > ids[0], "{ids:?}");
        newest = ids[1];
        metastore.drop_segments(epoch, &ids).await.unwrap();
        metastore.purge_segments(epoch, &ids).await.unwrap();
    }
}

/// Several batches in one push, and pages in a list.
#[expect(clippy::print_stdout, reason = "the figures are worth reading")]
pub(crate) async fn a_hundred_thousand_segments_are_pushed_at_once(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let all = segments(100_000);
    let begin = Instant::now();
    let outcome = metastore.push_segments(epoch, id, all.clone(), NOW).await.unwrap();
    let pushed_in = begin.elapsed();
    assert_eq!(outcome.added.len(), 100_000);
    let begin = Instant::now();
    let live = metastore.segments(id).await.unwrap();
    let listed_in = begin.elapsed();
    assert_eq!(live, outcome.added);
    let begin = Instant::now();
    assert_eq!(metastore.push_segments(epoch, id, all.clone(), NOW).await.unwrap().unchanged, 100_000);
    let repeated_in = begin.elapsed();
    println!(
        "100,000 segments: pushed in {pushed_in:?}, listed in {listed_in:?}, pushed again in {repeated_in:?}"
    );
    let slowest = pushed_in.max(listed_in).max(repeated_in);
    assert!(slowest < Duration::from_secs(60), "far from what anybody would wait for: {slowest:?}");

    // What is there stays out of a push, wherever it stands in it, and numbers go on without a gap.
    let mut mixed: Vec<NewSegment> = (0..30_000).map(|number| segment(&format!("t{number:06}"), 7)).collect();
    for (number, at) in [(5, 0), (6, 19_999), (7, 20_000), (8, 29_999)] {
        mixed[at] = all[number].clone();
    }
    let mut conflicting = mixed.clone();
    conflicting[29_999].checksum.0[0] ^= 1;
    let refusal =
        refused(ErrorCode::ParameterInvalid, metastore.push_segments(epoch, id, conflicting, NOW).await);
    assert!(refusal.message().contains("'s000008' is there with another checksum"), "{refusal}");
    let added = metastore.push_segments(epoch, id, mixed.clone(), NOW).await.unwrap();
    assert_eq!((added.added.len(), added.unchanged), (29_996, 4));
    let numbers = added.added.iter().map(|segment| segment.id.0);
    assert!(numbers.eq(100_001..=129_996), "the refused push took none");
    let contents = added.added.iter().map(|segment| &segment.content);
    assert!(contents.eq(mixed.iter().filter(|segment| segment.name.as_str().starts_with('t'))));
    assert_eq!(metastore.segments(id).await.unwrap().len(), 129_996);
}

/// What versions before the compact form wrote.
pub(crate) async fn statistics_of_an_older_version_are_read(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    metastore.push_segments(epoch, id, vec![segment("s1", 1)], NOW).await.unwrap();
    fixture
        .execute(if fixture.is_sqlite() {
            r#"UPDATE segments SET statistics = CAST('{"c":{"nulls":1,"max":{"integer":"-7"}}}' AS BLOB)"#
        } else {
            r#"UPDATE segments SET statistics = convert_to('{"c":{"nulls":1,"max":{"integer":"-7"}}}', 'UTF8')"#
        })
        .await;
    let known = metastore.segments(id).await.unwrap().remove(0).content.statistics;
    let expected = ColumnStatistics { nulls: Some(1), min: None, max: Some(Value::Integer(-7)) };
    assert_eq!(known.into_iter().collect::<Vec<_>>(), [("c".to_owned(), expected)]);
}

pub(crate) async fn a_replacement_is_one_change(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let pushed = ["a", "b", "c"].map(|text| segment(text, 1)).to_vec();
    let pushed = metastore.push_segments(epoch, id, pushed, NOW).await.unwrap().added;
    let old = [pushed[0].id, pushed[2].id];
    let new = vec![segment("x", 2)];
    let added = metastore.replace_segments(epoch, id, &old, new, NOW + 1).await.unwrap();
    assert_eq!((names(&added), added[0].created_at), (vec!["x"], NOW + 1));
    assert_eq!(names(&metastore.segments(id).await.unwrap()), ["b", "x"]);
    assert_eq!(names(&metastore.dropped_segments().await.unwrap()), ["a", "c"]);
}

pub(crate) async fn a_replacement_that_is_refused_changes_nothing(fixture: Fixture) {
    let (metastore, epoch) = fixture.active().await;
    let id = collection(&metastore, epoch, "orders").await.id;
    let pushed = ["a", "b"].map(|text| segment(text, 1)).to_vec();
    let pushed = metastore.push_segments(epoch, id, pushed, NOW).await.unwrap().added;
    for (code, collection, old, new) in [
        (ErrorCode::ParameterInvalid, id, pushed[0].id, "b"),
        (ErrorCode::ParameterInvalid, id, pushed[0].id, "a"),
        (ErrorCode::SegmentNotFound, id, SegmentId(77), "x"),
        (ErrorCode::CollectionNotFound, CollectionId(9), pushed[0].id, "x"),
    ] {
        let new = vec![segment(new, 1)];
        refused(code, metastore.replace_segments(epoch, collection, &[old], new, NOW).await);
        assert_eq!(metastore.segments(id).await.unwrap(), pushed);
    }
}
