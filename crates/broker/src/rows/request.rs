//! Requests by shard as JSON bodies.

use std::{collections::BTreeMap, time::Duration};

use arrow::datatypes::DataType;
use pointsman_ids::{
    Error, ErrorCode, GroupName, Result,
    catalog::Value,
    feed::CollectionEntry,
    near,
    request::{Get, Query, Question, Search},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The nearest vectors.
    Search,
    /// Rows by key.
    Get,
    /// Rows by condition.
    Query,
}

impl Kind {
    /// The word in addresses and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Get => "get",
            Self::Query => "query",
        }
    }
}

/// Whom and how to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The only resource group whose replicas may answer; `None`: any.
    pub(crate) resource_group: Option<GroupName>,
    /// The resource group whose replicas are asked first; `None`: as the broker is set.
    pub(crate) preferred_group: Option<GroupName>,
    /// `None`: the collection's, else the broker's.
    pub(crate) timeout: Option<Duration>,
}

impl Options {
    /// Of groups that are `""` for none and a timeout that is 0 for none.
    ///
    /// # Errors
    /// `parameter_invalid` for a text that can be no group's name.
    pub(crate) fn new(resource_group: &str, preferred_group: &str, timeout_ms: u64) -> Result<Self> {
        let group = |text: &str, field| {
            let group = (!text.is_empty()).then(|| GroupName::new(text)).transpose();
            group.map_err(|error| error.context(field))
        };
        Ok(Self {
            resource_group: group(resource_group, "resource_group")?,
            preferred_group: group(preferred_group, "preferred_group")?,
            timeout: (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms)),
        })
    }
}

/// A request as it came. The question is whole once the collection is known: keys are read by the type of its key.
#[derive(Debug)]
pub(crate) struct JsonRequest {
    pub(crate) collection: String,
    pub(crate) options: Options,
    asked: Asked,
}

#[derive(Debug)]
enum Asked {
    Whole(Question),
    Get { keys: Vec<serde_json::Value>, columns: Vec<String> },
}

impl JsonRequest {
    /// The question to a collection.
    ///
    /// # Errors
    /// `parameter_invalid` naming a key that is none of the collection.
    pub(crate) fn question(self, entry: &CollectionEntry) -> Result<Question> {
        match self.asked {
            Asked::Whole(question) => Ok(question),
            Asked::Get { keys, columns } => {
                let named = |name: &String| entry.columns.iter().find(|column| column.name == *name);
                let column = entry.key.as_ref().and_then(named);
                let data_type =
                    column.and_then(|column| column.data_type.parse().ok()).unwrap_or(DataType::Null);
                let key = |(at, value)| {
                    key(value, &data_type).map_err(|error| error.context(format_args!("key {at}")))
                };
                let keys = keys.into_iter().enumerate().map(key).collect::<Result<_>>()?;
                Ok(Question::Get(Get { keys, columns }))
            }
        }
    }
}

/// Reads a body.
///
/// # Errors
/// `parameter_invalid` for what is no such body, naming an unknown field and what it may have been meant for;
/// `parameter_missing` for a field that has to be there.
pub(crate) fn from_json(kind: Kind, body: &[u8]) -> Result<JsonRequest> {
    match kind {
        Kind::Search => read::<SearchBody>(body)?.request(),
        Kind::Get => read::<GetBody>(body)?.request(),
        Kind::Query => read::<QueryBody>(body)?.request(),
    }
}

trait Body: DeserializeOwned {
    const FIELDS: &'static [&'static str];
}

macro_rules! body {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct $name {
            collection: Option<String>,
            resource_group: Option<String>,
            preferred_group: Option<String>,
            timeout_ms: Option<u64>,
            columns: Option<Vec<String>>,
            $($field: Option<$type>,)*
        }

        impl Body for $name {
            const FIELDS: &'static [&'static str] =
                &["collection", "resource_group", "preferred_group", "timeout_ms", "columns", $(stringify!($field)),*];
        }

        impl $name {
            fn wrap(
                collection: Option<String>,
                groups: [Option<String>; 2],
                timeout: Option<u64>,
                asked: Asked,
            ) -> Result<JsonRequest> {
                let [scope, preferred] = groups.map(Option::unwrap_or_default);
                let options = Options::new(&scope, &preferred, timeout.unwrap_or_default())?;
                Ok(JsonRequest { collection: there(collection, "collection")?, options, asked })
            }
        }
    };
}

body!(
    /// Body of `POST /v1/search`.
    SearchBody {
        column: String,
        vector: Vec<f32>,
        vectors: Vec<Vec<f32>>,
        k: u32,
        metric: String,
        filter: String,
        exact: bool,
        candidates: u32,
    }
);
body!(
    /// Body of `POST /v1/get`.
    GetBody { keys: Vec<serde_json::Value> }
);
body!(
    /// Body of `POST /v1/query`.
    QueryBody { filter: String, limit: u32 }
);

