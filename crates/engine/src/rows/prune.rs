//! Row groups that statistics show to hold nothing of interest.

use std::collections::HashSet;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::{
    common::{Column, ScalarValue, pruning::PruningStatistics},
    physical_optimizer::pruning::PruningPredicate,
};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;

use super::{
    key::{Asked, KeyColumn},
    segment::{Segment, rows_of},
};

/// Row groups in which the condition may be true for a row. Statistics that cannot be read keep their group.
pub(super) fn by_condition(segment: &Segment, predicate: Option<&PruningPredicate>) -> Vec<usize> {
    let all = 0..segment.groups().len();
    match predicate.map(|predicate| predicate.prune(&Groups { segment, types: predicate.schema() })) {
        Some(Ok(keep)) => all.zip(keep).filter_map(|(at, keep)| keep.then_some(at)).collect(),
        Some(Err(error)) => {
            tracing::debug!(segment = %segment.id, %error, "statistics prune nothing");
            all.collect()
        }
        None => all.collect(),
    }
}

/// Row groups that may hold one of the keys.
pub(super) fn by_keys(segment: &Segment, key: &KeyColumn, asked: &Asked) -> Vec<usize> {
    let all = 0..segment.groups().len();
    let bounds = bounds(segment, key.field.name(), |converter| {
        Some((
            converter.row_group_mins(segment.groups()).ok()?,
            converter.row_group_maxes(segment.groups()).ok()?,
        ))
    });
    // Bounds of floating point leave NaN out, but NaN is no key that can be asked for.
    let ordered =
        bounds.and_then(|(min, max)| Some((key.ordered_as(&min)?, key.ordered_as(&max)?, min, max)));
    let Some((from, to, min, max)) = ordered else { return all.collect() };
    let may_hold = |at: &usize| {
        use arrow::array::Array;
        let known = min.is_valid(*at) && max.is_valid(*at);
        !known || asked.any_within(from.row(*at).data(), to.row(*at).data())
    };
    all.filter(may_hold).collect()
}

fn bounds<T>(
    segment: &Segment,
    name: &str,
    read: impl FnOnce(&StatisticsConverter<'_>) -> Option<T>,
) -> Option<T> {
    let metadata = segment.metadata();
    let converter = StatisticsConverter::try_new(name, metadata.schema(), metadata.parquet_schema()).ok()?;
    // A file that does not count nulls does not say that there are none.
    read(&converter.with_missing_null_counts_as_zero(false))
}

/// Statistics of the row groups, with the types of the condition's columns.
struct Groups<'a> {
    segment: &'a Segment,
    types: &'a arrow::datatypes::SchemaRef,
}

impl Groups<'_> {
    fn read(
        &self,
        column: &Column,
        read: impl FnOnce(&StatisticsConverter<'_>) -> Option<ArrayRef>,
    ) -> Option<ArrayRef> {
        let values = bounds(self.segment, &column.name, read)?;
        let wanted = self.types.field_with_name(&column.name).ok()?.data_type();
        arrow::compute::cast(&values, wanted).ok()
    }
}

impl PruningStatistics for Groups<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.read(column, |converter| converter.row_group_mins(self.segment.groups()).ok())
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.read(column, |converter| converter.row_group_maxes(self.segment.groups()).ok())
    }

    fn num_containers(&self) -> usize {
        self.segment.groups().len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        bounds(self.segment, &column.name, |converter| {
            let counts = converter.row_group_null_counts(self.segment.groups()).ok()?;
            Some(std::sync::Arc::new(counts) as ArrayRef)
        })
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.segment.groups().iter().map(|group| Some(u64::from(rows_of(group))));
        Some(std::sync::Arc::new(rows.collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
