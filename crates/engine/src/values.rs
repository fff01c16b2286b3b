//! Between the catalog's plain values and DataFusion's typed ones.

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{ScalarValue, arrow::datatypes::i256};
use pointsman_ids::catalog::Value;

/// The value as a scalar of the column's type. `None` when the catalog's value does not fit the type, which means
/// that nothing is known.
pub(crate) fn scalar(value: &Value, data_type: &DataType) -> Option<ScalarValue> {
    if let DataType::Dictionary(key, inner) = data_type {
        return Some(ScalarValue::Dictionary(key.clone(), Box::new(scalar(value, inner)?)));
    }
    match value {
        Value::Boolean(value) => {
            (*data_type == DataType::Boolean).then_some(ScalarValue::Boolean(Some(*value)))
        }
        Value::Integer(value) => integer(*value, data_type),
        #[expect(clippy::cast_possible_truncation, reason = "the value came from a column of this width")]
        Value::Float(value) => match data_type {
            DataType::Float32 => Some(ScalarValue::Float32(Some(*value as f32))),
            DataType::Float64 => Some(ScalarValue::Float64(Some(*value))),
            _ => None,
        },
        Value::Text(value) => match data_type {
            DataType::Utf8 => Some(ScalarValue::Utf8(Some(value.clone()))),
            DataType::LargeUtf8 => Some(ScalarValue::LargeUtf8(Some(value.clone()))),
            DataType::Utf8View => Some(ScalarValue::Utf8View(Some(value.clone()))),
            _ => None,
        },
        Value::Bytes(value) => match data_type {
            DataType::Binary => Some(ScalarValue::Binary(Some(value.clone()))),
            DataType::LargeBinary => Some(ScalarValue::LargeBinary(Some(value.clone()))),
            DataType::BinaryView => Some(ScalarValue::BinaryView(Some(value.clone()))),
            DataType::FixedSizeBinary(width) => {
                Some(ScalarValue::FixedSizeBinary(*width, Some(value.clone())))
            }
            _ => None,
        },
    }
}

fn integer(value: i128, data_type: &DataType) -> Option<ScalarValue> {
    use ScalarValue as S;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let wide = || i64::try_from(value).ok();
    let narrow = || i32::try_from(value).ok();
    Some(match data_type {
        DataType::Int8 => S::Int8(Some(i8::try_from(value).ok()?)),
        DataType::Int16 => S::Int16(Some(i16::try_from(value).ok()?)),
        DataType::Int32 => S::Int32(Some(narrow()?)),
        DataType::Int64 => S::Int64(Some(wide()?)),
        DataType::UInt8 => S::UInt8(Some(u8::try_from(value).ok()?)),
        DataType::UInt16 => S::UInt16(Some(u16::try_from(value).ok()?)),
        DataType::UInt32 => S::UInt32(Some(u32::try_from(value).ok()?)),
        DataType::UInt64 => S::UInt64(Some(u64::try_from(value).ok()?)),
        DataType::Date32 => S::Date32(Some(narrow()?)),
        DataType::Date64 => S::Date64(Some(wide()?)),
        DataType::Time32(Second) => S::Time32Second(Some(narrow()?)),
        DataType::Time32(Millisecond) => S::Time32Millisecond(Some(narrow()?)),
        DataType::Time64(Microsecond) => S::Time64Microsecond(Some(wide()?)),
        DataType::Time64(Nanosecond) => S::Time64Nanosecond(Some(wide()?)),
        DataType::Timestamp(Second, zone) => S::TimestampSecond(Some(wide()?), zone.clone()),
        DataType::Timestamp(Millisecond, zone) => S::TimestampMillisecond(Some(wide()?), zone.clone()),
        DataType::Timestamp(Microsecond, zone) => S::TimestampMicrosecond(Some(wide()?), zone.clone()),
        DataType::Timestamp(Nanosecond, zone) => S::TimestampNanosecond(Some(wide()?), zone.clone()),
        DataType::Decimal32(precision, scale) => S::Decimal32(Some(narrow()?), *precision, *scale),
        DataType::Decimal64(precision, scale) => S::Decimal64(Some(wide()?), *precision, *scale),
        DataType::Decimal128(precision, scale) => S::Decimal128(Some(value), *precision, *scale),
        DataType::Decimal256(precision, scale) => {
            S::Decimal256(Some(i256::from_i128(value)), *precision, *scale)
        }
        _ => return None,
    })
}