impl SearchBody {
    fn request(self) -> Result<JsonRequest> {
        let vectors = match (self.vector, self.vectors) {
            (Some(vector), None) => vec![vector],
            (None, Some(vectors)) => vectors,
            (Some(_), Some(_)) => return Err(invalid("`vector` and `vectors` stand both; give one of them")),
            (None, None) => {
                return Err(missing("`vectors` is missing: send a list of vectors, or one as `vector`"));
            }
        };
        let search = Search {
            column: said(self.column),
            vectors,
            k: there(self.k, "k")?,
            metric: said(self.metric).map(|word| word.parse()).transpose()?,
            filter: said(self.filter),
            columns: self.columns.unwrap_or_default(),
            exact: self.exact.unwrap_or_default(),
            candidates: self.candidates.filter(|candidates| *candidates > 0),
        };
        Self::wrap(
            self.collection,
            [self.resource_group, self.preferred_group],
            self.timeout_ms,
            Asked::Whole(Question::Search(search)),
        )
    }
}

impl GetBody {
    fn request(self) -> Result<JsonRequest> {
        let asked = Asked::Get { keys: there(self.keys, "keys")?, columns: self.columns.unwrap_or_default() };
        Self::wrap(self.collection, [self.resource_group, self.preferred_group], self.timeout_ms, asked)
    }
}

impl QueryBody {
    fn request(self) -> Result<JsonRequest> {
        let query = Query {
            filter: said(self.filter),
            columns: self.columns.unwrap_or_default(),
            limit: there(self.limit, "limit")?,
        };
        Self::wrap(
            self.collection,
            [self.resource_group, self.preferred_group],
            self.timeout_ms,
            Asked::Whole(Question::Query(query)),
        )
    }
}

fn read<T: Body>(body: &[u8]) -> Result<T> {
    // A list would be read as fields in their order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(invalid(format!("the body is not a JSON object with {}", T::FIELDS.join(", "))));
    }
    serde_json::from_slice(body).map_err(|error| match stranger::<T>(body) {
        Some(name) => {
            let shown = name.escape_debug();
            invalid(format!("there is no field '{shown}'; {}", near(&name, T::FIELDS.iter().copied(), "")))
        }
        None => invalid(format!("the body is not a JSON object with these fields: {error}")),
    })
}

/// The first field of a body that nobody knows.
fn stranger<T: Body>(body: &[u8]) -> Option<String> {
    let fields: BTreeMap<String, IgnoredAny> = serde_json::from_slice(body).ok()?;
    fields.into_keys().find(|name| !T::FIELDS.contains(&name.as_str()))
}

/// A key as JSON has it, for a column of this type. What JSON has no form for is written as text: dates, times, decimals,
/// large integers, bytes in hex.
fn key(value: serde_json::Value, data_type: &DataType) -> Result<Value> {
    match value {
        serde_json::Value::Bool(value) => Ok(Value::Boolean(value)),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => Ok(number_of(value.into(), data_type)),
            (_, Some(value), _) => Ok(number_of(value.into(), data_type)),
            // It may have lost digits by now.
            _ if data_type.is_decimal() || data_type.is_integer() => {
                Err(invalid(format!("{number} may have lost digits; write such a number as text")))
            }
            (.., Some(value)) => Ok(Value::Float(value)),
            _ => Err(invalid(format!("{number} is out of range"))),
        },
        serde_json::Value::String(text) => text_key(text, data_type),
        other => {
            let what = if other.is_null() { "null" } else { "a list or an object" };
            Err(invalid(format!("{what} is no key; give a text, a number or a truth value")))
        }
    }
}

/// An integer; of decimals the number that it is, not one of their smallest units.
fn number_of(value: i128, data_type: &DataType) -> Value {
    if data_type.is_decimal() || data_type.is_temporal() {
        Value::Text(value.to_string())
    } else {
        Value::Integer(value)
    }
}

fn text_key(text: String, data_type: &DataType) -> Result<Value> {
    match plain(data_type) {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let bytes = from_hex(&text);
            bytes
                .map(Value::Bytes)
                .ok_or_else(|| invalid(format!("'{}' is not hex, such as 00ff", text.escape_debug())))
        }
        data_type if data_type.is_integer() => {
            let number = text.parse().map(Value::Integer);
            number.map_err(|_| invalid(format!("'{}' is no integer", text.escape_debug())))
        }
        _ => Ok(Value::Text(text)),
    }
}

fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        other => other,
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

/// An empty text says nothing.
fn said(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn there<T>(value: Option<T>, field: &str) -> Result<T> {
    value.ok_or_else(|| missing(format!("`{field}` is missing")))
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorCode::ParameterInvalid, text)
}

