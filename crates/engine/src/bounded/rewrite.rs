//! Expressions that the planner makes without asking the session.

use std::sync::Arc;

use arrow::{compute::can_cast_types, datatypes::DataType};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, Operator, binary::BinaryTypeCoercer, expr::ScalarFunction,
        expr_rewriter::FunctionRewrite,
    },
};

use super::{bounded, concat};

/// Bytes up to which a constant of text is copied for every row of a batch; longer ones become views.
const SHORT_TEXT: usize = 4 << 10;

/// Puts bounded functions where the planner put others or an operator.
#[derive(Debug)]
pub(super) struct Rewrite;

impl FunctionRewrite for Rewrite {
    fn name(&self) -> &str {
        "bounded_functions"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::ScalarFunction(mut call) => match bounded(&call.func) {
                Some(function) => {
                    call.func = function;
                    Transformed::yes(Expr::ScalarFunction(call))
                }
                None => Transformed::no(Expr::ScalarFunction(call)),
            },
            Expr::BinaryExpr(binary) if is_concat(&binary, schema) => Transformed::yes(concat(binary)),
            Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)), metadata)
                if text.len() > SHORT_TEXT =>
            {
                Transformed::yes(Expr::Literal(ScalarValue::Utf8View(Some(text)), metadata))
            }
            other => Transformed::no(other),
        })
    }
}

/// Whether the operator joins text or bytes; what it cannot join is left to the planner to refuse.
fn is_concat(binary: &BinaryExpr, schema: &DFSchema) -> bool {
    if binary.op != Operator::StringConcat {
        return false;
    }
    let (Ok(left), Ok(right)) = (binary.left.get_type(schema), binary.right.get_type(schema)) else {
        return false;
    };
    let joined = BinaryTypeCoercer::new(&left, &Operator::StringConcat, &right).get_result_type();
    let into = if left.is_binary() && right.is_binary() { DataType::BinaryView } else { DataType::Utf8View };
    joined.is_ok_and(|joined| joined.is_string() || joined.is_binary())
        && [left, right].iter().all(|own| can_cast_types(own, &into))
}

/// One call for a whole chain, so that a chain stays flat.
fn concat(binary: BinaryExpr) -> Expr {
    let mut args = match *binary.left {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == concat::NAME => args,
        other => vec![other],
    };
    args.push(*binary.right);
    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&concat::operator()), args })
}
