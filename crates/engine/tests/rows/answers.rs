//! Answers of a node, one by one.

use std::{sync::Arc, time::Duration};

use arrow::{
    array::AsArray,
    datatypes::{DataType, Float32Type, UInt32Type},
};
use pointsman_engine::rows::{Checked, Memory, RowStore};
use pointsman_ids::{
    ErrorCode, SegmentId,
    catalog::Value,
    request::{Get, Looked, Query, Question, Search},
};

use crate::{
    model::{Condition, Key, Model},
    world::{Row, Store, THREADS, ask, table},
};

fn row(id: i64, v: &[f32]) -> Row {
    Row { id: Some(id), name: Some("x"), n: i32::try_from(id).expect("small") % 10, v: Some(v.to_vec()) }
}

fn line(rows: std::ops::Range<i64>) -> Vec<Row> {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    rows.map(|id| row(id, &[id as f32, 0.0])).collect()
}

fn search(k: u32) -> Search {
    Search { vectors: vec![vec![0.0, 0.0]], k, ..Search::default() }
}

#[test]
fn without_columns_a_search_gives_the_key_and_others_give_all() {
    let mut store = Store::new();
    store.add(1, &line(0..9), 2, 4, 0);
    let (store, memory, table) = (Arc::new(store), Memory::new(1 << 20), table(Some("id"), 2, vec![]));
    let columns = |question| {
        let (rows, _) = ask(&store, &memory, &table, question).unwrap();
        rows.schema()
            .fields()
            .iter()
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect::<Vec<_>>()
    };
    let own = [("_query", DataType::UInt32), ("_distance", DataType::Float32), ("id", DataType::Int64)];
    assert_eq!(columns(Question::Search(search(1))), own.map(|(name, of)| (name.to_owned(), of)));
    let all = columns(Question::Query(Query { limit: 1, ..Query::default() }));
    assert_eq!(
        all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["id", "name", "n", "v", "tag"]
    );
    assert_eq!(all[1].1, DataType::Utf8, "readers need not know views");
    assert_eq!(columns(Question::Get(Get { keys: vec![Value::Integer(1)], columns: vec![] })), all);
}

#[test]
fn what_was_looked_at_is_counted_and_statistics_spare_rows() {
    let mut store = Store::new();
    store.add(1, &line(0..40), 2, 10, 0);
    store.add(2, &line(40..80), 2, 10, 40);
    let (store, memory, table) = (Arc::new(store), Memory::new(1 << 20), table(Some("id"), 2, vec![]));
    let looked = |question| ask(&store, &memory, &table, question).unwrap().1;
    let of = |rows| Looked { segments: 2, indexed_segments: 0, rows };
    assert_eq!(looked(Question::Search(search(3))), of(80));
    let keys = vec![Value::Integer(15), Value::Integer(52), Value::Integer(500)];
    assert_eq!(looked(Question::Get(Get { keys, columns: vec![] })), of(10), "a page of either");
    let filter = Some("id >= 25 AND id < 45".into());
    assert_eq!(looked(Question::Query(Query { filter, limit: 100, columns: vec![] })), of(30));
}

#[test]
fn a_segment_that_is_not_held_is_named() {
    let store: Arc<dyn RowStore> = Arc::new(Store::new());
    let checked = Checked::new(Question::Search(search(1)), &table(None, 2, vec![])).unwrap();
    let memory = Memory::new(0);
    let error = THREADS.block_on(checked.answer(&[SegmentId(7)], &store, &memory)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SegmentNotLoaded);
    assert!(error.message().contains("segment 7"), "{error}");
}

#[test]
fn a_damaged_segment_is_suspected_and_the_error_is_retriable() {
    let mut store = Store::new();
    store.add(1, &line(0..40), 2, 10, 0);
    store.add(2, &line(0..40), 2, 10, 40);
    std::fs::write(store.path(2), b"PAR1 nothing of the kind PAR1").unwrap();
    let store = Arc::new(store);
    let error =
        ask(&store, &Memory::new(1 << 20), &table(None, 2, vec![]), Question::Search(search(1))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NodeIoError);
    assert!(error.is_retriable() && error.message().contains("segment 2"), "{error}");
    assert_eq!(*store.suspected.lock(), [SegmentId(2)]);
}

#[test]
fn a_condition_that_cannot_be_computed_is_the_callers_fault() {
    let mut store = Store::new();
    store.add(1, &line(0..40), 2, 10, 0);
    let store = Arc::new(store);
    let query = Query { filter: Some("10 / n > 1".into()), limit: 1, columns: vec![] };
    let error = ask(&store, &Memory::new(0), &table(None, 2, vec![]), Question::Query(query)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SqlInvalid, "{error}");
    assert!(store.suspected.lock().is_empty(), "the file is not to blame");
}

#[test]
fn an_answer_that_is_too_large_is_refused() {
    let mut store = Store::new();
    let wide = vec![0.5; 4_096];
    store.add(1, &(0..5_000).map(|id| row(id, &wide)).collect::<Vec<_>>(), 4_096, 1_000, 0);
    let store = Arc::new(store);
    let query = Query { filter: None, limit: 5_000, columns: vec!["v".into()] };
    let asked = |query| ask(&store, &Memory::new(0), &table(None, 4_096, vec![]), query);
    let error = asked(Question::Query(query.clone())).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ParameterTooLarge, "{error}");
    assert_eq!(asked(Question::Query(Query { limit: 500, ..query })).unwrap().0.num_rows(), 500);
    // Few rows, each of them many times.
    let search = Search { vectors: vec![wide; 1_000], k: 5, columns: vec!["v".into()], ..Search::default() };
    let error = asked(Question::Search(search)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ParameterTooLarge, "{error}");
}

