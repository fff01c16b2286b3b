//! A small collection as files of a node.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use arrow::{
    array::{
        ArrayRef, FixedSizeListArray, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
        UInt32Array,
    },
    buffer::NullBuffer,
    datatypes::{DataType, Field},
};
use parking_lot::Mutex;
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use pointsman_engine::{
    SegmentFile, SegmentStore,
    rows::{Checked, Memory, RowStore},
};
use pointsman_ids::{
    Result, SegmentId,
    catalog::Column,
    request::{Looked, Question, Table, VectorIndex},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Where answers are computed.
pub(crate) static THREADS: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("threads"));

/// A row of the collection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: Option<i64>,
    pub(crate) name: Option<&'static str>,
    pub(crate) n: i32,
    pub(crate) v: Option<Vec<f32>>,
}

/// What a node holds, and of what it was told that it is broken.
#[derive(Debug)]
pub(crate) struct Store {
    folder: TempDir,
    segments: BTreeMap<SegmentId, PathBuf>,
    indexes: BTreeMap<(SegmentId, String), PathBuf>,
    pub(crate) suspected: Mutex<Vec<SegmentId>>,
    pub(crate) suspected_indexes: Mutex<Vec<SegmentId>>,
    /// Kept by whoever reads a file.
    pub(crate) hold: Arc<()>,
}

impl SegmentStore for Store {
    fn open(&self, segment: SegmentId) -> Option<SegmentFile> {
        let path = self.segments.get(&segment)?.clone();
        let bytes = path.metadata().map_or(0, |metadata| metadata.len());
        Some(SegmentFile { path, bytes, hold: Some(Arc::clone(&self.hold) as _) })
    }

    fn suspect(&self, segment: SegmentId) {
        self.suspected.lock().push(segment);
    }
}

impl RowStore for Store {
    fn index(&self, segment: SegmentId, index: &VectorIndex) -> Option<PathBuf> {
        self.indexes.get(&(segment, format!("{}-{}", index.column, index.metric))).cloned()
    }

    fn suspect_index(&self, segment: SegmentId, _: &VectorIndex) {
        self.suspected_indexes.lock().push(segment);
    }
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            segments: BTreeMap::new(),
            indexes: BTreeMap::new(),
            suspected: Mutex::default(),
            suspected_indexes: Mutex::default(),
            hold: Arc::default(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, id: u64) -> &Path {
        &self.segments[&SegmentId(id)]
    }

    /// Writes a segment; its rows are numbered from `first` in the column `tag`.
    pub(crate) fn add(&mut self, id: u64, rows: &[Row], dims: usize, group: usize, first: u32) {
        let path = self.folder().join(format!("{id}.parquet"));
        write(&path, &batch(rows, dims, first), group);
        self.segments.insert(SegmentId(id), path);
    }

    pub(crate) fn add_index(&mut self, id: u64, index: &VectorIndex, path: PathBuf) {
        self.indexes.insert((SegmentId(id), format!("{}-{}", index.column, index.metric)), path);
    }

    pub(crate) fn ids(&self) -> Vec<SegmentId> {
        self.segments.keys().copied().collect()
    }
}

/// Writes a file whose row groups and pages are small.
pub(crate) fn write(path: &Path, batch: &RecordBatch, group: usize) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group))
        .set_data_page_row_count_limit((group / 2).max(1))
        .set_write_batch_size(1.max(group / 2))
        .build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).expect("a file"), batch.schema(), Some(properties))
            .expect("it can be written");
    writer.write(batch).expect("it can be written");
    writer.close().expect("it can be written");
}

pub(crate) fn vectors<'a>(rows: impl ExactSizeIterator<Item = Option<&'a [f32]>>, dims: usize) -> ArrayRef {
    let rows: Vec<Option<&[f32]>> = rows.collect();
    let numbers = rows.iter().flat_map(|row| row.map_or(vec![7.5; dims], <[f32]>::to_vec));
    let numbers: Float32Array = numbers.collect::<Vec<_>>().into();
    let present: NullBuffer = rows.iter().map(Option::is_some).collect();
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    Arc::new(FixedSizeListArray::new(
        item,
        i32::try_from(dims).expect("few"),
        Arc::new(numbers),
        Some(present),
    ))
}

fn batch(rows: &[Row], dims: usize, first: u32) -> RecordBatch {
    let tags: UInt32Array = (first..).take(rows.len()).collect::<Vec<_>>().into();
    let ids: Int64Array = rows.iter().map(|row| row.id).collect();
    let names: StringArray = rows.iter().map(|row| row.name).collect();
    let numbers: Int32Array = rows.iter().map(|row| row.n).collect::<Vec<_>>().into();
    RecordBatch::try_from_iter_with_nullable([
        ("tag", Arc::new(tags) as ArrayRef, false),
        ("v", vectors(rows.iter().map(|row| row.v.as_deref()), dims), true),
        ("id", Arc::new(ids), true),
        ("name", Arc::new(names), true),
        ("n", Arc::new(numbers), false),
    ])
    .expect("it can be written")
}

/// The collection; its columns stand in another order than those of the files.
pub(crate) fn table(key: Option<&str>, dims: usize, indexes: Vec<VectorIndex>) -> Table {
    let column = |name: &str, data_type: &str, nullable: bool| Column {
        name: name.into(),
        data_type: data_type.into(),
        nullable,
    };
    Table {
        collection: "photos".parse().expect("a name"),
        columns: vec![
            column("id", "Int64", true),
            column("name", "Utf8", true),
            column("n", "Int32", false),
            column("v", &format!("FixedSizeList({dims} x Float32)"), true),
            column("tag", "UInt32", false),
        ],
        key: key.map(Into::into),
        indexes,
    }
}

/// The finished answer over all segments of a store.
pub(crate) fn ask(
    store: &Arc<Store>,
    memory: &Memory,
    table: &Table,
    question: Question,
) -> Result<(RecordBatch, Looked)> {
    let checked = Checked::new(question, table)?;
    let store_of_rows: Arc<dyn RowStore> = Arc::clone(store) as _;
    let (part, looked) = THREADS.block_on(checked.answer(&store.ids(), &store_of_rows, memory))?;
    Ok((checked.finish(&part)?, looked))
}
