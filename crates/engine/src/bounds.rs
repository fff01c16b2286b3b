//! Bounds in Parquet files that are not to be trusted.
//!
//! Writers leave NaN out of the bounds of floating point, as the format says, while NaN is above every number when rows
//! are compared. A node that pruned by such bounds would lose rows for which `v > 100` or `v = 'NaN'` is true.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::Result,
    datasource::{
        physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource},
        source::DataSourceExec,
    },
    physical_expr::{PhysicalExpr, conjunction, split_conjunction, utils::collect_columns},
    physical_plan::ExecutionPlan,
};

/// The scan without those filters that would prune by bounds of floating point; `None` when it has none. Nothing but
/// pruning is lost: filters of a scan are applied to its rows again above it.
pub(crate) fn without_float_bounds(scan: &FileScanConfig) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(source) = scan.file_source.downcast_ref::<ParquetSource>() else { return Ok(None) };
    let Some(predicate) = source.filter() else { return Ok(None) };
    if source.table_parquet_options().global.pushdown_filters {
        return Ok(None);
    }
    let terms = split_conjunction(&predicate);
    let trusted: Vec<_> =
        terms.iter().filter(|term| !compares_floats(term, scan)).copied().cloned().collect();
    if trusted.len() == terms.len() {
        return Ok(None);
    }
    let source = source.with_predicate(conjunction(trusted));
    let scan = FileScanConfigBuilder::from(scan.clone()).with_source(Arc::new(source)).build();
    Ok(Some(DataSourceExec::from_data_source(scan)))
}

fn compares_floats(term: &Arc<dyn PhysicalExpr>, scan: &FileScanConfig) -> bool {
    let schema = scan.file_schema();
    collect_columns(term).iter().any(|column| {
        schema.field_with_name(column.name()).map_or(true, |field| has_floats(field.data_type()))
    })
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, inner) => has_floats(inner),
        other => other.is_floating() || other.is_nested(),
    }
}
