//! Expectations of a step, and how they compare with what came out.

use pointsman_routing::Sample;
use serde_json::{Map, Value, json};

use super::metrics::Query;
use crate::{Mismatch, frame::as_set, series::number};

/// What stands under `expect`; only that is compared.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    values: Vec<Expected>,
    /// By cluster.
    pub(super) routable: Vec<(String, Value)>,
    pub(super) error: Option<ExpectedError>,
    /// `None`: no series at all.
    pub(super) metrics: Vec<(Query, Option<f64>)>,
}

#[derive(Debug)]
struct Expected {
    key: &'static str,
    is_set: bool,
    value: Value,
}

/// What is expected of `error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpectedError {
    /// No error.
    None,
    /// An error; what is `None` does not count.
    Some { code: Option<i64>, contains: Option<String> },
}

impl Expectations {
    /// Expects these items in any order.
    pub(super) fn set(&mut self, key: &'static str, items: Vec<Value>) {
        self.values.push(Expected { key, is_set: true, value: items.into() });
    }

    /// Expects this very value; lists in this order.
    pub(super) fn exactly(&mut self, key: &'static str, value: Value) {
        self.values.push(Expected { key, is_set: false, value });
    }

    /// What did not come out.
    pub(super) fn check(&self, outcome: &Map<String, Value>, samples: &[Sample]) -> Vec<Mismatch> {
        let got = |key: &str| outcome.get(key).unwrap_or(&Value::Null);
        let mut mismatches = Vec::new();
        for Expected { key, is_set, value } in &self.values {
            let got = got(key);
            let equal = if *is_set { as_set(value) == as_set(got) } else { value == got };
            mismatches.extend((!equal).then(|| mismatch((*key).to_owned(), value, got)));
        }
        for (cluster, nodes) in &self.routable {
            let got = &got("routable")[cluster];
            let equal = as_set(nodes) == as_set(got);
            mismatches.extend((!equal).then(|| mismatch(format!("routable.{cluster}"), nodes, got)));
        }
        if let Some(expected) = &self.error {
            let got = got("error");
            mismatches.extend(
                (!expected.holds(got)).then(|| mismatch("error".to_owned(), &expected.to_json(), got)),
            );
        }
        for (query, expected) in &self.metrics {
            let got = query.value(samples);
            let differs = *expected != got;
            mismatches.extend(
                differs.then(|| mismatch(format!("metrics.{query}"), &number(*expected), &number(got))),
            );
        }
        mismatches
    }
}

fn mismatch(key: String, expected: &Value, got: &Value) -> Mismatch {
    Mismatch { key, expected: expected.clone(), got: got.clone() }
}

impl ExpectedError {
    fn holds(&self, got: &Value) -> bool {
        match self {
            Self::None => got.is_null(),
            Self::Some { code, contains } => {
                let text = got["text"].as_str();
                !got.is_null()
                    && code.is_none_or(|code| got["code"].as_i64() == Some(code))
                    && contains.as_ref().is_none_or(|part| text.is_some_and(|text| text.contains(part)))
            }
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Some { code, contains } => {
                let mut object = Map::new();
                object.extend(code.map(|code| ("code".to_owned(), json!(code))));
                object.extend(contains.as_ref().map(|part| ("contains".to_owned(), json!(part))));
                object.into()
            }
        }
    }
}
