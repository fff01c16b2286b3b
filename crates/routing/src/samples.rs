//! Figures: what has been counted, and what holds at the moment that they are asked for. Nothing is pushed anywhere, so
//! the figures of what is gone are gone as well.

use std::sync::atomic::Ordering::Relaxed;

use pointsman_ids::{ClusterName, CollectionName, NodeName};
use pointsman_instance_selector::{Health, Measured};

use crate::{RoutingView, cluster::ClusterView, collections::Collection, counters::CollectionCounters};

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The name under which Prometheus knows it.
    pub name: &'static str,
    /// What kind of figure it is.
    pub kind: SampleKind,
    /// What it is about.
    pub labels: Vec<(&'static str, String)>,
    /// Its value.
    pub value: f64,
}

/// Kinds of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SampleKind {
    /// Grows as long as what it is about exists.
    Counter,
    /// The value of the moment.
    Gauge,
}

impl RoutingView {
    /// The figures of failure detector, managers and selection, those of one name one after the other. The health of
    /// replicas costs one pass over all segments, once per view.
    pub fn samples(&self) -> Vec<Sample> {
        let mut samples = Samples(vec![]);
        self.detector_samples(&mut samples);
        self.node_samples(&mut samples);
        self.selection_samples(&mut samples);
        self.health_samples(&mut samples);
        samples.0
    }

    fn detector_samples(&self, samples: &mut Samples) {
        let counters = &self.detector;
        samples.gauge("pointsman_broker_unhealthy_nodes", [], count(self.exclusions.len()));
        samples.counter("pointsman_broker_node_exclusions_total", [], counters.exclusions);
        for (reason, included) in &counters.inclusions {
            let labels = [("reason", reason.as_str().to_owned())];
            samples.counter("pointsman_broker_node_inclusions_total", labels, *included);
        }
        for (result, probes) in &counters.probes {
            let labels = [("result", (*result).to_owned())];
            samples.counter("pointsman_broker_probes_total", labels, *probes);
        }
        for (cause, suspicions) in &counters.suspicions {
            let labels = [("cause", cause.as_str().to_owned())];
            samples.counter("pointsman_broker_suspicions_total", labels, *suspicions);
        }
        samples.counter("pointsman_broker_stale_reports_total", [], counters.stale_reports);
    }

    fn node_samples(&self, samples: &mut Samples) {
        for cluster in self.running() {
            let labels = [("cluster", cluster.name.to_string())];
            samples.gauge("pointsman_broker_enabled_nodes", labels, count(cluster.nodes.enabled().len()));
        }
        for cluster in self.running() {
            let labels = [("cluster", cluster.name.to_string())];
            samples.gauge("pointsman_broker_routable_nodes", labels, count(cluster.nodes.routable().len()));
        }
        let measured: Vec<_> = self.running().flat_map(|cluster| measured(cluster)).collect();
        for (labels, measured) in &measured {
            samples.gauge("pointsman_broker_node_in_flight", labels.clone(), float(measured.in_flight));
        }
        for (labels, measured) in &measured {
            samples.gauge("pointsman_broker_node_latency_average", labels.clone(), measured.latency_ms);
        }
        for (labels, measured) in measured.iter().filter(|_| self.adaptive.is_on()) {
            let score = self.adaptive.score(measured);
            samples.gauge("pointsman_broker_node_score", labels.clone(), score);
        }
    }