fn missing(text: impl Into<String>) -> Error {
    Error::new(ErrorCode::ParameterMissing, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: Kind, body: &str) -> (ErrorCode, String) {
        let error = from_json(kind, body.as_bytes()).unwrap_err();
        (error.code(), error.message().to_owned())
    }

    #[test]
    fn a_body_that_makes_no_sense_names_what() {
        for (kind, body, code, words) in [
            (Kind::Search, "", ErrorCode::ParameterInvalid, "not a JSON object"),
            (Kind::Search, "[]", ErrorCode::ParameterInvalid, "not a JSON object"),
            (
                Kind::Search,
                r#"{"colection": "t"}"#,
                ErrorCode::ParameterInvalid,
                "'colection'; did you mean collection",
            ),
            (
                Kind::Get,
                r#"{"collection": "t", "limit": 1}"#,
                ErrorCode::ParameterInvalid,
                "no field 'limit'",
            ),
            (
                Kind::Search,
                r#"{"collection": "t", "k": 1}"#,
                ErrorCode::ParameterMissing,
                "`vectors` is missing",
            ),
            (
                Kind::Search,
                r#"{"collection": "t", "vector": [1]}"#,
                ErrorCode::ParameterMissing,
                "`k` is missing",
            ),
            (
                Kind::Search,
                r#"{"vector": [1], "k": 1}"#,
                ErrorCode::ParameterMissing,
                "`collection` is missing",
            ),
            (
                Kind::Search,
                r#"{"vector": [1], "vectors": [[1]], "k": 1}"#,
                ErrorCode::ParameterInvalid,
                "stand both",
            ),
            (
                Kind::Search,
                r#"{"collection": "t", "vector": ["a"], "k": 1}"#,
                ErrorCode::ParameterInvalid,
                "a",
            ),
            (
                Kind::Search,
                r#"{"collection": "t", "vector": [1], "k": -1}"#,
                ErrorCode::ParameterInvalid,
                "-1",
            ),
            (
                Kind::Search,
                r#"{"collection": "t", "vector": [1], "k": 1, "metric": "far"}"#,
                ErrorCode::ParameterInvalid,
                "cosine",
            ),
            (Kind::Query, r#"{"collection": "t"}"#, ErrorCode::ParameterMissing, "`limit` is missing"),
            (
                Kind::Query,
                r#"{"collection": "t", "limit": 1, "resource_group": "no such name!"}"#,
                ErrorCode::ParameterInvalid,
                "resource_group",
            ),
        ] {
            let (found, text) = refused(kind, body);
            assert!(found == code && text.contains(words), "{body}: {found} {text}");
        }
    }

    #[test]
    fn what_is_not_said_is_a_default() {
        let request = from_json(Kind::Search, br#"{"collection": "t", "vector": [0.5, 1], "k": 3}"#).unwrap();
        assert_eq!((request.collection.as_str(), request.options), ("t", Options::default()));
        let Asked::Whole(Question::Search(search)) = request.asked else { panic!("a search") };
        assert_eq!(search, Search { vectors: vec![vec![0.5, 1.0]], k: 3, ..Search::default() });
        let options = Options::new("east", "", 1500).unwrap();
        assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn keys_are_read_by_the_type_of_the_key() {
        let json = |text: &str| serde_json::from_str(text).unwrap();
        let decimal = DataType::Decimal128(38, 2);
        for (text, data_type, expected) in [
            ("7", DataType::Int64, Value::Integer(7)),
            ("18446744073709551615", DataType::UInt64, Value::Integer(u64::MAX.into())),
            ("\"18446744073709551615\"", DataType::UInt64, Value::Integer(u64::MAX.into())),
            ("\"a\"", DataType::Utf8View, Value::Text("a".into())),
            ("\"00Ff\"", DataType::Binary, Value::Bytes(vec![0, 255])),
            ("true", DataType::Boolean, Value::Boolean(true)),
            ("0.5", DataType::Float64, Value::Float(0.5)),
            ("\"12.30\"", decimal.clone(), Value::Text("12.30".into())),
            ("12", decimal.clone(), Value::Text("12".into())),
            ("\"2020-01-02\"", DataType::Date32, Value::Text("2020-01-02".into())),
        ] {
            assert_eq!(key(json(text), &data_type), Ok(expected), "{text}");
        }
        for (text, data_type) in [
            ("null", DataType::Int64),
            ("[1]", DataType::Int64),
            ("18446744073709551616", DataType::Int64),
            ("12.3", decimal),
            ("\"x\"", DataType::Int64),
            ("\"0\"", DataType::Binary),
            ("\"0g\"", DataType::Binary),
        ] {
            assert!(key(json(text), &data_type).is_err(), "{text}");
        }
    }
}
