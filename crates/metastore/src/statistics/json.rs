//! Statistics as JSON, the form of older versions.

use std::collections::BTreeMap;

use pointsman_ids::catalog::{ColumnStatistics, Value};
use serde::Deserialize;

use super::Statistics;

#[derive(Deserialize)]
struct StoredStatistics {
    nulls: Option<u64>,
    min: Option<StoredValue>,
    max: Option<StoredValue>,
}

/// Numbers are texts, because numbers of JSON have neither 128 bits nor infinity.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredValue {
    Boolean(bool),
    Integer(String),
    Float(String),
    Text(String),
    Bytes(Vec<u8>),
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

pub(super) fn read(stored: &[u8]) -> Result<Statistics, String> {
    let stored: BTreeMap<String, StoredStatistics> =
        serde_json::from_slice(stored).map_err(|error| error.to_string())?;
    let value = |stored: Option<StoredValue>| stored.map(StoredValue::value).transpose();
    let entry = |(column, stored): (String, StoredStatistics)| {
        let known =
            ColumnStatistics { nulls: stored.nulls, min: value(stored.min)?, max: value(stored.max)? };
        Ok((column, known))
    };
    stored.into_iter().map(entry).collect()
}
