//! What the broker counts and measures: names, units and labels in one place.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use pointsman_engine::QueryError;
use pointsman_ids::{ErrorCode, UnavailableCause};
use pointsman_routing::{FeedState, RoutingView, Sample, SampleKind};

const QUERIES: &str = "pointsman_broker_queries_total";
const QUERY_SECONDS: &str = "pointsman_broker_query_seconds";
const RETRIES: &str = "pointsman_broker_query_retries_total";
const RUNNING: &str = "pointsman_broker_queries_running";
const WAITING: &str = "pointsman_broker_queries_waiting";
const PARTS: &str = "pointsman_broker_parts_total";
const REROUTED: &str = "pointsman_broker_parts_rerouted_total";
const BUDGET: &str = "pointsman_broker_retry_budget_exhausted_total";
const PARTIAL: &str = "pointsman_broker_partial_answers_total";
const NO_NODE: &str = "pointsman_broker_no_node_found_total";
const FEED_VERSION: &str = "pointsman_broker_feed_version";
const CONNECTED: &str = "pointsman_broker_feed_connected";
const SHARD_REQUESTS: &str = "pointsman_broker_shard_requests_total";
const SHARD_REQUEST_SECONDS: &str = "pointsman_broker_shard_request_seconds";
const SHARDS_ANSWERED: &str = "pointsman_broker_shard_request_groups_total";
const SHARD_VISITS: &str = "pointsman_broker_shard_visits_total";
const SHARD_VISIT_SECONDS: &str = "pointsman_broker_shard_visit_seconds";
const LEADERS_OF_FEED: &str = "pointsman_broker_shard_leaders_from_feed_total";

/// Tells the exporter what each figure means. To be called once the exporter stands.
pub(crate) fn describe() {
    describe_counter!(QUERIES, "Queries that ended, by outcome.");
    describe_histogram!(QUERY_SECONDS, Unit::Seconds, "Time from a query's arrival to its answer.");
    describe_counter!(RETRIES, "Queries that were run again because a node failed under them.");
    describe_counter!(PARTS, "Parts of queries, a node with its segments each, that ended, by outcome.");
    describe_counter!(REROUTED, "Parts whose segments were routed again inside their query, by cause.");
    describe_counter!(
        BUDGET,
        "Parts and queries that were not run again because the budget for it was used up."
    );
    describe_gauge!(RUNNING, "Queries that run.");
    describe_gauge!(WAITING, "Queries that wait for a place.");
    describe_counter!(PARTIAL, "Partial answers, by cause of what is missing.");
    describe_counter!(NO_NODE, "Queries whose segments nobody could answer for.");
    describe_gauge!(
        FEED_VERSION,
        "Version of the cluster's routing feed that the broker routes by; 0: none."
    );
    describe_gauge!(CONNECTED, "1 while the watch of the cluster's coordinator lives.");
    describe_counter!(SHARD_REQUESTS, "Requests by shard that ended, by kind and outcome.");
    describe_histogram!(SHARD_REQUEST_SECONDS, Unit::Seconds, "Time of a request by shard, by kind.");
    describe_counter!(
        SHARDS_ANSWERED,
        "Requests by shard that a resource group's replicas took part in answering."
    );
    describe_counter!(
        SHARD_VISITS,
        "Requests to one shard that ended on one leader, by resource group of its replica and outcome."
    );
    describe_histogram!(
        SHARD_VISIT_SECONDS,
        Unit::Seconds,
        "Time of such a request, by resource group of the leader's replica."
    );
    describe_counter!(
        LEADERS_OF_FEED,
        "Times that the shard leaders of the routing feed were taken because no coordinator answered."
    );
    // A counter that is absent until something happens cannot be told from one that was renamed.
    [RETRIES, BUDGET, NO_NODE, LEADERS_OF_FEED].into_iter().for_each(|name| counter!(name).increment(0));
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

/// How a part ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartOutcome {
    /// Its rows count.
    Answered,
    /// Its node failed.
    Failed,
    /// The deadline passed before it had answered.
    Silent,
}

/// Parts ended.
pub(crate) fn parts(outcome: PartOutcome, count: usize) {
    let label = match outcome {
        PartOutcome::Answered => "answered",
        PartOutcome::Failed => "failed",
        PartOutcome::Silent => "silent",
    };
    counter!(PARTS, "outcome" => label).increment(count as u64);
}

