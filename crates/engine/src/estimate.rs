//! How much a part of a plan gives, as far as statistics tell.

use datafusion::{
    arrow::datatypes::{DataType, Schema},
    physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext},
};

/// Bytes that a value without a fixed width is taken for, a short text with the view that leads to it.
const VARIABLE_WIDTH: usize = 32;

/// Bytes of all rows of a plan; `None` when nothing tells.
pub(crate) fn bytes(plan: &dyn ExecutionPlan) -> Option<usize> {
    let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new()).ok()?;
    let rows = *statistics.num_rows.get_value()?;
    Some(rows.saturating_mul(row_width(&plan.schema())))
}

/// Rows without columns travel too.
fn row_width(schema: &Schema) -> usize {
    let width = |data_type: &DataType| data_type.primitive_width().unwrap_or(VARIABLE_WIDTH);
    schema.fields().iter().map(|field| width(field.data_type())).sum::<usize>().max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::{
        arrow::datatypes::Field,
        common::stats::Precision,
        physical_plan::{empty::EmptyExec, placeholder_row::PlaceholderRowExec},
    };

    use super::*;

    #[test]
    fn bytes_are_rows_times_their_width() {
        let fields = [("a", DataType::Int64), ("b", DataType::Date32), ("c", DataType::Utf8View)];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        assert_eq!(row_width(&schema), 8 + 4 + VARIABLE_WIDTH);
        assert_eq!(bytes(&EmptyExec::new(Arc::clone(&schema))), Some(0));
        let one = PlaceholderRowExec::new(schema);
        let known = StatisticsContext::new().compute(&one, &StatisticsArgs::new()).expect("statistics");
        assert_eq!(known.num_rows, Precision::Exact(1));
        assert_eq!(bytes(&one), Some(44));
    }
}
