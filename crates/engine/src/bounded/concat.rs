//! The operator `||` as a function of any number of arguments.

use std::sync::{Arc, LazyLock};

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryViewBuilder},
    compute::cast,
    datatypes::DataType,
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

use super::bounded;

/// The name, which no text can call without quoting it.
pub(super) const NAME: &str = "||";

/// The bounded function. Null when one argument is null, as the operator is.
pub(super) fn operator() -> Arc<ScalarUDF> {
    static OPERATOR: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::user_defined(Volatility::Immutable);
        let inner = Arc::new(ScalarUDF::new_from_impl(Operator { signature }));
        bounded(&inner).unwrap_or(inner)
    });
    Arc::clone(&OPERATOR)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Operator {
    signature: Signature,
}

/// Bytes when all arguments are bytes, text else.
fn joined_type(arg_types: &[DataType]) -> DataType {
    if !arg_types.is_empty() && arg_types.iter().all(|data_type| data_type.is_binary()) {
        DataType::BinaryView
    } else {
        DataType::Utf8View
    }
}

impl ScalarUDFImpl for Operator {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![joined_type(arg_types); arg_types.len()])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(joined_type(arg_types))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let wanted = args.return_field.data_type();
        let columns = args.args.iter().map(Column::new).collect::<Result<Vec<_>>>()?;
        let mut joined = BinaryViewBuilder::with_capacity(args.number_rows);
        let mut value = vec![];
        for row in 0..args.number_rows {
            value.clear();
            let complete = columns.iter().all(|column| column.append(row, &mut value));
            if complete {
                joined.try_append_value(&value)?;
            } else {
                joined.append_null();
            }
        }
        let joined: ArrayRef = Arc::new(joined.finish());
        Ok(ColumnarValue::Array(cast(&joined, wanted)?))
    }
}

/// An argument as bytes.
struct Column {
    values: ArrayRef,
    constant: bool,
}

impl Column {
    fn new(arg: &ColumnarValue) -> Result<Self> {
        let as_bytes = |values: &ArrayRef| cast(values, &DataType::BinaryView);
        Ok(match arg {
            ColumnarValue::Scalar(scalar) => {
                Self { values: as_bytes(&ScalarValue::to_array(scalar)?)?, constant: true }
            }
            ColumnarValue::Array(values) => Self { values: as_bytes(values)?, constant: false },
        })
    }

    /// Appends the value of a row; `false` when it is null.
    fn append(&self, row: usize, into: &mut Vec<u8>) -> bool {
        let at = if self.constant { 0 } else { row };
        let values = self.values.as_binary_view();
        if values.is_valid(at) {
            into.extend_from_slice(values.value(at));
        }
        values.is_valid(at)
    }
}
