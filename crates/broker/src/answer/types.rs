//! Types of the answer and which column has which.

use std::fmt;

use arrow::datatypes::{DataType, Field};

/// A type that the answer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerType {
    /// One value.
    Scalar(Scalar),
    /// A list of such values.
    Array(Scalar),
}

/// A type of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Timestamp,
    String,
    Json,
    Bytes,
}

impl Scalar {
    fn as_str(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::Int => "INT",
            Self::Long => "LONG",
            Self::Float => "FLOAT",
            Self::Double => "DOUBLE",
            Self::Timestamp => "TIMESTAMP",
            Self::String => "STRING",
            Self::Json => "JSON",
            Self::Bytes => "BYTES",
        }
    }
}

impl fmt::Display for AnswerType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => f.write_str(scalar.as_str()),
            Self::Array(scalar) => write!(f, "{}_ARRAY", scalar.as_str()),
        }
    }
}

impl AnswerType {
    /// The type of a column. What has no counterpart is `STRING`: dates, times, intervals, decimals, structures, maps,
    /// and lists of lists or structures.
    pub(super) fn of(field: &Field) -> Self {
        match plain(field.data_type()) {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => {
                if item.data_type().is_nested() {
                    Self::Scalar(Scalar::String)
                } else {
                    Self::Array(Scalar::of(item))
                }
            }
            _ => Self::Scalar(Scalar::of(field)),
        }
    }
}

impl Scalar {
    fn of(field: &Field) -> Self {
        match plain(field.data_type()) {
            DataType::Boolean => Self::Boolean,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
                Self::Int
            }
            // Numbers of rows and ranks are unsigned in the engine; they stay numbers.
            DataType::Int64 | DataType::UInt32 | DataType::UInt64 => Self::Long,
            DataType::Float16 | DataType::Float32 => Self::Float,
            DataType::Float64 => Self::Double,
            DataType::Timestamp(_, _) => Self::Timestamp,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytes,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if is_json(field) => Self::Json,
            _ => Self::String,
        }
    }
}

/// The type of the values, whatever way they are stored.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        other => other,
    }
}

/// Whether a text column is marked as JSON by Arrow's canonical extension type.
fn is_json(field: &Field) -> bool {
    field.metadata().get("ARROW:extension:name").is_some_and(|name| name == "arrow.json")
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use arrow::datatypes::{Fields, IntervalUnit, TimeUnit};

    use super::*;

    fn name(data_type: DataType) -> String {
        AnswerType::of(&Field::new("c", data_type, true)).to_string()
    }

    fn list(data_type: DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", data_type, true)))
    }

    #[test]
    fn every_type_has_a_name_that_clients_know() {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        for (data_type, expected) in [
            (DataType::Boolean, "BOOLEAN"),
            (DataType::Int8, "INT"),
            (DataType::UInt16, "INT"),
            (DataType::Int32, "INT"),
            (DataType::UInt32, "LONG"),
            (DataType::Int64, "LONG"),
            (DataType::UInt64, "LONG"),
            (DataType::Float32, "FLOAT"),
            (DataType::Float64, "DOUBLE"),
            (DataType::Utf8View, "STRING"),
            (dictionary.clone(), "STRING"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "TIMESTAMP"),
            (DataType::BinaryView, "BYTES"),
            (DataType::FixedSizeBinary(4), "BYTES"),
            (DataType::Date32, "STRING"),
            (DataType::Time64(TimeUnit::Nanosecond), "STRING"),
            (DataType::Decimal128(15, 2), "STRING"),
            (DataType::Interval(IntervalUnit::DayTime), "STRING"),
            (DataType::Null, "STRING"),
            (list(DataType::Int64), "LONG_ARRAY"),
            (list(dictionary), "STRING_ARRAY"),
            (list(DataType::Decimal128(15, 2)), "STRING_ARRAY"),
            (list(list(DataType::Int64)), "STRING"),
            (list(DataType::Struct(Fields::empty())), "STRING"),
        ] {
            assert_eq!(name(data_type.clone()), expected, "{data_type}");
        }
    }

    #[test]
    fn text_that_is_marked_as_json_is_json() {
        let mark = HashMap::from([("ARROW:extension:name".to_owned(), "arrow.json".to_owned())]);
        let field = Field::new("c", DataType::Utf8, true).with_metadata(mark);
        assert_eq!(AnswerType::of(&field).to_string(), "JSON");
    }
}
