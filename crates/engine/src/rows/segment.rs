//! A segment's local file, read by columns and rows.

use std::{fs::File, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::SchemaRef,
    error::ArrowError,
};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
            ParquetRecordBatchReaderBuilder, RowSelection,
        },
    },
    errors::ParquetError,
    file::metadata::{PageIndexPolicy, RowGroupMetaData},
};
use pointsman_ids::{Error, ErrorCode, Result, SegmentId};

use super::memory::{Kept, Key, Memory, What};
use crate::store::{SegmentFile, SegmentStore};

/// Bytes of a batch, if rows are of usual width.
const BATCH_BYTES: usize = 4 << 20;
/// Most rows of a batch: what is computed over it must not take long.
const BATCH_ROWS: usize = 8_192;

/// A segment that a request reads.
pub(super) struct Segment {
    pub(super) id: SegmentId,
    /// With its hold.
    file: SegmentFile,
    footer: Footer,
}

/// The footer of the file, kept or for this request alone.
enum Footer {
    Kept(Arc<Kept<ArrowReaderMetadata>>),
    Own(ArrowReaderMetadata),
}

impl Segment {
    /// # Errors
    /// `segment_not_loaded`; `node_io_error` when the file cannot be read.
    pub(super) async fn open(
        id: SegmentId,
        collection: &str,
        store: &dyn SegmentStore,
        memory: &Memory,
    ) -> Result<Self> {
        let file = store.open(id).ok_or_else(|| {
            let why = format!("segment {id} of collection '{collection}' is not held here");
            Error::new(ErrorCode::SegmentNotLoaded, why)
        })?;
        let load = || footer(&file).map_err(|error| unreadable(id, &error));
        let key = Key { segment: id, what: What::Footer };
        // How much it takes is known when it is there.
        let size = |footer: &ArrowReaderMetadata| footer.metadata().memory_size() as u64;
        let footer = match memory.get(&key, 0, async { load() }, size).await? {
            Some(kept) => Footer::Kept(kept),
            None => Footer::Own(load()?),
        };
        Ok(Self { id, file, footer })
    }

    fn footer(&self) -> &ArrowReaderMetadata {
        match &self.footer {
            Footer::Kept(kept) => kept,
            Footer::Own(own) => own,
        }
    }

    /// Rows of the segment.
    pub(super) fn rows(&self) -> u32 {
        self.groups().iter().map(rows_of).fold(0, u32::saturating_add)
    }

    pub(super) fn groups(&self) -> &[RowGroupMetaData] {
        self.footer().metadata().row_groups()
    }

    pub(super) fn metadata(&self) -> &ArrowReaderMetadata {
        self.footer()
    }

    /// Reads columns of whole row groups, ascending, as `schema` names and types them.
    pub(super) fn scan(&self, schema: &SchemaRef, groups: &[usize]) -> Scan<'_> {
        Scan { segment: self, schema: Arc::clone(schema), runs: runs(groups), reader: None, next_row: 0 }
    }

    /// Reads columns of some rows, ascending and each once.
    pub(super) fn pick(&self, schema: &SchemaRef, rows: &[u32]) -> Result<Pick> {
        let mut ranges: Vec<Range<u32>> = vec![];
        for &row in rows {
            match ranges.last_mut() {
                Some(last) if last.end == row => last.end += 1,
                _ => ranges.push(row..row + 1),
            }
        }
        self.pick_ranges(schema, &ranges)
    }

    /// Reads columns of ranges of rows, ascending.
    pub(super) fn pick_ranges(&self, schema: &SchemaRef, ranges: &[Range<u32>]) -> Result<Pick> {
        let mut groups = vec![];
        // Rows count from the first one of the groups that are read.
        let mut chosen: Vec<Range<usize>> = vec![];
        let (mut start, mut before) = (0_u32, 0_usize);
        for (at, group) in self.groups().iter().enumerate() {
            let end = start.saturating_add(rows_of(group));
            let first = ranges.partition_point(|range| range.end <= start);
            let inside = ranges[first..].iter().take_while(|range| range.start < end);
            let place = |row: u32| before + (row.clamp(start, end) - start) as usize;
            let had = chosen.len();
            chosen.extend(inside.map(|range| place(range.start)..place(range.end)));
            if chosen.len() > had {
                groups.push(at);
                before += (end - start) as usize;
            }
            start = end;
        }
        if let Some(last) = ranges.last().filter(|last| last.end > start) {
            return Err(super::broken(format!("segment {} has no row {}", self.id, last.end - 1)));
        }
        let selection = RowSelection::from_consecutive_ranges(chosen.into_iter(), before);
        let reader = self.reader(schema, groups, Some(selection))?;
        Ok(Pick { reader, segment: self.id, schema: Arc::clone(schema) })
    }

    fn reader(
        &self,
        schema: &SchemaRef,
        groups: Vec<usize>,
        selection: Option<RowSelection>,
    ) -> Result<ParquetRecordBatchReader> {
        let failed = |error: ParquetError| unreadable(self.id, &error);
        let footer = self.footer();
        let roots = schema.fields().iter().map(|field| footer.schema().index_of(field.name()));
        let roots = roots.collect::<Result<Vec<_>, _>>().map_err(|error| failed(error.into()))?;
        let mask = ProjectionMask::roots(footer.parquet_schema(), roots);
        // A descriptor of its own: where it reads next is not to be shared.
        let file = File::open(&self.file.path).map_err(|error| failed(error.into()))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.clone())
            .with_projection(mask)
            .with_row_groups(groups)
            .with_batch_size(batch_rows(schema));
        match selection {
            Some(selection) => builder.with_row_selection(selection),
            None => builder,
        }
        .build()
        .map_err(failed)
    }
}

