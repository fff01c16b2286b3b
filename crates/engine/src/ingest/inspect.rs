//! What a Parquet file holds: columns, rows, and exact statistics.

use std::{collections::BTreeMap, fs::File, path::Path};

use arrow::{
    array::{Array, ArrayRef},
    compute::{SortOptions, sort_to_indices},
    datatypes::{DataType, Field},
};
use bytes::Bytes;
use datafusion::common::ScalarValue;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ParquetRecordBatchReaderBuilder, statistics::StatisticsConverter,
        },
    },
    errors::ParquetError,
    file::{metadata::RowGroupMetaData, reader::ChunkReader},
};
use pointsman_ids::{
    Result,
    catalog::{Column, ColumnStatistics},
};

use super::{
    columns::{check_type, columns, schema},
    invalid,
};
use crate::values::value;

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// Its columns, with the types that it says.
    pub columns: Vec<Column>,
    /// Number of rows.
    pub rows: u64,
    /// Exact statistics by column; columns whose type has no order are left out.
    pub statistics: BTreeMap<String, ColumnStatistics>,
}

impl Inspection {
    /// Refuses columns that can hold no value.
    fn check(self) -> Result<Self> {
        let schema = schema(&self.columns)?;
        schema.fields().iter().try_for_each(|field| check_type(field.name(), field.data_type()))?;
        Ok(self)
    }
}

/// Reads a Parquet file's columns, rows and statistics. Statistics come from the footer where that is exact, and
/// from the rows elsewhere: floating point (the footer ignores NaN) and text that the writer cut off.
///
/// # Errors
/// `parameter_invalid` that names the file and what is wrong with it.
pub fn inspect_parquet(path: &Path) -> Result<Inspection> {
    let opened = File::open(path).map_err(ParquetError::from);
    let found =
        opened.and_then(|file| inspect(&file)).map_err(|error| invalid(path.display(), reason(&error)))?;
    found.check().map_err(|error| error.context(path.display()))
}

/// As [`inspect_parquet`], for a file in memory.
///
/// # Errors
/// `parameter_invalid` that says what is wrong with it.
pub fn inspect_bytes(bytes: &Bytes) -> Result<Inspection> {
    let found = inspect(bytes).map_err(|error| invalid("the Parquet file", reason(&error)))?;
    found.check().map_err(|error| error.context("the Parquet file"))
}

/// What is wrong, without the reader's own words for a fault that is not its own.
fn reason(error: &ParquetError) -> String {
    match error {
        ParquetError::External(cause) => cause.to_string(),
        own => own.to_string(),
    }
}

fn inspect<R: ChunkReader + Reopen + 'static>(file: &R) -> Result<Inspection, ParquetError> {
    let metadata = ArrowReaderMetadata::load(&file.again()?, Default::default())?;
    let schema = metadata.schema();
    let groups = metadata.metadata().row_groups();
    let rows = groups.iter().map(|group| u64::try_from(group.num_rows()).unwrap_or_default()).sum();
    let mut statistics = BTreeMap::new();
    for (at, field) in schema.fields().iter().enumerate() {
        if !ordered(field.data_type()) {
            continue;
        }
        let known = match from_footer(&metadata, field, groups)? {
            Some(known) => known,
            None => from_rows(file, &metadata, at)?,
        };
        statistics.insert(field.name().clone(), known);
    }
    Ok(Inspection { columns: columns(schema), rows, statistics })
}

/// A file that can be read several times.
trait Reopen: Sized {
    fn again(&self) -> Result<Self, ParquetError>;
}

impl Reopen for File {
    fn again(&self) -> Result<Self, ParquetError> {
        Ok(self.try_clone()?)
    }
}

impl Reopen for Bytes {
    fn again(&self) -> Result<Self, ParquetError> {
        Ok(self.clone())
    }
}

/// Whether the catalog knows bounds of the type.
fn ordered(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, inner) => ordered(inner),
        DataType::Null | DataType::Interval(_) | DataType::Duration(_) | DataType::Float16 => false,
        other => !other.is_nested(),
    }
}

/// Whether the footer's bounds are those of the rows, if it has any.
fn bounds_are_exact(data_type: &DataType) -> Exactness {
    match data_type {
        DataType::Dictionary(_, inner) => bounds_are_exact(inner),
        DataType::Float32 | DataType::Float64 => Exactness::Never,
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Exactness::WhenSaid,
        _ => Exactness::Always,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Exactness {
    Always,
    WhenSaid,
    Never,
}

/// `None`: the footer does not say, or not exactly.
fn from_footer(
    metadata: &ArrowReaderMetadata,
    field: &Field,
    groups: &[RowGroupMetaData],
) -> Result<Option<ColumnStatistics>, ParquetError> {
    let exactness = bounds_are_exact(field.data_type());
    if exactness == Exactness::Never {
        return Ok(None);
    }
    let converter = StatisticsConverter::try_new(field.name(), metadata.schema(), metadata.parquet_schema())?;
    let nulls = converter.row_group_null_counts(groups)?;
    let (mins, maxes) = (converter.row_group_mins(groups)?, converter.row_group_maxes(groups)?);
    let min_exact = converter.row_group_is_min_value_exact(groups)?;
    let max_exact = converter.row_group_is_max_value_exact(groups)?;
    let mut bounds = Bounds::default();
    for (at, group) in groups.iter().enumerate() {
        if nulls.is_null(at) {
            return Ok(None);
        }
        bounds.nulls += nulls.value(at);
        if i64::try_from(nulls.value(at)).is_ok_and(|nulls| nulls == group.num_rows()) {
            continue;
        }
        let said =
            min_exact.is_valid(at) && min_exact.value(at) && max_exact.is_valid(at) && max_exact.value(at);
        if mins.is_null(at) || maxes.is_null(at) || (exactness == Exactness::WhenSaid && !said) {
            return Ok(None);
        }
        bounds.extend(&mins, at, &maxes, at)?;
    }
    Ok(Some(bounds.finish()))
}

/// Reads the column.
fn from_rows<R: ChunkReader + Reopen + 'static>(
    file: &R,
    metadata: &ArrowReaderMetadata,
    column: usize,
) -> Result<ColumnStatistics, ParquetError> {
    let mask = ProjectionMask::roots(metadata.parquet_schema(), [column]);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file.again()?, metadata.clone());
    let mut bounds = Bounds::default();
    for batch in reader.with_projection(mask).build()? {
        let batch = batch?;
        let values = batch.column(0);
        bounds.nulls += values.null_count() as u64;
        if values.null_count() < values.len() {
            let (min, max) = (first(values, false)?, first(values, true)?);
            bounds.extend(values, min, values, max)?;
        }
    }
    Ok(bounds.finish())
}

