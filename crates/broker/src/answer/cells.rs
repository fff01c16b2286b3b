//! Single values as JSON.

use std::{fmt, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, LargeListArray, StringViewArray},
    buffer::NullBuffer,
    compute::cast,
    datatypes::{
        BinaryViewType, DataType, Field, Float32Type, Float64Type, Int64Type, StringViewType, UInt64Type,
    },
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};
use serde::{Serialize, Serializer};

use super::types::{AnswerType, Scalar};

/// A column in one of few layouts, so that cells are written without looking at types again.
pub(crate) struct Column {
    array: ArrayRef,
    nulls: Option<NullBuffer>,
    layout: Layout,
}

enum Layout {
    Boolean,
    Signed,
    Unsigned,
    Single,
    Double,
    Text,
    Bytes,
    /// The lists, and their values in a layout of their own.
    List(LargeListArray, Box<Column>),
}

impl Column {
    /// Brings a column into its layout.
    ///
    /// # Errors
    /// When Arrow has no way from the column's type to its layout, or no text for a value.
    pub(crate) fn new(field: &Field, array: &ArrayRef) -> Result<Self, ArrowError> {
        match AnswerType::of(field) {
            AnswerType::Scalar(scalar) => Self::scalar(scalar, array),
            AnswerType::Array(scalar) => Self::list(scalar, array),
        }
    }

    fn scalar(scalar: Scalar, array: &ArrayRef) -> Result<Self, ArrowError> {
        let array = unpacked(array)?;
        let (layout, array) = match (scalar, array.data_type()) {
            (Scalar::Boolean, _) => (Layout::Boolean, array),
            (Scalar::Int | Scalar::Long, DataType::UInt64) => (Layout::Unsigned, array),
            (Scalar::Int | Scalar::Long, _) => (Layout::Signed, cast(&array, &DataType::Int64)?),
            (Scalar::Float, _) => (Layout::Single, cast(&array, &DataType::Float32)?),
            (Scalar::Double, _) => (Layout::Double, array),
            // There is no way to a view in one step.
            (Scalar::Bytes, DataType::FixedSizeBinary(_)) => {
                (Layout::Bytes, cast(&cast(&array, &DataType::LargeBinary)?, &DataType::BinaryView)?)
            }
            (Scalar::Bytes, _) => (Layout::Bytes, cast(&array, &DataType::BinaryView)?),
            (_, DataType::Utf8 | DataType::LargeUtf8) => (Layout::Text, cast(&array, &DataType::Utf8View)?),
            (_, DataType::Utf8View) => (Layout::Text, array),
            // An instant is shown in UTC, whatever time zone its type names; a time without a zone stays one.
            (_, DataType::Timestamp(unit, Some(_))) => {
                let utc = DataType::Timestamp(*unit, Some("+00:00".into()));
                (Layout::Text, texts(&cast(&array, &utc)?)?)
            }
            _ => (Layout::Text, texts(&array)?),
        };
        Ok(Self { nulls: array.logical_nulls(), array, layout })
    }

    fn list(scalar: Scalar, array: &ArrayRef) -> Result<Self, ArrowError> {
        let array = unpacked(array)?;
        let item = match array.data_type() {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => item.clone(),
            other => return Err(ArrowError::CastError(format!("{other} is no list"))),
        };
        let array = cast(&array, &DataType::LargeList(item))?;
        let lists = array.as_list::<i64>().clone();
        let values = Self::scalar(scalar, lists.values())?;
        Ok(Self { nulls: array.logical_nulls(), array, layout: Layout::List(lists, Box::new(values)) })
    }
}

/// The array's values, without a dictionary or runs around them.
fn unpacked(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Dictionary(_, values) => unpacked(&cast(array, values)?),
        DataType::RunEndEncoded(_, values) => unpacked(&cast(array, values.data_type())?),
        _ => Ok(array.clone()),
    }
}

/// Every value in its usual text.
fn texts(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = FormatOptions::default().with_display_error(false);
    let formatter = ArrayFormatter::try_new(array, &options)?;
    let nulls = array.logical_nulls();
    let text = |row| match &nulls {
        Some(nulls) if nulls.is_null(row) => Ok(None),
        _ => formatter.value(row).try_to_string().map(Some),
    };
    Ok(Arc::new((0..array.len()).map(text).collect::<Result<StringViewArray, ArrowError>>()?))
}

/// One value of a column.
pub(crate) struct Cell<'a> {
    pub(crate) column: &'a Column,
    pub(crate) row: usize,
}

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { column: Column { array, nulls, layout }, row } = *self;
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return serializer.serialize_none();
        }
        match layout {
            Layout::Boolean => serializer.serialize_bool(array.as_boolean().value(row)),
            Layout::Signed => serializer.serialize_i64(array.as_primitive::<Int64Type>().value(row)),
            Layout::Unsigned => serializer.serialize_u64(array.as_primitive::<UInt64Type>().value(row)),
            Layout::Single => {
                let value = array.as_primitive::<Float32Type>().value(row);
                match not_finite(value.into()) {
                    Some(text) => serializer.serialize_str(text),
                    None => serializer.serialize_f32(value),
                }
            }
            Layout::Double => {
                let value = array.as_primitive::<Float64Type>().value(row);
                match not_finite(value) {
                    Some(text) => serializer.serialize_str(text),
                    None => serializer.serialize_f64(value),
                }
            }
            Layout::Text => serializer.serialize_str(array.as_byte_view::<StringViewType>().value(row)),
            Layout::Bytes => serializer.collect_str(&Hex(array.as_byte_view::<BinaryViewType>().value(row))),
            Layout::List(lists, values) => {
                let ends = lists.value_offsets();
                let at = |end: i64| usize::try_from(end).unwrap_or_default();
                let range = at(ends[row])..at(ends[row + 1]);
                serializer.collect_seq(range.map(|row| Cell { column: values, row }))
            }
        }
    }
}

/// JSON has no numbers for these.
fn not_finite(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
