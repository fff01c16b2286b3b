//! Errors of the house in scenarios: what comes out, and what is expected of it.

use pointsman_ids::{ErrorClass, ErrorCode};
use serde_json::{Map, Value, json};

use crate::{ScenarioError, yaml::At};

/// What is expected of `error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedError {
    /// No error.
    None,
    /// An error with these keys, and this part of its message.
    Some { keys: Map<String, Value>, contains: Option<String> },
}

impl ExpectedError {
    /// Reads null, or what is given of name, code, retriable bit, class and message.
    pub(crate) fn read(at: &At<'_>) -> Result<Self, ScenarioError> {
        if at.is_null() {
            return Ok(Self::None);
        }
        let mut fields = at.fields()?;
        let mut keys = Map::new();
        let mut put =
            |key: &str, value: Option<Value>| keys.extend(value.map(|value| (key.to_owned(), value)));
        put("name", fields.optional("name", |at| Ok(at.text()?.into()))?);
        put("code", fields.optional("code", |at| Ok(at.integer::<i64>()?.into()))?);
        put("retriable", fields.optional("retriable", |at| Ok(at.boolean()?.into()))?);
        put("input", fields.optional("input", |at| Ok(at.boolean()?.into()))?);
        let contains = fields.optional("contains", |at| Ok(at.text()?.to_owned()))?;
        fields.finish()?;
        Ok(Self::Some { keys, contains })
    }

    pub(crate) fn holds(&self, got: &Value) -> bool {
        match self {
            Self::None => got.is_null(),
            Self::Some { keys, contains } => {
                let message = got.get("message").and_then(Value::as_str);
                let has = |part: &String| message.is_some_and(|message| message.contains(part));
                !got.is_null()
                    && keys.iter().all(|(key, value)| got.get(key) == Some(value))
                    && contains.as_ref().is_none_or(has)
            }
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Some { keys, contains } => {
                let mut object = keys.clone();
                object.extend(contains.as_ref().map(|part| ("contains".to_owned(), part.as_str().into())));
                object.into()
            }
        }
    }
}

/// An error as it is told; its bit and class may be others than those of its code.
pub(crate) fn told(code: ErrorCode, retriable: bool, class: ErrorClass, message: &str) -> Value {
    json!({
        "name": code.name(),
        "code": code.number(),
        "retriable": retriable,
        "input": class == ErrorClass::Input,
        "message": message,
    })
}
