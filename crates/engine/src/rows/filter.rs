//! The condition of a request.

use std::{
    ops::ControlFlow,
    sync::{Arc, LazyLock},
};

use arrow::{
    array::{Array, AsArray, BooleanArray, RecordBatch},
    compute::prep_null_mask_filter,
    datatypes::{DataType, SchemaRef},
};
use datafusion::{
    common::{
        DFSchema,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    execution::{SessionState, SessionStateBuilder},
    logical_expr::{Expr, Volatility},
    physical_expr::PhysicalExpr,
    physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder},
    sql::{
        parser::DFParserBuilder,
        sqlparser::{
            ast::{Expr as Ast, Query, Visit, Visitor},
            dialect::GenericDialect,
        },
    },
};
use pointsman_ids::{Error, ErrorCode, Result};

use super::table::Columns;
use crate::{
    failure::planning,
    limits::{self, Depth, MAX_IN_LIST, MAX_NESTING, at_most, refuse},
    statement::{RECURSION_PER_LEVEL, on_large_stack, panicked},
};

/// Functions and rules; the same for all, since conditions name nothing but columns.
static FUNCTIONS: LazyLock<SessionState> =
    LazyLock::new(|| SessionStateBuilder::new_with_default_features().build());

/// A condition that is true for the rows that may answer.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    condition: Arc<dyn PhysicalExpr>,
    /// The columns that it reads.
    schema: SchemaRef,
    pruning: Option<Arc<PruningPredicate>>,
}

impl Filter {
    /// # Errors
    /// `sql_invalid` for what is no condition over the columns, or over a limit; `column_not_found`.
    pub(super) fn parse(sql: &str, columns: &Columns) -> Result<Self> {
        let within = |error: Error| error.context("the filter");
        match limits::check_text(sql).map_err(within)? {
            Depth::Shallow => std::panic::catch_unwind(|| Self::plan(sql, columns))
                .unwrap_or_else(|_| Err(panicked()))
                .map_err(within),
            Depth::Deep => on_large_stack(|| Self::plan(sql, columns)).map_err(within),
        }
    }

    fn plan(sql: &str, columns: &Columns) -> Result<Self> {
        let invalid = |error: datafusion::error::DataFusionError| planning(&error, ErrorCode::SqlInvalid);
        let parsed = DFParserBuilder::new(sql)
            .with_dialect(&GenericDialect {})
            .with_recursion_limit(MAX_NESTING * RECURSION_PER_LEVEL)
            .build()
            .and_then(|mut parser| parser.parse_into_expr())
            .map_err(|error| refuse(error.strip_backtrace()))?;
        if let Some(alias) = &parsed.alias {
            return Err(refuse(format!("'{alias}' stands behind the condition; a condition has no name")));
        }
        if let ControlFlow::Break(error) = parsed.expr.visit(&mut Inspector) {
            return Err(error);
        }
        let whole = DFSchema::try_from(Arc::clone(&columns.schema)).map_err(invalid)?;
        let condition = FUNCTIONS
            .create_logical_expr_from_sql_expr(parsed, &whole)
            .map_err(|error| Self::unknown_column(&error, columns).unwrap_or_else(|| invalid(error)))?;
        check(&condition)?;
        let mut used: Vec<usize> = (condition.column_refs().iter())
            .map(|column| columns.place(&column.name))
            .collect::<Result<_>>()?;
        used.sort_unstable();
        let schema = Arc::new(columns.schema.project(&used).map_err(super::broken)?);
        let narrow = DFSchema::try_from(Arc::clone(&schema)).map_err(invalid)?;
        let condition = FUNCTIONS.create_physical_expr(condition, &narrow).map_err(invalid)?;
        match condition.data_type(&schema).map_err(invalid)? {
            DataType::Boolean => {
                let filter = Self { pruning: pruning(&condition, &schema), condition, schema };
                // What fails without any row, such as the number of a text that is none, fails here.
                filter.matches(&RecordBatch::new_empty(Arc::clone(&filter.schema)))?;
                Ok(filter)
            }
            other => Err(refuse(format!("it is no condition: its values are {other}, not true or false"))),
        }
    }