/// Position of the smallest value, or of the largest.
fn first(values: &ArrayRef, descending: bool) -> Result<usize, ParquetError> {
    let order = SortOptions { descending, nulls_first: false };
    let positions = sort_to_indices(values, Some(order), Some(1))?;
    Ok(positions.value(0) as usize)
}

#[derive(Default)]
struct Bounds {
    nulls: u64,
    min: Option<ScalarValue>,
    max: Option<ScalarValue>,
    nan: bool,
}

impl Bounds {
    fn extend(
        &mut self,
        mins: &ArrayRef,
        min: usize,
        maxes: &ArrayRef,
        max: usize,
    ) -> Result<(), ParquetError> {
        let scalar = |array: &ArrayRef, at| {
            ScalarValue::try_from_array(array, at).map_err(|error| ParquetError::General(error.to_string()))
        };
        let (min, max) = (scalar(mins, min)?, scalar(maxes, max)?);
        self.nan |= value(&min).is_none() || value(&max).is_none();
        if self.min.as_ref().is_none_or(|old| min < *old) {
            self.min = Some(min);
        }
        if self.max.as_ref().is_none_or(|old| max > *old) {
            self.max = Some(max);
        }
        Ok(())
    }

    fn finish(self) -> ColumnStatistics {
        let known = |bound: Option<ScalarValue>| bound.filter(|_| !self.nan).and_then(|bound| value(&bound));
        ColumnStatistics { nulls: Some(self.nulls), min: known(self.min), max: known(self.max) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{Float64Array, Int64Array, RecordBatch, StringArray},
        datatypes::Schema,
    };
    use parquet::arrow::ArrowWriter;
    use pointsman_ids::catalog::Value;

    use super::*;

    fn parquet(columns: Vec<(&str, ArrayRef)>) -> Bytes {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, values)| (name, values, true)),
        )
        .expect("a batch");
        let mut bytes = vec![];
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
        bytes.into()
    }

    #[test]
    fn statistics_are_exact_also_where_the_footer_is_not() {
        let long = "x".repeat(200);
        let file = parquet(vec![
            ("n", Arc::new(Int64Array::from(vec![Some(3), None, Some(-1)]))),
            ("t", Arc::new(StringArray::from(vec![Some("b"), Some(long.as_str()), None]))),
            ("f", Arc::new(Float64Array::from(vec![Some(1.5), Some(-2.0), None]))),
            ("nan", Arc::new(Float64Array::from(vec![Some(1.5), Some(f64::NAN), None]))),
            ("none", Arc::new(Int64Array::from(vec![None, None, None]))),
        ]);
        let found = inspect_bytes(&file).expect("a file");
        assert_eq!(found.rows, 3);
        let of = |name: &str| found.statistics[name].clone();
        let known = |nulls, min, max| ColumnStatistics { nulls: Some(nulls), min: Some(min), max: Some(max) };
        assert_eq!(of("n"), known(1, Value::Integer(-1), Value::Integer(3)));
        assert_eq!(of("t"), known(1, Value::Text("b".into()), Value::Text(long)));
        assert_eq!(of("f"), known(1, Value::Float(-2.0), Value::Float(1.5)));
        assert_eq!(of("nan"), ColumnStatistics { nulls: Some(1), min: None, max: None });
        assert_eq!(of("none"), ColumnStatistics { nulls: Some(3), min: None, max: None });
    }

    #[test]
    fn an_empty_file_has_columns() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
        let mut bytes = vec![];
        ArrowWriter::try_new(&mut bytes, schema, None).and_then(ArrowWriter::close).expect("written");
        let found = inspect_bytes(&bytes.into()).expect("a file");
        assert_eq!((found.rows, found.columns.len()), (0, 1));
    }

    #[test]
    fn a_column_that_can_hold_nothing_is_refused() {
        let file = parquet(vec![("a", Arc::new(arrow::array::NullArray::new(2)))]);
        let refused = inspect_bytes(&file).expect_err("no values");
        assert!(refused.message().contains("column 'a': type Null"), "{refused}");
    }

    #[test]
    fn what_is_no_parquet_is_refused() {
        assert!(inspect_bytes(&Bytes::from_static(b"not parquet at all")).is_err());
    }
}