pub(super) fn rows_of(group: &RowGroupMetaData) -> u32 {
    u32::try_from(group.num_rows()).unwrap_or(u32::MAX)
}

/// Groups that lie one behind the other are read in one go.
fn runs(groups: &[usize]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = vec![];
    for &group in groups {
        match runs.last_mut() {
            Some(last) if last.end == group => last.end += 1,
            _ => runs.push(group..group + 1),
        }
    }
    runs.reverse();
    runs
}

/// Whole row groups, batch by batch.
pub(super) struct Scan<'a> {
    segment: &'a Segment,
    schema: SchemaRef,
    /// Those to come, the next one last.
    runs: Vec<Range<usize>>,
    reader: Option<ParquetRecordBatchReader>,
    next_row: u32,
}

impl Scan<'_> {
    /// The next batch with the number of its first row.
    pub(super) fn next(&mut self) -> Result<Option<(u32, RecordBatch)>> {
        loop {
            if self.reader.is_none() {
                let Some(run) = self.runs.pop() else { return Ok(None) };
                let before = &self.segment.groups()[..run.start];
                self.next_row = before.iter().map(rows_of).fold(0, u32::saturating_add);
                self.reader = Some(self.segment.reader(&self.schema, run.collect(), None)?);
            }
            match self.reader.as_mut().and_then(Iterator::next) {
                Some(batch) => {
                    let batch = typed(self.segment.id, batch, &self.schema)?;
                    let first = self.next_row;
                    self.next_row += u32::try_from(batch.num_rows()).map_err(super::broken)?;
                    return Ok(Some((first, batch)));
                }
                None => self.reader = None,
            }
        }
    }
}

/// Some rows, batch by batch.
pub(super) struct Pick {
    reader: ParquetRecordBatchReader,
    segment: SegmentId,
    schema: SchemaRef,
}

impl Pick {
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.reader.next().map(|batch| typed(self.segment, batch, &self.schema)).transpose()
    }
}

/// Columns in the order and with the types of `schema`.
fn typed(
    segment: SegmentId,
    batch: Result<RecordBatch, ArrowError>,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let failed = |error: ArrowError| unreadable(segment, &error);
    let batch = batch.map_err(failed)?;
    let column = |field: &arrow::datatypes::FieldRef| -> Result<ArrayRef, ArrowError> {
        let at = batch.schema_ref().index_of(field.name())?;
        let column = batch.column(at);
        if column.data_type() == field.data_type() {
            Ok(Arc::clone(column))
        } else {
            cast(column, field.data_type())
        }
    };
    let columns = schema.fields().iter().map(column).collect::<Result<_, _>>().map_err(failed)?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows).map_err(failed)
}

/// Rows of a batch: few of wide ones.
fn batch_rows(schema: &SchemaRef) -> usize {
    use arrow::datatypes::DataType;
    let width = |data_type: &DataType| match data_type {
        DataType::FixedSizeList(item, length) => {
            usize::try_from(*length).unwrap_or_default() * item.data_type().primitive_width().unwrap_or(16)
        }
        other => other.primitive_width().unwrap_or(64),
    };
    let row: usize = schema.fields().iter().map(|field| width(field.data_type())).sum();
    (BATCH_BYTES / row.max(1)).clamp(16, BATCH_ROWS)
}

fn footer(file: &SegmentFile) -> Result<ArrowReaderMetadata, ParquetError> {
    // Where pages begin is needed to jump to the rows that won.
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    ArrowReaderMetadata::load(&File::open(&file.path)?, options)
}

/// `node_io_error`.
fn unreadable(segment: SegmentId, error: &dyn std::error::Error) -> Error {
    Error::new(ErrorCode::NodeIoError, format!("segment {segment} cannot be read: {error}"))
}
