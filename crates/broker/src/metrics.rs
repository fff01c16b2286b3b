//! What the broker counts and measures: names, units and labels in one place.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use pointsman_ids::UnavailableCause;
use pointsman_routing::{FeedState, RoutingView};

const QUERIES: &str = "pointsman_broker_queries_total";
const QUERY_SECONDS: &str = "pointsman_broker_query_seconds";
const RETRIES: &str = "pointsman_broker_query_retries_total";
const RUNNING: &str = "pointsman_broker_queries_running";
const WAITING: &str = "pointsman_broker_queries_waiting";
const PARTIAL: &str = "pointsman_broker_partial_answers_total";
const NO_NODE: &str = "pointsman_broker_no_node_found_total";
const UNHEALTHY: &str = "pointsman_broker_unhealthy_nodes";
const ENABLED: &str = "pointsman_broker_enabled_nodes";
const ROUTABLE: &str = "pointsman_broker_routable_nodes";
const EXCLUSIONS: &str = "pointsman_broker_node_exclusions_total";
const INCLUSIONS: &str = "pointsman_broker_node_inclusions_total";
const PROBES: &str = "pointsman_broker_probes_total";
const STALE_REPORTS: &str = "pointsman_broker_stale_reports_total";
const FEED_VERSION: &str = "pointsman_broker_feed_version";
const CONNECTED: &str = "pointsman_broker_feed_connected";

/// Tells the exporter what each figure means. To be called once the exporter stands.
pub(crate) fn describe() {
    describe_counter!(QUERIES, "Queries that ended, by outcome.");
    describe_histogram!(QUERY_SECONDS, Unit::Seconds, "Time from a query's arrival to its answer.");
    describe_counter!(RETRIES, "Queries that were run again because a node failed under them.");
    describe_gauge!(RUNNING, "Queries that run.");
    describe_gauge!(WAITING, "Queries that wait for a place.");
    describe_counter!(PARTIAL, "Partial answers, by cause.");
    describe_counter!(NO_NODE, "Queries whose segments nobody could answer for.");
    describe_gauge!(UNHEALTHY, "Nodes that the failure detector excludes.");
    describe_gauge!(ENABLED, "Nodes that the cluster lets queries go to.");
    describe_gauge!(ROUTABLE, "Enabled nodes that are not excluded.");
    describe_counter!(EXCLUSIONS, "Nodes that became unhealthy.");
    describe_counter!(INCLUSIONS, "Nodes that became healthy again, by reason.");
    describe_counter!(PROBES, "Probes of excluded nodes, by result.");
    describe_counter!(STALE_REPORTS, "Reports about a node's former incarnation, which were dropped.");
    describe_gauge!(FEED_VERSION, "Version of the routing feed that the broker routes by.");
    describe_gauge!(CONNECTED, "1 while the watch of the coordinator lives.");
}

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All rows.
    Complete,
    /// Rows that do not stand for all segments, or were cut.
    Partial,
    /// The request made no sense.
    Refused,
    /// An error.
    Failed,
    /// The client went away.
    Cancelled,
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// One query ended.
pub(crate) fn query_ended(outcome: Outcome, took: Duration) {
    counter!(QUERIES, "outcome" => outcome.label()).increment(1);
    histogram!(QUERY_SECONDS).record(took.as_secs_f64());
}

/// One query is run again.
pub(crate) fn query_retried() {
    counter!(RETRIES).increment(1);
}

/// One answer lacks segments for this cause.
pub(crate) fn partial_answer(cause: UnavailableCause) {
    counter!(PARTIAL, "cause" => cause.as_str()).increment(1);
}

/// One answer was cut by a limit of the broker.
pub(crate) fn answer_cut() {
    counter!(PARTIAL, "cause" => "result_limit").increment(1);
}

/// One query found nobody to ask.
pub(crate) fn no_node_found() {
    counter!(NO_NODE).increment(1);
}

/// How many queries run and wait.
pub(crate) fn admission(running: usize, waiting: usize) {
    gauge!(RUNNING).set(running as f64);
    gauge!(WAITING).set(waiting as f64);
}

/// Health of the nodes and state of the feed, as they are now.
pub(crate) fn routing(view: &RoutingView, feed: &FeedState) {
    let cluster = view.snapshot().cluster.to_string();
    let (enabled, routable) = view.node_counts();
    gauge!(ENABLED, "cluster" => cluster.clone()).set(enabled as f64);
    gauge!(ROUTABLE, "cluster" => cluster).set(routable as f64);
    gauge!(UNHEALTHY).set(view.exclusions().len() as f64);
    gauge!(CONNECTED).set(if feed.connected { 1.0 } else { 0.0 });
    gauge!(FEED_VERSION).set(view.snapshot().version.0 as f64);
    let counters = view.counters();
    counter!(EXCLUSIONS).absolute(counters.exclusions);
    counter!(STALE_REPORTS).absolute(counters.stale_reports);
    for (reason, count) in &counters.inclusions {
        counter!(INCLUSIONS, "reason" => reason.as_str()).absolute(*count);
    }
    for (result, count) in &counters.probes {
        counter!(PROBES, "result" => *result).absolute(*count);
    }
}
