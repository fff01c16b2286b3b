//! What planning knows of collections: schemas, statistics and bounds, derived once per change of a collection.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, OnceLock},
};

use arrow::{
    array::{ArrayRef, BooleanArray, UInt64Array},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    common::{
        Column, ColumnStatistics, ScalarValue, Statistics, pruning::PruningStatistics, stats::Precision,
    },
    physical_optimizer::pruning::PruningPredicate,
};
use pointsman_ids::{
    Error, ErrorCode, FeedVersion, Result,
    catalog::{self, Value},
    feed::{CollectionEntry, Snapshot},
};

use crate::values::{read_as, scalar};

/// The collections of one feed snapshot, ready for planning. Built once per snapshot; collections that did not change
/// keep what was derived from them.
///
/// ```
/// use pointsman_engine::Catalog;
/// use pointsman_ids::{ClusterName, feed::Snapshot};
///
/// let first = Catalog::build(&Snapshot::empty(ClusterName::new("local")?), None);
/// let next = Catalog::build(&Snapshot::empty(ClusterName::new("local")?), Some(&first));
/// assert!(next.entry("orders").is_none());
/// # Ok::<(), pointsman_ids::Error>(())
/// ```
#[derive(Debug)]
pub struct Catalog {
    version: FeedVersion,
    tables: BTreeMap<String, Arc<CollectionTable>>,
}

impl Catalog {
    /// Derives the catalog of a snapshot; what `previous` knows of unchanged collections is taken over.
    pub fn build(snapshot: &Snapshot, previous: Option<&Self>) -> Self {
        let table = |entry: &Arc<CollectionEntry>| {
            let known = previous.and_then(|catalog| catalog.tables.get(entry.name.as_str()));
            match known {
                Some(table) if Arc::ptr_eq(&table.entry, entry) => Arc::clone(table),
                _ => Arc::new(CollectionTable::new(Arc::clone(entry))),
            }
        };
        let tables =
            snapshot.collections.iter().map(|entry| (entry.name.to_string(), table(entry))).collect();
        Self { version: snapshot.version, tables }
    }

    /// Version of the snapshot that this was built from.
    pub fn snapshot_version(&self) -> FeedVersion {
        self.version
    }

    /// The collection of this name.
    pub fn entry(&self, name: &str) -> Option<&Arc<CollectionEntry>> {
        self.tables.get(name).map(|table| &table.entry)
    }

    /// Names of all collections, ascending.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.tables.keys()
    }

    pub(crate) fn table(&self, name: &str) -> Option<&Arc<CollectionTable>> {
        self.tables.get(name)
    }
}

/// One collection as a table.
#[derive(Debug)]
pub(crate) struct CollectionTable {
    entry: Arc<CollectionEntry>,
    /// The error names the column whose type this version does not know.
    schema: Result<SchemaRef>,
    statistics: OnceLock<Arc<Statistics>>,
    /// By position of the column.
    bounds: Vec<OnceLock<Bounds>>,
}

/// A column's statistics of all segments, in the order of the segments.
#[derive(Debug)]
struct Bounds {
    min: Option<ArrayRef>,
    max: Option<ArrayRef>,
    nulls: ArrayRef,
}

impl CollectionTable {
    fn new(entry: Arc<CollectionEntry>) -> Self {
        let schema = schema(&entry);
        let bounds = entry.columns.iter().map(|_| OnceLock::new()).collect();
        Self { entry, schema, statistics: OnceLock::new(), bounds }
    }

