//! Functions whose results a text can make as large as it likes, with an upper bound.
//!
//! `repeat('x', 2000000000)` is a short text. Constants are folded while a statement is planned, where no memory limit
//! reaches, and a nested `replace` or `||` doubles at every level. So sessions know such functions only in a bounded
//! version ([`register`]): it tells from the arguments how large the result can get before it calls the function, works
//! through large batches in pieces, and answers with an error of execution where a value or a batch would be too
//! large. Expressions that the planner makes without asking the session, such as `||`, are rewritten before anything
//! is evaluated ([`Rewrite`]).
//!
//! Text comes out as views, as text of collections is read: a constant of a MiB beside a thousand rows is held once.

mod concat;
mod growth;
mod input;
mod rewrite;

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, new_empty_array},
    compute::{cast, concat as concat_arrays},
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::{DataFusionError, Result, ScalarValue, config::ConfigOptions},
    execution::{FunctionRegistry, SessionState},
    logical_expr::{
        ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature,
        interval_arithmetic::Interval,
        sort_properties::{ExprProperties, SortProperties},
    },
};

use self::{growth::Growth, input::Inputs, rewrite::Rewrite};
use crate::{deadline, values::read_as};

/// Bytes of one value of text. Copies share it.
const MAX_TEXT: u64 = 16 << 20;
/// Bytes of one constant: plans hold it, compare it and travel with it.
const MAX_CONSTANT: u64 = 1 << 20;
/// Bytes of one list or structure. Joins and the like copy it.
const MAX_NESTED: u64 = 1 << 20;
/// Bytes of all results of one call, for a batch of rows.
const MAX_BATCH: u64 = 128 << 20;

/// Puts bounded versions in the place of all functions of the session that need one.
pub(crate) fn register(session: &mut SessionState) -> Result<()> {
    for function in functions(session) {
        session.register_udf(function)?;
    }
    session.register_function_rewrite(Arc::new(Rewrite))
}

/// The bounded versions of what the session knows, and the operator `||` as a function.
fn functions(session: &SessionState) -> Vec<Arc<ScalarUDF>> {
    let known = session.scalar_functions().values();
    let mut bounded: Vec<_> = known.filter_map(bounded).collect();
    bounded.push(concat::operator());
    bounded
}

/// The bounded version of a function; `None` when it has one already or needs none.
fn bounded(function: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
    if function.inner().is::<Bounded>() {
        return None;
    }
    let growth = Growth::of(function.name())?;
    Some(Arc::new(ScalarUDF::new_from_impl(Bounded { inner: Arc::clone(function), growth })))
}

/// A function that refuses to give too much. The same as the one inside otherwise, except that it is not simplified:
/// that would bring the one inside back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    /// Rows that are evaluated together, so that no piece can take more than a batch may.
    fn pieces(&self, inputs: &Inputs, rows: usize, limit: u64) -> Result<Vec<Range<usize>>> {
        let mut pieces = vec![];
        let (mut begin, mut size) = (0, 0_u64);
        for row in 0..rows {
            let own = self.growth.bound(inputs, row);
            if own > limit {
                return Err(self.too_large("one value", own, limit));
            }
            if size + own > MAX_BATCH {
                pieces.push(begin..row);
                (begin, size) = (row, 0);
            }
            size += own;
        }
        pieces.push(begin..rows);
        Ok(pieces)
    }

    fn too_large(&self, what: &str, size: u64, limit: u64) -> DataFusionError {
        let unit = self.growth.unit();
        DataFusionError::Execution(format!(
            "{}: {what} would take up to {size} {unit}, {limit} are allowed",
            self.inner.name()
        ))
    }

    /// The field that the function inside says.
    fn own_field(&self, args: &ScalarFunctionArgs) -> Result<FieldRef> {
        let scalars: Vec<_> = args
            .args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Scalar(scalar) => Some(scalar),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        self.inner.return_field_from_args(ReturnFieldArgs {
            arg_fields: &args.arg_fields,
            scalar_arguments: &scalars,
        })
    }

    fn invoke_pieces(&self, args: &ScalarFunctionArgs, pieces: Vec<Range<usize>>) -> Result<ArrayRef> {
        let mut results: Vec<ArrayRef> = vec![];
        let mut size = 0;
        for rows in pieces {
            deadline::check()?;
            let count = rows.len();
            let mut piece = args.clone();
            piece.number_rows = count;
            for arg in &mut piece.args {
                if let ColumnarValue::Array(array) = arg {
                    *arg = ColumnarValue::Array(array.slice(rows.start, count));
                }
            }
            let result = self.inner.invoke_with_args(piece)?.into_array(count)?;
            size += input::bytes(&result);
            if size > MAX_BATCH {
                return Err(self.too_large("one batch of rows", size, MAX_BATCH));
            }
            results.push(result);
        }
        match results.as_slice() {
            [] => Ok(new_empty_array(args.return_field.data_type())),
            [only] => Ok(Arc::clone(only)),
            several => {
                let several: Vec<_> = several.iter().map(|array| array.as_ref()).collect();
                Ok(concat_arrays(&several)?)
            }
        }
    }
}

/// The field with text as views.
fn viewed(field: FieldRef) -> FieldRef {
    let data_type = read_as(field.data_type().clone());
    if data_type == *field.data_type() {
        return field;
    }
    Arc::new(Arc::unwrap_or_clone(field).with_data_type(data_type))
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(read_as(self.inner.return_type(arg_types)?))
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::new_from_impl(Self { inner, growth: self.growth }))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(viewed(self.inner.return_field_from_args(args)?))
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        deadline::check()?;
        let inputs = Inputs::new(&args.args)?;
        args.return_field = self.own_field(&args)?;
        let wanted = read_as(args.return_field.data_type().clone());
        let constant = inputs.constant();
        let limit = match wanted.is_nested() {
            true => MAX_NESTED,
            false if constant => MAX_CONSTANT,
            false => MAX_TEXT,
        };
        let rows = if constant { 1 } else { args.number_rows };
        let pieces = self.pieces(&inputs, rows, limit)?;
        let mut result = self.invoke_pieces(&args, pieces)?;
        if *result.data_type() != wanted {
            result = cast(&result, &wanted)?;
        }
        Ok(if constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)
        } else {
            ColumnarValue::Array(result)
        })
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(input)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.placement(args)
    }
}
