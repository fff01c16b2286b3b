//! Files of indexes over the vectors of segments.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    sync::Arc,
};

use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder},
};
use pointsman_ids::{Error, ErrorCode, Result, request::VectorIndex};
use pointsman_vectors::{BuildOptions, Index};

use super::{
    answer::Source,
    memory::{Kept, Key, Memory, Room, What},
    segment::Segment,
    table::dimensions,
    vectors::{Decoded, Filling, lists, no_memory},
};

/// Every build of an index over the same vectors gives the same one.
const SEED: u64 = 0;
/// Bytes of the graph per row, about, while it is built.
const GRAPH_BYTES: u64 = 400;

/// A name for the file of an index: the same for every segment, unlike that of any other index, and short whatever the
/// column is called.
///
/// ```
/// use pointsman_engine::rows::index_file_name;
/// use pointsman_ids::request::{Metric, VectorIndex};
///
/// let index = VectorIndex { column: "embedding".into(), metric: Metric::Cosine };
/// assert_eq!(index_file_name(&index), "2c4e7523d9a46e27-cosine.index");
/// ```
pub fn index_file_name(index: &VectorIndex) -> String {
    let column = blake3::hash(index.column.as_bytes()).to_hex();
    format!("{}-{}.index", &column[..16], index.metric)
}

/// Builds the index of a segment and writes it to a file that is empty. Takes long (minutes for millions of rows) and
/// blocks; `stop` is asked often. Whoever keeps files makes this one last and gives it its name when it is whole.
///
/// # Errors
/// `cancelled` soon after `stop` says so; `service_too_many_requests` when `memory` has no room for vectors and index;
/// `parameter_invalid` when the column holds no vectors; `node_io_error` when a file cannot be read or written.
pub fn build_index(
    segment: &Path,
    index: &VectorIndex,
    into: &mut File,
    memory: &Memory,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let vectors = Read::new(segment, index, memory, GRAPH_BYTES, stop)?;
    let built = Index::build(vectors.decoded.vectors()?, index.metric, &BuildOptions::default(), SEED, stop);
    let built = built.map_err(|error| match error {
        pointsman_vectors::Error::Cancelled => stopped(),
        other => super::broken(other),
    })?;
    drop(vectors);
    let write = into.write_all(&built.to_bytes());
    write.map_err(|error| Error::new(ErrorCode::NodeIoError, format!("an index cannot be written: {error}")))
}

/// Whether the file of an index is whole and serves the metric. Reads it; blocks. Whether it belongs to the vectors of its
/// segment is looked at when both are in memory.
///
/// # Errors
/// `node_io_error` that says what is wrong.
pub fn check_index(file: &Path, wanted: &VectorIndex) -> Result<()> {
    let index = read(file)?;
    if index.metric() == wanted.metric {
        return Ok(());
    }
    let other = pointsman_vectors::Error::OtherMetric { expected: wanted.metric, found: index.metric() };
    Err(io(file, &other))
}

fn read(file: &Path) -> Result<Index> {
    let bytes = fs::read(file).map_err(|error| io(file, &error))?;
    Index::from_bytes(&bytes).map_err(|error| io(file, &error))
}

fn load(file: &Path, decoded: &Decoded, wanted: &VectorIndex) -> Result<Index> {
    let index = read(file)?;
    index.check(decoded.vectors()?, wanted.metric).map_err(|error| io(file, &error))?;
    Ok(index)
}

/// The index of a segment, if there is one and memory has room for it. One that cannot be used is told to the store.
pub(super) async fn kept(
    segment: &Segment,
    wanted: &VectorIndex,
    vectors: &Arc<Kept<Decoded>>,
    source: &Source,
) -> Result<Option<Arc<Kept<Index>>>> {
    let Some(file) = source.store.index(segment.id, wanted) else { return Ok(None) };
    let VectorIndex { column, metric } = wanted.clone();
    let key = Key { segment: segment.id, what: What::Index { column, metric } };
    let loading = {
        let (file, vectors, wanted) = (file.clone(), Arc::clone(vectors), wanted.clone());
        async move {
            let loading = tokio::task::spawn_blocking(move || load(&file, &vectors, &wanted));
            loading.await.map_err(super::broken)?
        }
    };
    // It is about as large in memory as in its file.
    let kept = match fs::metadata(&file) {
        Ok(found) => source.memory.get(&key, found.len(), loading, |index| index.memory() as u64).await,
        Err(error) => Err(io(&file, &error)),
    };
    kept.or_else(|error| {
        tracing::warn!(segment = %segment.id, column = wanted.column, %error, "an index cannot be used; the search is exact");
        source.store.suspect_index(segment.id, wanted);
        Ok(None)
    })
}

/// The vectors of a segment, outside of any request, with the room that they take.
struct Read {
    decoded: Decoded,
    _room: Room,
}

impl Read {
    /// `beside`: bytes per row that are needed as well.
    fn new(
        segment: &Path,
        index: &VectorIndex,
        memory: &Memory,
        beside: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self> {
        let failed = |error: &dyn std::error::Error| io(segment, error);
        let file = File::open(segment).map_err(|error| failed(&error))?;
        let footer = ArrowReaderMetadata::load(&file, Default::default()).map_err(|error| failed(&error))?;
        let (at, field) = footer.schema().column_with_name(&index.column).ok_or_else(|| {
            let why = format!("{} has no column '{}'", segment.display(), index.column);
            Error::new(ErrorCode::ParameterInvalid, why)
        })?;
        let dims = dimensions(field)?;
        let groups = footer.metadata().row_groups();
        let rows: usize =
            groups.iter().map(|group| usize::try_from(group.num_rows()).unwrap_or_default()).sum();
        let bytes = Decoded::bytes(rows, dims).saturating_add(beside.saturating_mul(rows as u64));
        let room = memory.room(bytes).ok_or_else(|| no_memory(&format!("the index of {rows} vectors")))?;
        let mut filling = Filling::new(rows, dims)?;
        let mask = ProjectionMask::roots(footer.parquet_schema(), [at]);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.clone())
            .with_projection(mask)
            .build()
            .map_err(|error| failed(&error))?;
        for batch in reader {
            if stop() {
                return Err(stopped());
            }
            filling.append(lists(batch.map_err(|error| failed(&error))?.column(0))?)?;
        }
        Ok(Self { decoded: filling.finish(), _room: room })
    }
}

fn stopped() -> Error {
    Error::new(ErrorCode::Cancelled, "the work on an index was stopped")
}

fn io(file: &Path, error: &dyn std::error::Error) -> Error {
    Error::new(ErrorCode::NodeIoError, format!("{}: {error}", file.display()))
}
