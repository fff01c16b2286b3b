//! Questions to rows over 4 segments of 250,000 rows with vectors of 128 dimensions: an exact search with its vectors in memory
//! beside plain loops over as much memory, a search that reads them from the files, rows by key and by condition.
//!
//! `answer` runs on one thread, as the loops do; `answer_2` on two.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has failed")]

use std::{collections::BTreeMap, fs::File, hint::black_box, path::PathBuf, sync::Arc, time::Duration};

use arrow::{
    array::{ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch},
    datatypes::{DataType, Field},
};
use criterion::{Criterion, criterion_group, criterion_main};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use pointsman_engine::{
    SegmentFile, SegmentStore,
    rows::{Checked, Memory, RowStore},
};
use pointsman_ids::{
    SegmentId,
    catalog::{Column, Value},
    request::{Get, Metric, Query, Question, Search, Table, VectorIndex},
};
use pointsman_vectors::{Vectors, nearest};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const DIMS: usize = 128;
const SEGMENTS: u64 = 4;
const ROWS: usize = 250_000;
const K: u32 = 10;

#[derive(Debug)]
struct Store {
    _folder: TempDir,
    paths: BTreeMap<SegmentId, PathBuf>,
}

impl SegmentStore for Store {
    fn open(&self, segment: SegmentId) -> Option<SegmentFile> {
        Some(SegmentFile { path: self.paths.get(&segment)?.clone(), bytes: 0, hold: None })
    }
}

impl RowStore for Store {
    fn index(&self, _: SegmentId, _: &VectorIndex) -> Option<PathBuf> {
        None
    }
}

/// The store, and the vectors of its segments.
fn store() -> (Store, Vec<Vec<f32>>) {
    let folder = tempfile::tempdir().unwrap();
    let (mut paths, mut all) = (BTreeMap::new(), vec![]);
    for id in 1..=SEGMENTS {
        let mut random = StdRng::seed_from_u64(id);
        let numbers: Vec<f32> = (0..ROWS * DIMS).map(|_| random.random()).collect();
        let first = i64::try_from(id).unwrap() * 1_000_000;
        let ids: Int64Array = (first..).take(ROWS).collect::<Vec<_>>().into();
        let item = Arc::new(Field::new_list_field(DataType::Float32, true));
        let vectors: Arc<Float32Array> = Arc::new(numbers.clone().into());
        let vectors = FixedSizeListArray::new(item, 128, vectors, None);
        let columns = [("id", Arc::new(ids) as ArrayRef), ("v", Arc::new(vectors) as ArrayRef)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let path = folder.path().join(id.to_string());
        let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        paths.insert(SegmentId(id), path);
        all.push(numbers);
    }
    (Store { _folder: folder, paths }, all)
}

fn checked(question: Question) -> Checked {
    let column = |name: &str, data_type: &str| Column {
        name: name.into(),
        data_type: data_type.into(),
        nullable: false,
    };
    let table = Table {
        collection: "bench".parse().unwrap(),
        columns: vec![column("id", "Int64"), column("v", "FixedSizeList(128 x Float32)")],
        key: Some("id".into()),
        indexes: vec![],
    };
    Checked::new(question, &table).unwrap()
}

fn rows(criterion: &mut Criterion) {
    let (store, vectors) = store();
    let ids: Vec<SegmentId> = store.paths.keys().copied().collect();
    let store: Arc<dyn RowStore> = Arc::new(store);
    let query = vec![0.5; DIMS];
    let search = Search { vectors: vec![query.clone()], k: K, ..Search::default() };
    let search = checked(Question::Search(search));
    let one = Builder::new_current_thread().build().unwrap();
    let two = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let memory = Memory::new(1 << 30);
    let answer = |runtime: &Runtime, checked: &Checked, memory: &Memory| {
        runtime.block_on(checked.answer(&ids, &store, memory)).unwrap()
    };
    answer(&one, &search, &memory);
    let mut group = criterion.benchmark_group("rows");
    group.sample_size(20).measurement_time(Duration::from_secs(5));
    group.bench_function("exact/plain", |bencher| {
        bencher.iter(|| {
            vectors.iter().map(|numbers| plain(black_box(numbers), &query)).fold(f32::MAX, f32::min)
        });
    });
    group.bench_function("exact/nearest", |bencher| {
        let one = |numbers: &Vec<f32>| {
            nearest(Vectors::new(numbers, DIMS).unwrap(), Metric::L2, &query, K as usize, None).unwrap()
        };
        bencher.iter(|| vectors.iter().map(one).collect::<Vec<_>>());
    });
    group.bench_function("exact/answer", |bencher| bencher.iter(|| answer(&one, &search, &memory)));
    group.bench_function("exact/answer_2", |bencher| bencher.iter(|| answer(&two, &search, &memory)));
    let keys = (0..10).map(|at| Value::Integer(1_000_000 * (at % 4 + 1) + at * 20_000)).collect();
    let get = checked(Question::Get(Get { keys, columns: vec!["id".into()] }));
    group.bench_function("get/10_keys", |bencher| bencher.iter(|| answer(&one, &get, &memory)));
    let filter = Some("id % 1000 = 7".into());
    let query = checked(Question::Query(Query { filter, columns: vec!["id".into()], limit: 100 }));
    group.bench_function("query/100_rows", |bencher| bencher.iter(|| answer(&one, &query, &memory)));
    let none = Memory::new(0);
    group.sample_size(10);
    group.bench_function("exact/from_files", |bencher| bencher.iter(|| answer(&one, &search, &none)));
    group.finish();
}

/// The least distance, in a loop as anybody would write it for speed: 16 sums side by side.
fn plain(numbers: &[f32], query: &[f32]) -> f32 {
    let distance = |row: &[f32]| {
        let mut sums = [0.0_f32; 16];
        let (row, _) = row.as_chunks::<16>();
        let (query, _) = query.as_chunks::<16>();
        for (row, query) in row.iter().zip(query) {
            for ((sum, x), y) in sums.iter_mut().zip(row).zip(query) {
                *sum += (x - y) * (x - y);
            }
        }
        sums.iter().sum::<f32>()
    };
    numbers.chunks_exact(DIMS).map(distance).fold(f32::MAX, f32::min)
}

criterion_group!(benches, rows);
criterion_main!(benches);
