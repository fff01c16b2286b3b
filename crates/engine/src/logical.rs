//! What is looked at in a logical plan before it becomes a physical one.

use datafusion::{
    common::{
        ScalarValue,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    error::Result as DataFusionResult,
    logical_expr::{Expr, LogicalPlan},
};
use pointsman_ids::{ErrorCode, Result};

use crate::{failure::planning, limits::refuse};

/// Refuses what cannot run in stages: a stage runs once, a recursive term does not.
pub(crate) fn check_logical(plan: &LogicalPlan) -> Result<()> {
    let mut recursive_scan = false;
    let found = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::RecursiveQuery(recursive) = node {
            for term in [&recursive.static_term, &recursive.recursive_term] {
                recursive_scan |= term.exists(|node| Ok(scans_collection(node)))?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found.map_err(|error| planning(&error, ErrorCode::SqlInvalid))?;
    if recursive_scan { Err(refuse("a recursive query cannot read collections")) } else { Ok(()) }
}

/// Bytes of a constant that is copied for every row of a batch.
const MAX_COPIED: usize = 16 << 10;

/// Refuses large constants where there are many rows to copy them for. Text is not copied, being held as views.
pub(crate) fn check_constants(plan: &LogicalPlan) -> Result<()> {
    let mut many_rows = false;
    let mut largest = 0;
    let found = plan.apply_with_subqueries(|node| {
        many_rows |= matches!(
            node,
            LogicalPlan::TableScan(_)
                | LogicalPlan::Values(_)
                | LogicalPlan::RecursiveQuery(_)
                | LogicalPlan::Unnest(_)
        );
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Literal(value, _) = expr
                    && !matches!(value, ScalarValue::Utf8View(_) | ScalarValue::BinaryView(_))
                {
                    largest = largest.max(value.size());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    found.map_err(|error| planning(&error, ErrorCode::SqlInvalid))?;
    if many_rows && largest > MAX_COPIED {
        return Err(refuse(format!(
            "a constant of {largest} bytes would be copied for every row, {MAX_COPIED} are allowed"
        )));
    }
    Ok(())
}

/// Whether rows of several relations are united somewhere.
pub(crate) fn unites(plan: &LogicalPlan) -> DataFusionResult<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Union(_))))
}

fn scans_collection(node: &LogicalPlan) -> bool {
    let LogicalPlan::TableScan(scan) = node else { return false };
    !matches!(scan.table_name.schema(), Some("information_schema")) && !is_work_table(scan)
}

/// The name of the recursive query inside its own recursive term.
fn is_work_table(scan: &datafusion::logical_expr::TableScan) -> bool {
    let provider = datafusion::datasource::source_as_provider(&scan.source);
    provider.is_ok_and(|provider| {
        let provider: &dyn std::any::Any = provider.as_ref();
        provider.is::<datafusion::catalog::cte_worktable::CteWorkTable>()
    })
}
