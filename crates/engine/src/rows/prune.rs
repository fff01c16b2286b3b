//! What statistics show to hold nothing of interest.

use std::{collections::HashSet, ops::Range};

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array};
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

/// Rows among which those that have one of the keys are: pages, where the file tells about them, else row groups.
pub(super) fn by_keys(segment: &Segment, key: &KeyColumn, asked: &Asked) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = vec![];
    let mut start = 0;
    for (at, group) in segment.groups().iter().enumerate() {
        let rows = rows_of(group);
        for (range, may_hold) in pages(segment, key, asked, at).unwrap_or_else(|| vec![(0..rows, true)]) {
            let range = start + range.start..start + range.end;
            match ranges.last_mut() {
                _ if !may_hold => {}
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        start += rows;
    }
    ranges
}

/// The pages of a row group, counted from its first row, with whether one of the keys may be there; the group as one page
/// where the file does not tell. `None`: nothing is known. Bounds of floating point leave NaN out, but NaN is no key that
/// can be asked for.
fn pages(segment: &Segment, key: &KeyColumn, asked: &Asked, group: usize) -> Option<Vec<(Range<u32>, bool)>> {
    let metadata = segment.metadata().metadata();
    let groups = segment.groups();
    let of_group = groups.get(group)?;
    let (min, max, rows) = bounds(segment, key.field.name(), |converter| {
        let whole = || {
            let (min, max) =
                (converter.row_group_mins([of_group]).ok()?, converter.row_group_maxes([of_group]).ok()?);
            Some((min, max, vec![rows_of(of_group)]))
        };
        let Some((columns, offsets)) = metadata.column_index().zip(metadata.offset_index()) else {
            return whole();
        };
        let counts = converter.data_page_row_counts(offsets, groups, [&group]).ok()??;
        let counts =
            counts.values().iter().map(|rows| u32::try_from(*rows).ok()).collect::<Option<Vec<_>>>()?;
        let min = converter.data_page_mins(columns, offsets, [&group]).ok()?;
        let max = converter.data_page_maxes(columns, offsets, [&group]).ok()?;
        if min.len() == counts.len() && max.len() == counts.len() {
            Some((min, max, counts))
        } else {
            whole()
        }
    })?;
    let (from, to) = (key.ordered_as(&min)?, key.ordered_as(&max)?);
    let mut start = 0;
    let page = |(at, rows): (usize, u32)| {
        let known = min.is_valid(at) && max.is_valid(at);
        let range = start..start + rows;
        start = range.end;
        (range, !known || asked.any_within(from.row(at).data(), to.row(at).data()))
    };
    Some(rows.into_iter().enumerate().map(page).collect())
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
