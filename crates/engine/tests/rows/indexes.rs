//! Indexes: built from files, used where they can be, never missed.

use std::{collections::BTreeSet, fs::File, path::PathBuf, sync::Arc};

use arrow::{
    array::AsArray,
    datatypes::{Int64Type, UInt32Type},
};
use pointsman_engine::rows::{Memory, build_index, check_index, index_file_name};
use pointsman_ids::{
    ErrorCode, SegmentId,
    request::{Metric, Question, Search, Table, VectorIndex},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::world::{Row, Store, ask, table};

const DIMS: usize = 8;
const ROWS: i64 = 4_000;

fn index(metric: Metric) -> VectorIndex {
    VectorIndex { column: "v".into(), metric }
}

/// A store with two segments, and vectors that are near some of theirs.
fn store() -> (Store, Vec<Vec<f32>>) {
    let mut random = StdRng::seed_from_u64(5);
    let mut vector = || -> Vec<f32> { (0..DIMS).map(|_| random.random_range(-1.0..1.0)).collect() };
    let queries = (0..20).map(|_| vector()).collect();
    let mut store = Store::new();
    for id in 1..=2 {
        let row = |at| Row { id: Some(at), name: None, n: 0, v: (at % 10 != 0).then(&mut vector) };
        let rows: Vec<Row> = (0..ROWS).map(row).collect();
        store.add(id, &rows, DIMS, 1_000, 0);
    }
    (store, queries)
}

fn build(store: &Store, id: u64, index: &VectorIndex) -> PathBuf {
    let path = store.folder().join(format!("{id}.{}", index_file_name(index)));
    let mut file = File::create(&path).expect("a file");
    build_index(store.path(id), index, &mut file, &Memory::new(16 << 20), &|| false).expect("an index");
    path
}

fn found(store: &Arc<Store>, memory: &Memory, table: &Table, search: &Search) -> (BTreeSet<(u32, i64)>, u64) {
    let (rows, looked) = ask(store, memory, table, Question::Search(search.clone())).expect("an answer");
    let queries = rows["_query"].as_primitive::<UInt32Type>().values();
    let ids = rows["id"].as_primitive::<Int64Type>().values();
    (queries.iter().copied().zip(ids.iter().copied()).collect(), looked.indexed_segments)
}

#[test]
fn an_index_finds_most_of_what_an_exact_search_finds() {
    let (mut store, vectors) = store();
    for id in 1..=2 {
        let path = build(&store, id, &index(Metric::L2));
        check_index(&path, &index(Metric::L2)).unwrap();
        store.add_index(id, &index(Metric::L2), path);
    }
    let store = Arc::new(store);
    let table = table(Some("id"), DIMS, vec![index(Metric::L2)]);
    let search = Search { vectors, k: 10, ..Search::default() };
    let memory = Memory::new(16 << 20);
    let (through, indexed) = found(&store, &memory, &table, &search);
    assert_eq!(indexed, 2, "the metric of the index is that of the search, where none is said");
    let (exact, indexed) = found(&store, &memory, &table, &Search { exact: true, ..search.clone() });
    assert_eq!((indexed, exact.len()), (0, 200));
    let common = through.intersection(&exact).count();
    assert!(common >= 190, "{common} of 200");
    // Conditions, also those that few rows meet.
    for (filter, rows) in [("id < 2000", 200), ("id < 5", 160)] {
        let search = Search { filter: Some(filter.into()), ..search.clone() };
        let (through, indexed) = found(&store, &memory, &table, &search);
        assert_eq!(indexed, 2);
        let (exact, _) = found(&store, &memory, &table, &Search { exact: true, ..search });
        let common = through.intersection(&exact).count();
        assert!(common * 100 >= exact.len() * 95 && exact.len() <= rows, "{common} of {}", exact.len());
    }
    // Other searches do not use it, and neither do those without memory for vectors.
    let (_, indexed) =
        found(&store, &memory, &table, &Search { metric: Some(Metric::Cosine), ..search.clone() });
    assert_eq!(indexed, 0);
    let (streamed, indexed) = found(&store, &Memory::new(0), &table, &search);
    assert_eq!((indexed, streamed), (0, exact));
}

#[test]
fn an_index_that_is_damaged_or_of_others_is_suspected_and_the_search_is_exact() {
    let (mut store, vectors) = store();
    let path = build(&store, 1, &index(Metric::L2));
    store.add_index(2, &index(Metric::L2), path.clone());
    let cut = store.folder().join("cut");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(check_index(&cut, &index(Metric::L2)).unwrap_err().code(), ErrorCode::NodeIoError);
    assert!(check_index(&path, &index(Metric::Cosine)).unwrap_err().message().contains("serves l2"));
    store.add_index(1, &index(Metric::L2), cut);
    let store = Arc::new(store);
    let table = table(Some("id"), DIMS, vec![index(Metric::L2)]);
    let search = Search { vectors, k: 10, ..Search::default() };
    let memory = Memory::new(16 << 20);
    let (rows, indexed) = found(&store, &memory, &table, &search);
    assert_eq!(indexed, 0);
    assert_eq!(rows, found(&store, &memory, &table, &Search { exact: true, ..search }).0);
    let suspected: BTreeSet<_> = store.suspected_indexes.lock().iter().copied().collect();
    assert_eq!(suspected, BTreeSet::from([SegmentId(1), SegmentId(2)]));
    assert!(store.suspected.lock().is_empty(), "the segments are whole");
}

#[test]
fn a_build_stops_when_told_and_needs_memory_and_vectors() {
    let (store, _) = store();
    let built = |index: &VectorIndex, memory, stop: bool| {
        let mut file = File::create(store.folder().join("index")).unwrap();
        build_index(store.path(1), index, &mut file, &Memory::new(memory), &|| stop).unwrap_err()
    };
    assert_eq!(built(&index(Metric::L2), 16 << 20, true).code(), ErrorCode::Cancelled);
    let small = built(&index(Metric::L2), 1 << 10, false);
    assert!(small.is_retriable(), "{small}");
    let text = VectorIndex { column: "name".into(), metric: Metric::L2 };
    assert!(built(&text, 16 << 20, false).message().contains("'name'"));
    let none = VectorIndex { column: "w".into(), metric: Metric::L2 };
    assert!(built(&none, 16 << 20, false).message().contains("'w'"));
}
