//! Statistics of segments in a column, without loss.

use std::collections::BTreeMap;

use pointsman_ids::catalog::{ColumnStatistics, Value};
use serde::{Deserialize, Serialize};

use crate::{
    Result,
    stored::{Origin, json},
};

/// Stored form of [`ColumnStatistics`].
#[derive(Serialize, Deserialize)]
struct StoredStatistics {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nulls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<StoredValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<StoredValue>,
}

/// Stored form of [`Value`]. Numbers are texts, because numbers of JSON have neither 128 bits nor infinity.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredValue {
    Boolean(bool),
    Integer(String),
    Float(String),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Value> for StoredValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::Boolean(value) => Self::Boolean(*value),
            Value::Integer(value) => Self::Integer(value.to_string()),
            Value::Float(value) => Self::Float(value.to_string()),
            Value::Text(value) => Self::Text(value.clone()),
            Value::Bytes(value) => Self::Bytes(value.clone()),
        }
    }
}

impl StoredValue {
    fn value(self) -> Result<Value, String> {
        let number =
            |text: &str, why: &dyn std::fmt::Display| format!("'{text}' is no bound of a column: {why}");
        Ok(match self {
            Self::Boolean(value) => Value::Boolean(value),
            Self::Integer(text) => Value::Integer(text.parse().map_err(|why| number(&text, &why))?),
            Self::Float(text) => Value::Float(text.parse().map_err(|why| number(&text, &why))?),
            Self::Text(value) => Value::Text(value),
            Self::Bytes(value) => Value::Bytes(value),
        })
    }
}

/// The stored form of a segment's statistics.
pub(crate) fn statistics(statistics: &BTreeMap<String, ColumnStatistics>) -> Result<String> {
    let stored = statistics.iter().map(|(column, known)| {
        let stored = StoredStatistics {
            nulls: known.nulls,
            min: known.min.as_ref().map(StoredValue::from),
            max: known.max.as_ref().map(StoredValue::from),
        };
        (column, stored)
    });
    json(&stored.collect::<BTreeMap<_, _>>())
}

/// A segment's statistics from their stored form.
pub(crate) fn read_statistics(origin: &Origin, text: &str) -> Result<BTreeMap<String, ColumnStatistics>> {
    let stored: BTreeMap<String, StoredStatistics> = origin.json("statistics", text)?;
    let read =
        |stored: Option<StoredValue>| origin.read("statistics", stored.map(StoredValue::value).transpose());
    let entry = |(column, stored): (String, StoredStatistics)| {
        Ok((column, ColumnStatistics { nulls: stored.nulls, min: read(stored.min)?, max: read(stored.max)? }))
    };
    stored.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(value: Value) -> Value {
        let known = ColumnStatistics { nulls: Some(u64::MAX), min: Some(value), max: None };
        let text = statistics(&BTreeMap::from([("c".to_owned(), known)])).unwrap();
        let mut all = read_statistics(&Origin::new("segments", 1), &text).unwrap();
        let known = all.remove("c").unwrap();
        assert_eq!((known.nulls, known.max), (Some(u64::MAX), None));
        known.min.unwrap()
    }

    #[test]
    fn every_value_reads_back_exactly() {
        let values = [
            Value::Boolean(true),
            Value::Integer(i128::MIN),
            Value::Integer(i128::MAX),
            Value::Float(0.1 + 0.2),
            Value::Float(f64::MIN_POSITIVE / 8.0),
            Value::Float(f64::MAX),
            Value::Float(f64::NEG_INFINITY),
            Value::Text("a\0\"\u{10ffff}\n".into()),
            Value::Bytes((0..=255).collect()),
        ];
        for value in values {
            assert_eq!(read_back(value.clone()), value);
        }
    }

    #[test]
    fn minus_zero_keeps_its_sign() {
        let Value::Float(zero) = read_back(Value::Float(-0.0)) else { panic!("a float stays a float") };
        assert!(zero.is_sign_negative());
    }

    #[test]
    fn what_is_not_statistics_is_refused_by_row_and_column() {
        for text in ["", "[]", r#"{"c":{"min":{"integer":"x"}}}"#, r#"{"c":{"min":{"colour":"x"}}}"#] {
            let error = read_statistics(&Origin::new("segments", 7), text).unwrap_err().to_string();
            assert!(error.starts_with("a row of segments is corrupt: row 7, column statistics: "), "{error}");
        }
    }
}