#[test]
fn memory_is_bounded_and_given_back() {
    let mut store = Store::new();
    for id in 1..=4 {
        store.add(id, &line(0..1_000), 2, 500, 0);
    }
    let (store, table) = (Arc::new(store), table(Some("id"), 2, vec![]));
    // Vectors of two segments, with some room for footers.
    let memory = Memory::new(2 * 8_200 + 40_000);
    for _ in 0..3 {
        let (rows, _) = ask(&store, &memory, &table, Question::Search(search(8))).unwrap();
        assert_eq!(
            rows["id"].as_primitive::<arrow::datatypes::Int64Type>().values()[..],
            [0, 0, 0, 0, 1, 1, 1, 1]
        );
        assert!(memory.used() <= memory.capacity(), "{memory:?}");
    }
    assert!(memory.used() > 8_000);
    store.ids().into_iter().for_each(|id| memory.forget(id));
    assert_eq!(memory.used(), 0);
}

/// Work on a thread that has other work gives way, and ends when nobody waits for it.
#[test]
fn long_work_gives_way_and_ends_when_it_is_dropped() {
    let mut store = Store::new();
    store.add(1, &line(0..50_000), 2, 50_000, 0);
    let store = Arc::new(store);
    let rows: Arc<dyn RowStore> = Arc::clone(&store) as _;
    let vectors = vec![vec![1.0, 1.0]; 1_000];
    let question = Question::Search(Search { vectors, k: 10, ..Search::default() });
    let checked = Checked::new(question, &table(None, 2, vec![])).unwrap();
    let memory = Memory::new(1 << 20);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let ids = store.ids();
        let mut answer = Box::pin(checked.answer(&ids, &rows, &memory));
        let mut turns = 0;
        while turns < 20 {
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => turns += 1,
                _ = &mut answer => panic!("it never gave way"),
            }
        }
        assert!(Arc::strong_count(&store.hold) > 1, "it reads the segment");
        drop(answer);
        let ended = async {
            while Arc::strong_count(&store.hold) > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), ended).await.expect("it ended");
    });
}

#[test]
fn rows_of_a_tie_that_an_answer_cuts_are_the_first_by_key_of_all_segments() {
    let mut store = Store::new();
    let same = |ids: Vec<i64>| ids.into_iter().map(|id| row(id, &[3.0, 4.0])).collect::<Vec<_>>();
    store.add(1, &same((0..30_000).rev().collect()), 2, 7_000, 0);
    store.add(2, &same(vec![-1, 5, -2]), 2, 2, 30_000);
    let store = Arc::new(store);
    for memory in [0, 1 << 22] {
        let question = Question::Search(Search { columns: vec!["tag".into()], ..search(5) });
        let (rows, _) = ask(&store, &Memory::new(memory), &table(Some("id"), 2, vec![]), question).unwrap();
        let tags = rows["tag"].as_primitive::<UInt32Type>().values();
        assert_eq!(tags[..], [30_002, 30_000, 29_999, 29_998, 29_997]);
    }
}

/// So many that they are compared piece by piece, in memory and from the file.
#[test]
fn a_long_segment_is_searched_whole() {
    const DIMS: usize = 300;
    let long = |id: i64| Row { v: (id % 3 != 0).then(|| far(id)), ..row(id, &[]) };
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn far(id: i64) -> Vec<f32> {
        let mut vector = vec![0.0; DIMS];
        vector[0] = id as f32;
        vector
    }
    let rows: Vec<Row> = (0..16_000).map(long).collect();
    let mut store = Store::new();
    store.add(1, &rows, DIMS, 5_000, 0);
    let store = Arc::new(store);
    let condition: Condition = ("n <> 1", |row| row.n != 1);
    let vectors = [0, 3_494, 3_496, 8_000, 13_980, 15_999].map(far).to_vec();
    let columns = vec!["tag".into()];
    let search = Search { vectors, k: 6, filter: Some(condition.0.into()), columns, ..Search::default() };
    let expected = Model { rows, key: Key::Id }.search(&search, Some(condition));
    for memory in [0, 1 << 30] {
        // One by one the pieces are longer.
        let mut found = vec![];
        for (at, vector) in (0..).zip(&search.vectors) {
            let one = Search { vectors: vec![vector.clone()], ..search.clone() };
            let asked =
                ask(&store, &Memory::new(memory), &table(Some("id"), DIMS, vec![]), Question::Search(one));
            let (rows, _) = asked.unwrap();
            let tags = rows["tag"].as_primitive::<UInt32Type>().values();
            let distances = rows["_distance"].as_primitive::<Float32Type>().values();
            found.extend(tags.iter().zip(distances).map(|(tag, distance)| (at, distance.to_bits(), *tag)));
        }
        assert_eq!(found, expected, "{memory}");
    }
}