/// The scalar as a value of the catalog. `None` for null, for NaN and for types that the catalog does not know.
pub(crate) fn value(scalar: &ScalarValue) -> Option<Value> {
    use ScalarValue as S;
    let float = |value: f64| (!value.is_nan()).then_some(Value::Float(value));
    match scalar {
        S::Dictionary(_, inner) => value(inner),
        S::Boolean(value) => value.map(Value::Boolean),
        S::Float32(value) => value.and_then(|value| float(value.into())),
        S::Float64(value) => value.and_then(float),
        S::Utf8(value) | S::LargeUtf8(value) | S::Utf8View(value) => value.clone().map(Value::Text),
        S::Binary(value) | S::LargeBinary(value) | S::BinaryView(value) | S::FixedSizeBinary(_, value) => {
            value.clone().map(Value::Bytes)
        }
        S::Int8(value) => value.map(|value| Value::Integer(value.into())),
        S::Int16(value) => value.map(|value| Value::Integer(value.into())),
        S::Int32(value) | S::Date32(value) | S::Time32Second(value) | S::Time32Millisecond(value) => {
            value.map(|value| Value::Integer(value.into()))
        }
        S::Int64(value)
        | S::Date64(value)
        | S::Time64Microsecond(value)
        | S::Time64Nanosecond(value)
        | S::TimestampSecond(value, _)
        | S::TimestampMillisecond(value, _)
        | S::TimestampMicrosecond(value, _)
        | S::TimestampNanosecond(value, _) => value.map(|value| Value::Integer(value.into())),
        S::UInt8(value) => value.map(|value| Value::Integer(value.into())),
        S::UInt16(value) => value.map(|value| Value::Integer(value.into())),
        S::UInt32(value) => value.map(|value| Value::Integer(value.into())),
        S::UInt64(value) => value.map(|value| Value::Integer(value.into())),
        S::Decimal32(value, ..) => value.map(|value| Value::Integer(value.into())),
        S::Decimal64(value, ..) => value.map(|value| Value::Integer(value.into())),
        S::Decimal128(value, ..) => value.map(Value::Integer),
        S::Decimal256(value, ..) => value.and_then(i256::to_i128).map(Value::Integer),
        _ => None,
    }
}

/// The type that the engine reads a column as: text and bytes as views, and vectors with components of one name that may
/// be missing, whatever the files say.
pub(crate) fn read_as(data_type: DataType) -> DataType {
    match data_type {
        DataType::FixedSizeList(item, width) if *item.data_type() == DataType::Float32 => {
            DataType::FixedSizeList(Field::new_list_field(DataType::Float32, true).into(), width)
        }
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_in_their_type() {
        let zone = Some("UTC".into());
        let cases = [
            (Value::Boolean(true), DataType::Boolean),
            (Value::Integer(-3), DataType::Int8),
            (Value::Integer(i128::from(u64::MAX)), DataType::UInt64),
            (Value::Integer(10957), DataType::Date32),
            (Value::Integer(1_700_000_000_000_000), DataType::Timestamp(TimeUnit::Microsecond, zone)),
            (Value::Integer(12345), DataType::Decimal128(15, 2)),
            (Value::Float(1.5), DataType::Float32),
            (Value::Text("a".into()), DataType::Utf8View),
            (Value::Text("a".into()), DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into())),
            (Value::Bytes(vec![1, 2]), DataType::FixedSizeBinary(2)),
        ];
        for (given, data_type) in cases {
            let scalar = scalar(&given, &data_type).expect("a scalar");
            assert_eq!(scalar.data_type(), data_type);
            assert_eq!(value(&scalar), Some(given));
        }
    }

    #[test]
    fn what_does_not_fit_is_unknown() {
        assert_eq!(scalar(&Value::Integer(300), &DataType::UInt8), None);
        assert_eq!(scalar(&Value::Text("1".into()), &DataType::Int32), None);
        assert_eq!(value(&ScalarValue::Float64(Some(f64::NAN))), None);
        assert_eq!(value(&ScalarValue::Int64(None)), None);
    }
}
