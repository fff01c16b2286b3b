//! Shard leaders in expectations.

use serde_json::{Map, Value};

use crate::{ScenarioError, yaml::At};

/// Reads a leader, with the keys that count.
pub(crate) fn leader(at: &At<'_>) -> Result<Value, ScenarioError> {
    let text = |at: &At<'_>| Ok(at.text()?.into());
    let mut fields = at.fields()?;
    let mut leader = Map::new();
    let mut put = |key: &str, value: Option<Value>| leader.extend(value.map(|value| (key.to_owned(), value)));
    put("node", fields.optional("node", |at| Ok(at.integer::<u64>()?.into()))?);
    put("address", fields.optional("address", text)?);
    put("serviceable", fields.optional("serviceable", |at| Ok(at.boolean()?.into()))?);
    put("resource_group", fields.optional("resource_group", text)?);
    fields.finish()?;
    Ok(leader.into())
}

/// Whether these are the leaders, in order, each with the keys that are given.
pub(crate) fn are_listed(expected: &Value, got: &Value) -> bool {
    let (Value::Array(expected), Value::Array(got)) = (expected, got) else { return false };
    expected.len() == got.len() && expected.iter().zip(got).all(|(given, all)| covers(given, all))
}

/// Whether every given key has the given value.
fn covers(given: &Value, all: &Value) -> bool {
    given.as_object().into_iter().flatten().all(|(key, value)| all.get(key) == Some(value))
}