    pub(crate) fn entry(&self) -> &Arc<CollectionEntry> {
        &self.entry
    }

    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        self.schema.clone()
    }

    /// Statistics of the given segments: exact when they are all that there are, else with exact row counts only.
    pub(crate) fn statistics(&self, schema: &Schema, segments: &[u32]) -> Arc<Statistics> {
        let all = self.statistics.get_or_init(|| Arc::new(self.merge(schema)));
        if segments.len() == self.entry.segments.len() {
            return Arc::clone(all);
        }
        let mut some = Statistics::clone(all).to_inexact();
        some.num_rows = Precision::Exact(count(self.chosen(segments).map(|segment| segment.rows).sum()));
        some.total_byte_size =
            Precision::Inexact(count(self.chosen(segments).map(|segment| segment.bytes).sum()));
        Arc::new(some)
    }

    fn chosen(&self, segments: &[u32]) -> impl Iterator<Item = &pointsman_ids::feed::SegmentEntry> {
        segments.iter().filter_map(|at| Some(&**self.entry.segments.get(*at as usize)?))
    }

    fn merge(&self, schema: &Schema) -> Statistics {
        let mut merged = Statistics::new_unknown(schema);
        merged.num_rows =
            Precision::Exact(count(self.entry.segments.iter().map(|segment| segment.rows).sum()));
        merged.total_byte_size =
            Precision::Inexact(count(self.entry.segments.iter().map(|segment| segment.bytes).sum()));
        for (column, field) in merged.column_statistics.iter_mut().zip(schema.fields()) {
            *column = self.merge_column(field);
        }
        merged
    }

    fn merge_column(&self, field: &Field) -> ColumnStatistics {
        let known =
            |segment: &'_ pointsman_ids::feed::SegmentEntry| segment.statistics.get(field.name()).cloned();
        let mut nulls = Some(0_u64);
        let mut min = Some(None);
        let mut max = Some(None);
        for segment in &self.entry.segments {
            let own = known(segment).unwrap_or_default();
            nulls = nulls.zip(own.nulls).map(|(sum, own)| sum + own);
            if own.nulls == Some(segment.rows) {
                continue; // no value, so no bound either
            }
            min = extend(min, own.min.as_ref(), field.data_type(), |new, old| new < old);
            max = extend(max, own.max.as_ref(), field.data_type(), |new, old| new > old);
        }
        let exact =
            |bound: Option<Option<ScalarValue>>| bound.flatten().map_or(Precision::Absent, Precision::Exact);
        ColumnStatistics {
            null_count: nulls.map_or(Precision::Absent, |nulls| Precision::Exact(count(nulls))),
            min_value: exact(min),
            max_value: exact(max),
            ..ColumnStatistics::new_unknown()
        }
    }

    /// Positions of the segments that can hold a row for which the predicate is true. All of them when the predicate
    /// cannot be judged.
    pub(crate) fn prune(&self, predicate: &PruningPredicate) -> Vec<u32> {
        let all = 0..u32::try_from(self.entry.segments.len()).unwrap_or(u32::MAX);
        match predicate.prune(self) {
            Ok(keep) => all.zip(keep).filter_map(|(at, keep)| keep.then_some(at)).collect(),
            Err(error) => {
                tracing::debug!(collection = %self.entry.name, %error, "statistics prune nothing");
                all.collect()
            }
        }
    }

    fn bounds(&self, name: &str) -> Option<&Bounds> {
        let schema = self.schema.as_ref().ok()?;
        let at = schema.index_of(name).ok()?;
        Some(self.bounds.get(at)?.get_or_init(|| self.column_bounds(schema.field(at))))
    }

    fn column_bounds(&self, field: &Field) -> Bounds {
        let of = |pick: fn(&catalog::ColumnStatistics) -> Option<&Value>| {
            let scalars = self.entry.segments.iter().map(|segment| {
                let value = segment.statistics.get(field.name()).and_then(pick);
                value
                    .and_then(|value| scalar(value, field.data_type()))
                    .or_else(|| ScalarValue::try_from(field.data_type()).ok())
                    .unwrap_or(ScalarValue::Null)
            });
            ScalarValue::iter_to_array(scalars).ok()
        };
        let nulls = self.entry.segments.iter().map(|segment| segment.statistics.get(field.name())?.nulls);
        Bounds {
            min: of(|statistics| statistics.min.as_ref()),
            max: of(|statistics| statistics.max.as_ref()),
            nulls: Arc::new(nulls.collect::<UInt64Array>()),
        }
    }
}

/// Takes one more segment's bound in. Outer `None`: a segment's bound is unknown, so nothing is known of the whole.
fn extend(
    bound: Option<Option<ScalarValue>>,
    value: Option<&Value>,
    data_type: &DataType,
    better: impl Fn(&ScalarValue, &ScalarValue) -> bool,
) -> Option<Option<ScalarValue>> {
    let new = scalar(value?, data_type)?;
    Some(Some(match bound? {
        Some(old) if !better(&new, &old) => old,
        _ => new,
    }))
}

fn count(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The schema that scans of the collection have.
fn schema(entry: &CollectionEntry) -> Result<SchemaRef> {
    let field = |column: &catalog::Column| {
        let data_type = column.data_type.parse::<DataType>().map_err(|error| {
            Error::new(
                ErrorCode::ServiceInternal,
                format!(
                    "collection '{}', column '{}': type '{}' is not known here: {error}",
                    entry.name, column.name, column.data_type
                ),
            )
        })?;
        Ok(Field::new(&column.name, read_as(data_type), column.nullable))
    };
    Ok(Arc::new(Schema::new(entry.columns.iter().map(field).collect::<Result<Vec<_>>>()?)))
}

impl PruningStatistics for CollectionTable {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(&column.name)?.min.clone()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(&column.name)?.max.clone()
    }

    fn num_containers(&self) -> usize {
        self.entry.segments.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::clone(&self.bounds(&column.name)?.nulls))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.entry.segments.iter().map(|segment| Some(segment.rows)).collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
