//! Counters by the names of scenarios.

use std::fmt;

use pointsman_shard_client::Sample;
use serde_json::{Map, Value};

use crate::series;

/// A label with its words.
type Label = (&'static str, &'static [&'static str]);

/// Every counter with its labels.
const METRICS: [(&str, &[Label]); 5] = [
    (
        "shard_client_cache_reads",
        &[("caller", &["get_shard", "get_shard_list", "get_shard_table"]), ("result", &["hit", "miss"])],
    ),
    ("shard_client_preferred", &[("result", &["hit", "unavailable", "miss"])]),
    ("shard_client_misaligned_tags", &[]),
    ("shard_client_malformed_lists", &[]),
    ("shard_client_skipped", &[("reason", &["disabled", "excluded"])]),
];

/// A counter, and the labels that its series must carry.
#[derive(Debug)]
pub(super) struct Query {
    name: &'static str,
    labels: Vec<(String, String)>,
}

impl Query {
    /// Reads `name` or `name{label="value",other="value"}`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, labels) = series::parse(text)?;
        let known = METRICS.iter().find(|(known, _)| *known == name);
        let (name, allowed) = known.ok_or_else(|| {
            let known: Vec<_> = METRICS.iter().map(|(name, _)| *name).collect();
            format!("unknown metric '{name}'; known here: {}", known.join(", "))
        })?;
        for (label, word) in &labels {
            let (_, words) = allowed.iter().find(|(known, _)| known == label).ok_or_else(|| {
                let known: Vec<_> = allowed.iter().map(|(label, _)| *label).collect();
                format!("'{name}' has no label '{label}'; it has: {}", known.join(", "))
            })?;
            if !words.contains(&word.as_str()) {
                return Err(format!("'{label}' is never '{word}'; it is one of: {}", words.join(", ")));
            }
        }
        Ok(Self { name, labels })
    }

    /// The sum over all series that carry the labels.
    pub(super) fn value(&self, outcome: &Value) -> f64 {
        let carries = |key: &str| {
            series::parse(key).is_ok_and(|(name, labels)| {
                name == self.name && self.labels.iter().all(|label| labels.contains(label))
            })
        };
        let series = outcome.as_object().into_iter().flatten().filter(|(key, _)| carries(key));
        series.filter_map(|(_, value)| value.as_f64()).sum()
    }
}

/// As it was asked for.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        series::write(f, self.name, self.labels.iter().map(|(label, value)| (label.as_str(), value.as_str())))
    }
}

/// Every series, for outcomes.
pub(super) fn all(samples: &[Sample]) -> Map<String, Value> {
    let entry = |sample: &Sample| {
        let mut key = String::new();
        series::write(&mut key, sample.name, sample.labels.iter().copied()).ok()?;
        Some((key, sample.value.into()))
    };
    samples.iter().filter_map(entry).collect()
}
