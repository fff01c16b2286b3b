//! Expectations of a question, and how they compare with what came out.

use serde_json::{Map, Value};

use crate::{Mismatch, errors::ExpectedError, leaders};

/// What stands under `expect`; only that is compared.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    /// Values by key; lists in this order.
    pub(super) exactly: Vec<(&'static str, Value)>,
    /// Every shard, every leader in order; of a leader the keys that are given.
    pub(super) shards: Option<Map<String, Value>>,
    pub(super) error: Option<ExpectedError>,
}

impl Expectations {
    /// What did not come out.
    pub(super) fn check(&self, outcome: &Map<String, Value>) -> Vec<Mismatch> {
        let got = |key: &str| outcome.get(key).unwrap_or(&Value::Null);
        let mut mismatches = Vec::new();
        let mut compare = |key: &str, expected: Value, holds: bool| {
            let mismatch = || Mismatch { key: key.to_owned(), expected, got: got(key).clone() };
            mismatches.extend((!holds).then(mismatch));
        };
        for (key, value) in &self.exactly {
            compare(key, value.clone(), value == got(key));
        }
        if let Some(shards) = &self.shards {
            compare("shards", shards.clone().into(), are_listed(shards, got("shards")));
        }
        if let Some(error) = &self.error {
            compare("error", error.to_json(), error.holds(got("error")));
        }
        mismatches
    }
}

fn are_listed(expected: &Map<String, Value>, got: &Value) -> bool {
    let Value::Object(got) = got else { return false };
    let same = |(shard, expected): (&String, &Value)| {
        got.get(shard).is_some_and(|got| leaders::are_listed(expected, got))
    };
    expected.len() == got.len() && expected.iter().all(same)
}