    fn selection_samples(&self, samples: &mut Samples) {
        let built: Vec<_> = self.running().flat_map(|cluster| built(cluster)).collect();
        for (cluster, name, collection) in &built {
            for (pool, selected) in collection.counters.selected() {
                for (preferred, picks) in [("set", &selected.set), ("unset", &selected.unset)] {
                    let [cluster, name] = labels(cluster, name);
                    let own = [("pool", pool.to_string()), ("preferred", preferred.to_owned())];
                    let labels = [cluster, name].into_iter().chain(own);
                    if picks.load(Relaxed) > 0 {
                        samples.counter(
                            "pointsman_broker_selected_segments_total",
                            labels,
                            picks.load(Relaxed),
                        );
                    }
                }
            }
        }
        for (name, spanning) in &self.collections {
            let labels = [("collection", name.to_string())];
            let unknown = spanning.unknown.load(Relaxed);
            samples.counter("pointsman_broker_unknown_segments_total", labels, unknown);
        }
        let counters: [Figure<CollectionCounters, u64>; 3] = [
            ("pointsman_broker_dropped_segments_total", |counters| counters.dropped_segments.load(Relaxed)),
            ("pointsman_broker_fail_open_eligible_requests_total", |counters| {
                counters.fail_open_eligible_requests.load(Relaxed)
            }),
            ("pointsman_broker_fail_open_requests_total", |counters| {
                counters.fail_open_requests.load(Relaxed)
            }),
        ];
        for (metric, counted) in counters {
            for (cluster, name, collection) in &built {
                samples.counter(metric, labels(cluster, name), counted(&collection.counters));
            }
        }
        let missing = built.iter().map(|(.., collection)| collection.counters.missing_nodes.load(Relaxed));
        samples.counter("pointsman_broker_missing_nodes_total", [], missing.sum());
    }

    fn health_samples(&self, samples: &mut Samples) {
        let gauges: [Figure<Health, u64>; 4] = [
            ("pointsman_broker_replica_percent", |health| health.lowest_percent.into()),
            ("pointsman_broker_segments_at_min_replica_percent", |health| health.segments_at_lowest),
            ("pointsman_broker_unavailable_segments", |health| health.unavailable),
            ("pointsman_broker_fail_open_eligible_segments", |health| health.fail_open_eligible),
        ];
        for (metric, gauge) in gauges {
            for cluster in self.running() {
                for (name, health) in cluster.health() {
                    samples.gauge(metric, labels(&cluster.name, name), float(gauge(health)));
                }
            }
        }
    }
}

/// A figure's name, and where it stands.
type Figure<T, V> = (&'static str, fn(&T) -> V);

/// Figures in the making.
struct Samples(Vec<Sample>);

impl Samples {
    fn counter(
        &mut self,
        name: &'static str,
        labels: impl IntoIterator<Item = (&'static str, String)>,
        value: u64,
    ) {
        let labels = labels.into_iter().collect();
        self.0.push(Sample { name, kind: SampleKind::Counter, labels, value: float(value) });
    }

    fn gauge(
        &mut self,
        name: &'static str,
        labels: impl IntoIterator<Item = (&'static str, String)>,
        value: f64,
    ) {
        self.0.push(Sample { name, kind: SampleKind::Gauge, labels: labels.into_iter().collect(), value });
    }
}

type Labels = [(&'static str, String); 2];

fn labels(cluster: &ClusterName, collection: &CollectionName) -> Labels {
    [("cluster", cluster.to_string()), ("collection", collection.to_string())]
}

/// The collections of a cluster that can be routed, by name.
fn built(cluster: &ClusterView) -> impl Iterator<Item = (&ClusterName, &CollectionName, &Collection)> {
    let built = cluster.collections.iter().filter_map(|(name, routed)| Some((name, routed.built()?)));
    built.map(|(name, collection)| (&cluster.name, name, &**collection))
}

/// The nodes of a cluster that something was measured of, by name.
fn measured(cluster: &ClusterView) -> Vec<(Labels, Measured)> {
    let members = cluster.members.iter().map(|(_, member)| member);
    let mut measured: Vec<(&NodeName, _)> = members
        .filter_map(|member| Some((&member.entry.name, member.statistics.get()?.measured())))
        .collect();
    measured.sort_by(|one, other| one.0.cmp(other.0));
    let labelled = |(name, measured): (&NodeName, _)| {
        ([("cluster", cluster.name.to_string()), ("node", name.to_string())], measured)
    };
    measured.into_iter().map(labelled).collect()
}

fn count(count: usize) -> f64 {
    float(count as u64)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts stay far below 2^53, and figures are floating point everywhere"
)]
fn float(count: u64) -> f64 {
    count as f64
}