/// A part that failed like this was routed again.
pub(crate) fn part_rerouted(failure: &QueryError) {
    let cause = match failure {
        QueryError::Unreachable { .. } => "unreachable",
        QueryError::Interrupted { .. } => "interrupted",
        QueryError::Refused { busy: true, .. } => "too_many_requests",
        QueryError::Refused { .. } => "not_serving",
        QueryError::NotLoaded { .. } => "not_loaded",
        QueryError::NodeFailed { memory: true, .. } => "out_of_memory",
        _ => "failed",
    };
    counter!(REROUTED, "cause" => cause).increment(1);
}

/// How often the budget for retries was used up so far.
pub(crate) fn retry_budget_exhausted(times: u64) {
    counter!(BUDGET).absolute(times);
}

/// One answer lacks segments for this cause.
pub(crate) fn partial_answer(cause: UnavailableCause) {
    counter!(PARTIAL, "cause" => cause.as_str()).increment(1);
}

/// One answer lacks what a cluster may hold, for this error.
pub(crate) fn partial_cluster(error: ErrorCode) {
    counter!(PARTIAL, "cause" => error.name()).increment(1);
}

/// One answer was cut by a limit of the broker.
pub(crate) fn answer_cut() {
    counter!(PARTIAL, "cause" => "result_limit").increment(1);
}

/// One query found nobody to ask.
pub(crate) fn no_node_found() {
    counter!(NO_NODE).increment(1);
}

/// One request by shard ended.
pub(crate) fn shard_request_ended(kind: &'static str, outcome: Outcome, took: Duration) {
    counter!(SHARD_REQUESTS, "kind" => kind, "outcome" => outcome.label()).increment(1);
    histogram!(SHARD_REQUEST_SECONDS, "kind" => kind).record(took.as_secs_f64());
}

/// Replicas of a resource group took part in an answer. `""`: nobody knows their group.
pub(crate) fn shard_answered(group: &str) {
    counter!(SHARDS_ANSWERED, "group" => group.to_owned()).increment(1);
}

/// A request to one shard ended on a leader of a resource group. `""`: nobody knows its group.
pub(crate) fn shard_visited(group: &str, error: Option<ErrorCode>, took: Duration) {
    let outcome = error.map_or("ok", ErrorCode::name);
    counter!(SHARD_VISITS, "group" => group.to_owned(), "outcome" => outcome).increment(1);
    histogram!(SHARD_VISIT_SECONDS, "group" => group.to_owned()).record(took.as_secs_f64());
}

/// The feed's shard leaders stood in for those of a coordinator.
pub(crate) fn leaders_of_feed() {
    counter!(LEADERS_OF_FEED).increment(1);
}

/// How many queries run and wait.
pub(crate) fn admission(running: usize, waiting: usize) {
    gauge!(RUNNING).set(running as f64);
    gauge!(WAITING).set(waiting as f64);
}

/// State of the feed of every cluster.
pub(crate) fn feeds(view: &RoutingView, feeds: &[FeedState]) {
    for feed in feeds {
        gauge!(CONNECTED, "cluster" => feed.cluster.to_string()).set(if feed.connected { 1.0 } else { 0.0 });
    }
    for (cluster, snapshot) in view.clusters() {
        let version = snapshot.map_or(0, |snapshot| snapshot.version.0);
        gauge!(FEED_VERSION, "cluster" => cluster.to_string()).set(version as f64);
    }
}

/// What the figures that routing keeps itself mean.
pub(crate) const OF_ROUTING: [(&str, &str); 21] = [
    ("pointsman_broker_unhealthy_nodes", "Keys that the failure detector excludes."),
    ("pointsman_broker_enabled_nodes", "Nodes that the cluster lets queries go to."),
    ("pointsman_broker_routable_nodes", "Enabled nodes that are not excluded."),
    ("pointsman_broker_node_exclusions_total", "Nodes that became unhealthy."),
    ("pointsman_broker_node_inclusions_total", "Nodes that became healthy again, by reason."),
    ("pointsman_broker_probes_total", "Probes of nodes, by result."),
    (
        "pointsman_broker_suspicions_total",
        "Calls that ended in a way that may be the node's fault, by cause.",
    ),
    (
        "pointsman_broker_stale_reports_total",
        "Reports about a node's former incarnation, which were dropped.",
    ),
    (
        "pointsman_broker_selected_segments_total",
        "Picks of a node for a segment, by pool; optional ones count.",
    ),
    ("pointsman_broker_unknown_segments_total", "Requested segments that routing did not know."),
    (
        "pointsman_broker_dropped_segments_total",
        "Requested segments whose nodes stand outside all replica groups.",
    ),
    (
        "pointsman_broker_missing_nodes_total",
        "Nodes that were chosen and were gone when they were to be asked.",
    ),
    ("pointsman_broker_replica_percent", "The lowest share of usable replicas of any segment, in percent."),
    ("pointsman_broker_segments_at_min_replica_percent", "Segments that are exactly at that share."),
    ("pointsman_broker_unavailable_segments", "Segments that nobody routable can answer for."),
    ("pointsman_broker_fail_open_eligible_segments", "Unavailable segments that fail-open could try."),
    ("pointsman_broker_fail_open_eligible_requests_total", "Requests that fail-open could help."),
    ("pointsman_broker_fail_open_requests_total", "Requests that failed open."),
    ("pointsman_broker_node_in_flight", "Requests under way to a node."),
    ("pointsman_broker_node_latency_average", "Moving average of a node's latency, in milliseconds."),
    ("pointsman_broker_node_score", "Score of a node in adaptive selection; lower is better."),
];