    /// Our own words for a column that is not there.
    fn unknown_column(error: &datafusion::error::DataFusionError, columns: &Columns) -> Option<Error> {
        use datafusion::{common::SchemaError, error::DataFusionError};
        match error.find_root() {
            DataFusionError::SchemaError(schema, _) => match &**schema {
                SchemaError::FieldNotFound { field, .. } => columns.place(&field.name).err(),
                _ => None,
            },
            _ => None,
        }
    }

    /// The columns that it reads, in their order and with the types that it expects.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// For which rows of a batch, whose first columns are those of [`Self::schema`], it is true.
    ///
    /// # Errors
    /// `sql_invalid` when it cannot be computed over them, such as a division by zero.
    pub(super) fn matches(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let failed = |error: datafusion::error::DataFusionError| {
            let why = error.strip_backtrace();
            refuse(format!("it cannot be computed: {why}"))
        };
        let values = self.condition.evaluate(batch).map_err(failed)?;
        let values = values.into_array(batch.num_rows()).map_err(failed)?;
        let matches =
            values.as_boolean_opt().ok_or_else(|| super::broken("a condition gave no truth values"))?;
        // Neither true nor false is not true.
        Ok(if matches.null_count() > 0 { prep_null_mask_filter(matches) } else { matches.clone() })
    }

    /// How statistics tell that it is true for no row; `None`: they cannot.
    pub(super) fn pruning(&self) -> Option<&PruningPredicate> {
        self.pruning.as_deref()
    }
}

/// Bounds of floating point leave NaN out, so nothing is concluded from them.
fn pruning(condition: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<Arc<PruningPredicate>> {
    let plain = |data_type: &DataType| !data_type.is_floating() && !data_type.is_nested();
    if !schema.fields().iter().all(|field| plain(field.data_type())) {
        return None;
    }
    let built =
        PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(Arc::clone(condition));
    built.ok().filter(|predicate| !predicate.always_true()).map(Arc::new)
}

/// Refuses what depends on anything but the row.
fn check(condition: &Expr) -> Result<()> {
    let mut refused = None;
    let walked = condition.apply(|expr| {
        let why = match expr {
            Expr::AggregateFunction(_) => Some("functions over many rows are not allowed".to_owned()),
            Expr::WindowFunction(_) => Some("window functions are not allowed".to_owned()),
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_) => {
                Some("subqueries are not allowed".to_owned())
            }
            Expr::Placeholder(_) => Some("placeholders are not allowed; write the value".to_owned()),
            Expr::Unnest(_)
            | Expr::GroupingSet(_)
            | Expr::ScalarVariable(..)
            | Expr::OuterReferenceColumn(..) => Some(format!("'{expr}' is not allowed")),
            Expr::ScalarFunction(function)
                if function.func.signature().volatility != Volatility::Immutable =>
            {
                let name = function.name();
                Some(format!(
                    "function '{name}' is not allowed, since it differs from node to node; write its value"
                ))
            }
            _ => None,
        };
        Ok(match why {
            Some(why) => {
                refused = Some(refuse(why));
                TreeNodeRecursion::Stop
            }
            None => TreeNodeRecursion::Continue,
        })
    });
    walked.map_err(|error| planning(&error, ErrorCode::SqlInvalid))?;
    refused.map_or(Ok(()), Err)
}

/// What the text alone tells.
struct Inspector;

impl Visitor for Inspector {
    type Break = Error;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        ControlFlow::Break(refuse("subqueries are not allowed"))
    }

    fn pre_visit_expr(&mut self, expr: &Ast) -> ControlFlow<Error> {
        match expr {
            Ast::InList { list, .. } => match at_most("values in one IN list", list.len(), MAX_IN_LIST) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}
