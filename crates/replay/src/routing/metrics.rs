//! Figures by the names of scenarios: `name` or `name{label="value"}`.

use std::fmt;

use pointsman_routing::{Sample, SampleKind};
use serde_json::Value;

use crate::series::{self, number};

/// A figure that scenarios may ask for.
#[derive(Debug)]
struct Metric {
    /// Its name in scenarios.
    short: &'static str,
    /// Its name for Prometheus.
    name: &'static str,
    kind: SampleKind,
    labels: &'static [&'static str],
}

const fn counter(short: &'static str, name: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { short, name, kind: SampleKind::Counter, labels }
}

const fn gauge(short: &'static str, name: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { short, name, kind: SampleKind::Gauge, labels }
}

const PART: &[&str] = &["cluster", "collection"];

/// Everything that routing counts without sockets and queries.
static METRICS: [Metric; 20] = [
    gauge("unhealthy_nodes", "pointsman_broker_unhealthy_nodes", &[]),
    counter("node_exclusions", "pointsman_broker_node_exclusions_total", &[]),
    counter("node_inclusions", "pointsman_broker_node_inclusions_total", &["reason"]),
    counter("probes", "pointsman_broker_probes_total", &["result"]),
    gauge("enabled_nodes", "pointsman_broker_enabled_nodes", &["cluster"]),
    gauge("routable_nodes", "pointsman_broker_routable_nodes", &["cluster"]),
    counter(
        "selected_segments",
        "pointsman_broker_selected_segments_total",
        &["cluster", "collection", "pool", "preferred"],
    ),
    counter("unknown_segments", "pointsman_broker_unknown_segments_total", &["collection"]),
    counter("dropped_segments", "pointsman_broker_dropped_segments_total", PART),
    gauge("replica_percent", "pointsman_broker_replica_percent", PART),
    gauge("segments_at_min_replica_percent", "pointsman_broker_segments_at_min_replica_percent", PART),
    gauge("unavailable_segments", "pointsman_broker_unavailable_segments", PART),
    gauge("fail_open_eligible_segments", "pointsman_broker_fail_open_eligible_segments", PART),
    counter("fail_open_eligible_requests", "pointsman_broker_fail_open_eligible_requests_total", PART),
    counter("fail_open_requests", "pointsman_broker_fail_open_requests_total", PART),
    counter("missing_nodes", "pointsman_broker_missing_nodes_total", &[]),
    counter("stale_reports", "pointsman_broker_stale_reports_total", &[]),
    gauge("node_in_flight", "pointsman_broker_node_in_flight", &["cluster", "node"]),
    gauge("node_latency_average", "pointsman_broker_node_latency_average", &["cluster", "node"]),
    gauge("node_score", "pointsman_broker_node_score", &["cluster", "node"]),
];

/// A figure, and the labels that its series must carry.
#[derive(Debug)]
pub(super) struct Query {
    metric: &'static Metric,
    labels: Vec<(String, String)>,
}

impl Query {
    /// Reads `name` or `name{label="value",other="value"}`. The name is the short one or that of Prometheus.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, labels) = series::parse(text)?;
        let metric =
            METRICS.iter().find(|metric| metric.short == name || metric.name == name).ok_or_else(|| {
                let known: Vec<_> = METRICS.iter().map(|metric| metric.short).collect();
                format!("unknown metric '{name}'; known here: {}", known.join(", "))
            })?;
        if let Some((label, _)) = labels.iter().find(|(label, _)| !metric.labels.contains(&label.as_str())) {
            return Err(format!("'{name}' has no label '{label}'; it has: {}", metric.labels.join(", ")));
        }
        Ok(Self { metric, labels })
    }

    /// The sum over all series that carry the labels. Without any series a counter is 0, and a gauge is `None`.
    pub(super) fn value(&self, samples: &[Sample]) -> Option<f64> {
        let carries = |sample: &Sample| {
            self.labels.iter().all(|(label, value)| {
                sample.labels.iter().any(|(name, held)| *name == label.as_str() && held == value)
            })
        };
        let mut series = samples.iter().filter(|sample| sample.name == self.metric.name && carries(sample));
        let first = series.next().map(|sample| sample.value);
        match (first, self.metric.kind) {
            (Some(first), _) => Some(first + series.map(|sample| sample.value).sum::<f64>()),
            (None, SampleKind::Counter) => Some(0.0),
            (None, SampleKind::Gauge) => None,
        }
    }
}

/// As it was asked for, by its short name.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        series::write(
            f,
            self.metric.short,
            self.labels.iter().map(|(label, value)| (label.as_str(), value.as_str())),
        )
    }
}

/// Every series by its short name with labels, for outcomes.
pub(super) fn all(samples: &[Sample]) -> serde_json::Map<String, Value> {
    let entry = |sample: &Sample| {
        let metric = METRICS.iter().find(|metric| metric.name == sample.name)?;
        let mut key = String::new();
        let labels = sample.labels.iter().map(|(label, value)| (*label, value.as_str()));
        series::write(&mut key, metric.short, labels).ok()?;
        Some((key, number(Some(sample.value))))
    };
    samples.iter().filter_map(entry).collect()
}