/// What the figures that the shard client keeps itself mean.
pub(crate) const OF_SHARD_CLIENT: [(&str, &str); 8] = [
    (
        "pointsman_broker_shard_client_cache_reads_total",
        "Reads of the cached shard leaders, by caller and result.",
    ),
    ("pointsman_broker_shard_client_preferred_total", "Looks for a shard's preferred node, by result."),
    (
        "pointsman_broker_shard_client_preferred_group_total",
        "Choices of a leader while a resource group was preferred, by result.",
    ),
    (
        "pointsman_broker_shard_client_coordinator_tags",
        "1 while the coordinator says in which resource group a leader's replica is, 0 while it does not.",
    ),
    (
        "pointsman_broker_shard_client_misaligned_tags_total",
        "Shards whose resource groups a coordinator listed so that nobody can say whose they are.",
    ),
    (
        "pointsman_broker_shard_client_malformed_lists_total",
        "Shards without leaders because a coordinator's lists do not fit together.",
    ),
    ("pointsman_broker_shard_client_skipped_total", "Leaders that were passed over, by reason."),
    (
        "pointsman_broker_shard_client_fail_open_total",
        "Looks for a leader that found excluded ones alone and let one of them be asked all the same.",
    ),
];

/// The shard client's own figures under the names that are shown.
pub(crate) fn of_shard_client(samples: &[pointsman_shard_client::Sample]) -> Vec<Sample> {
    let shown = |sample: &pointsman_shard_client::Sample| {
        let count = |name: &'static str| name.strip_suffix("_total");
        let is_it = |name: &'static str| count(name).unwrap_or(name).ends_with(sample.name);
        let (name, _) = OF_SHARD_CLIENT.iter().find(|(name, _)| is_it(name))?;
        let labels = sample.labels.iter().map(|(label, word)| (*label, (*word).to_owned())).collect();
        let kind = if count(name).is_some() { SampleKind::Counter } else { SampleKind::Gauge };
        Some(Sample { name, kind, labels, value: sample.value as f64 })
    };
    samples.iter().filter_map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_the_shard_client_is_shown() {
        for (name, shown) in [
            ("shard_client_cache_reads", "pointsman_broker_shard_client_cache_reads_total"),
            ("shard_client_preferred", "pointsman_broker_shard_client_preferred_total"),
            ("shard_client_preferred_group", "pointsman_broker_shard_client_preferred_group_total"),
            ("shard_client_coordinator_tags", "pointsman_broker_shard_client_coordinator_tags"),
            ("shard_client_misaligned_tags", "pointsman_broker_shard_client_misaligned_tags_total"),
            ("shard_client_malformed_lists", "pointsman_broker_shard_client_malformed_lists_total"),
            ("shard_client_skipped", "pointsman_broker_shard_client_skipped_total"),
            ("shard_client_fail_open", "pointsman_broker_shard_client_fail_open_total"),
        ] {
            let own = pointsman_shard_client::Sample { name, labels: vec![("result", "hit")], value: 3 };
            let samples = of_shard_client(&[own]);
            let [sample] = &samples[..] else { panic!("{name} is shown once") };
            assert_eq!((sample.name, sample.value), (shown, 3.0));
            assert_eq!(sample.kind == SampleKind::Counter, shown.ends_with("_total"));
            assert_eq!(sample.labels, [("result", "hit".to_owned())]);
        }
    }
}
