//! Expectations of a step, and how they compare with what came out.

use serde_json::{Map, Value, json};

use super::metrics::Query;
use crate::{Mismatch, errors::ExpectedError, frame::as_set, leaders, series::number};

/// What stands under `expect`; only that is compared.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    pub(super) values: Vec<Expected>,
    pub(super) error: Option<ExpectedError>,
    pub(super) metrics: Vec<(Query, Value)>,
}

/// One key.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) key: &'static str,
    pub(super) how: How,
    pub(super) value: Value,
}

/// How a value compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// As it is; lists in this order.
    Exactly,
    /// A list in any order.
    Set,
    /// A map in which an entry that is left out is an empty list.
    Lists,
    /// The same, of lists in any order.
    Sets,
    /// A map in which an entry that is left out is 0.
    Counts,
    /// A map of which the named entries count; one that did not come out is 0.
    Named,
    /// Leaders in order, each with the keys that are given.
    Leaders,
}

impl Expectations {
    /// What did not come out.
    pub(super) fn check(&self, outcome: &Map<String, Value>) -> Vec<Mismatch> {
        let got = |key: &str| outcome.get(key).unwrap_or(&Value::Null);
        let mut mismatches = Vec::new();
        for Expected { key, how, value } in &self.values {
            if !how.holds(value, got(key)) {
                mismatches.push(Mismatch {
                    key: (*key).to_owned(),
                    expected: value.clone(),
                    got: got(key).clone(),
                });
            }
        }
        if let Some(error) = &self.error
            && !error.holds(got("error"))
        {
            let (expected, got) = (error.to_json(), got("error").clone());
            mismatches.push(Mismatch { key: "error".to_owned(), expected, got });
        }
        for (query, expected) in &self.metrics {
            let got = number(Some(query.value(got("metrics"))));
            if *expected != got {
                let key = format!("metrics.{query}");
                mismatches.push(Mismatch { key, expected: expected.clone(), got });
            }
        }
        mismatches
    }
}

impl How {
    fn holds(self, expected: &Value, got: &Value) -> bool {
        match self {
            Self::Exactly => expected == got,
            Self::Set => as_set(expected) == as_set(got),
            Self::Lists => same_entries(expected, got, &json!([]), |one, other| one == other),
            Self::Sets => same_entries(expected, got, &json!([]), |one, other| as_set(one) == as_set(other)),
            Self::Counts => same_entries(expected, got, &json!(0), |one, other| one == other),
            Self::Named => entries(expected).all(|(key, value)| got.get(key).unwrap_or(&json!(0)) == value),
            Self::Leaders => leaders::are_listed(expected, got),
        }
    }
}

fn same_entries(expected: &Value, got: &Value, left_out: &Value, same: fn(&Value, &Value) -> bool) -> bool {
    let is_same = |key: &str| {
        let of = |map: &Value| map.get(key).unwrap_or(left_out).clone();
        same(&of(expected), &of(got))
    };
    entries(expected).chain(entries(got)).all(|(key, _)| is_same(key))
}

fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flatten()
}
