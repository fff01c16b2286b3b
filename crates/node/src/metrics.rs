//! What a node counts.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use pointsman_ids::ErrorCode;

use crate::{cache::Observation, leads::LeadStates, shards::Figures};

const SEGMENTS: &str = "pointsman_node_segments";
const WANTED: &str = "pointsman_node_segments_wanted";
const CACHE_BYTES: &str = "pointsman_node_cache_bytes";
const CACHE_LIMIT: &str = "pointsman_node_cache_limit_bytes";
const FETCHES: &str = "pointsman_node_fetches_total";
const FETCH_SECONDS: &str = "pointsman_node_fetch_seconds";
const FETCHED_BYTES: &str = "pointsman_node_fetched_bytes_total";
const DAMAGED: &str = "pointsman_node_damaged_files_total";
const SESSION: &str = "pointsman_node_session";
const SESSION_ENDS: &str = "pointsman_node_session_ends_total";
const REPORTS: &str = "pointsman_node_reports_total";
const DESIRED_VERSION: &str = "pointsman_node_desired_version";
const CALLS: &str = "pointsman_node_calls_in_flight";
const LEADS: &str = "pointsman_node_leads";
const SHARD_REQUESTS: &str = "pointsman_node_shard_requests_total";
const SHARD_REQUEST_SECONDS: &str = "pointsman_node_shard_request_seconds";
const SHARD_REQUESTS_RUNNING: &str = "pointsman_node_shard_requests_running";
const SHARD_REQUEST_NQ: &str = "pointsman_node_shard_request_nq";
const SHARD_REQUEST_BYTES: &str = "pointsman_node_shard_request_bytes";
const SHARD_PARTS_AGAIN: &str = "pointsman_node_shard_parts_again_total";
const SIBLING_CALLS: &str = "pointsman_node_sibling_calls_total";
const VECTOR_MEMORY: &str = "pointsman_node_vector_memory_bytes";
const VECTOR_MEMORY_LIMIT: &str = "pointsman_node_vector_memory_limit_bytes";
const INDEX_BYTES: &str = "pointsman_node_index_bytes";
const INDEX_BUILDS: &str = "pointsman_node_index_builds_total";
const INDEX_BUILD_SECONDS: &str = "pointsman_node_index_build_seconds";

/// Describes every metric, and sets those that never change.
pub(crate) fn describe(cache_limit: u64, vector_memory: u64) {
    describe_gauge!(SEGMENTS, "Segments, by state: held, fetching, failed.");
    describe_gauge!(WANTED, "Segments in the desired state.");
    describe_gauge!(CACHE_BYTES, Unit::Bytes, "Bytes of segment files, those being fetched included.");
    describe_gauge!(CACHE_LIMIT, Unit::Bytes, "Bytes that segment files may take.");
    describe_counter!(FETCHES, "Fetches that ended, by result: ok, or the name of the error.");
    describe_histogram!(FETCH_SECONDS, Unit::Seconds, "Duration of fetches that went well.");
    describe_counter!(FETCHED_BYTES, Unit::Bytes, "Bytes that were fetched and verified.");
    describe_counter!(DAMAGED, "Files that were missing, cut or altered when they were verified.");
    describe_gauge!(SESSION, "1 while a session with the active coordinator stands, else 0.");
    describe_counter!(SESSION_ENDS, "Tries and sessions that ended, by cause.");
    describe_counter!(REPORTS, "Reports that were sent.");
    describe_gauge!(DESIRED_VERSION, "Version of the desired state that was read last.");
    describe_gauge!(CALLS, "Calls of the worker that run.");
    describe_counter!(
        SHARD_REQUESTS,
        "Requests by shard that ended, by call (shard, segments), kind and outcome."
    );
    describe_histogram!(SHARD_REQUEST_SECONDS, Unit::Seconds, "Time from a request's arrival to its answer.");
    describe_gauge!(SHARD_REQUESTS_RUNNING, "Requests by shard that the node works on.");
    describe_gauge!(SHARD_REQUEST_NQ, "Vectors and keys of those requests.");
    describe_gauge!(SHARD_REQUEST_BYTES, Unit::Bytes, "Bytes of their questions and answers.");
    describe_counter!(SHARD_PARTS_AGAIN, "Parts of shards that were asked for once more, elsewhere.");
    describe_counter!(SIBLING_CALLS, "Calls of other nodes of a replica, by outcome.");
    describe_gauge!(VECTOR_MEMORY, Unit::Bytes, "Memory of vectors and indexes that are kept or being read.");
    describe_gauge!(VECTOR_MEMORY_LIMIT, Unit::Bytes, "Memory that they may take.");
    describe_gauge!(INDEX_BYTES, Unit::Bytes, "Bytes of index files, those being built included.");
    describe_counter!(INDEX_BUILDS, "Builds of indexes that ended, by result: ok, or the name of the error.");
    describe_histogram!(INDEX_BUILD_SECONDS, Unit::Seconds, "Duration of builds of indexes that went well.");
    describe_gauge!(LEADS, "Shards that the node leads, by state: serviceable, lacking.");
    gauge!(CACHE_LIMIT).set(cache_limit as f64);
    gauge!(VECTOR_MEMORY_LIMIT).set(vector_memory as f64);
}

/// What is there.
pub(crate) fn segments(observation: &Observation) {
    for state in ["held", "fetching", "failed"] {
        gauge!(SEGMENTS, "state" => state).set(observation.count(state) as f64);
    }
    gauge!(WANTED).set(observation.wanted() as f64);
    gauge!(CACHE_BYTES).set(observation.bytes as f64);
    gauge!(INDEX_BYTES).set(observation.index_bytes as f64);
    gauge!(DESIRED_VERSION).set(observation.desired_version as f64);
}

/// What is led.
pub(crate) fn leads(states: &LeadStates) {
    let serviceable = states.values().filter(|state| state.is_serviceable()).count();
    gauge!(LEADS, "state" => "serviceable").set(serviceable as f64);
    gauge!(LEADS, "state" => "lacking").set((states.len() - serviceable) as f64);
}

/// A fetch that went well.
pub(crate) fn fetched(bytes: u64, took: Duration) {
    counter!(FETCHES, "result" => "ok").increment(1);
    counter!(FETCHED_BYTES).increment(bytes);
    histogram!(FETCH_SECONDS).record(took);
}

/// A fetch that did not.
pub(crate) fn fetch_failed(code: ErrorCode) {
    counter!(FETCHES, "result" => code.name()).increment(1);
}

/// A build of an index that ended: how long it took, or the code of its error.
pub(crate) fn index_build(result: Result<Duration, ErrorCode>) {
    counter!(INDEX_BUILDS, "result" => result.err().map_or("ok", ErrorCode::name)).increment(1);
    result.into_iter().for_each(|took| histogram!(INDEX_BUILD_SECONDS).record(took));
}

/// A file that was not what it should be.
pub(crate) fn damaged() {
    counter!(DAMAGED).increment(1);
}

/// Whether a session stands.
pub(crate) fn session(stands: bool) {
    gauge!(SESSION).set(f64::from(u8::from(stands)));
}

/// A try or a session that ended.
pub(crate) fn session_ended(cause: &'static str) {
    counter!(SESSION_ENDS, "cause" => cause).increment(1);
}

/// A report that was sent.
pub(crate) fn reported() {
    counter!(REPORTS).increment(1);
}

/// Calls of the worker that run.
pub(crate) fn calls(count: usize) {
    gauge!(CALLS).set(count as f64);
}

/// A request by shard that ended.
pub(crate) fn shard_request(call: &'static str, kind: &'static str, outcome: &'static str, took: Duration) {
    counter!(SHARD_REQUESTS, "call" => call, "kind" => kind, "outcome" => outcome).increment(1);
    histogram!(SHARD_REQUEST_SECONDS, "call" => call, "kind" => kind).record(took);
}

/// Requests by shard that run.
pub(crate) fn shard_load(figures: Figures) {
    gauge!(SHARD_REQUESTS_RUNNING).set(figures.requests as f64);
    gauge!(SHARD_REQUEST_NQ).set(figures.nq as f64);
    gauge!(SHARD_REQUEST_BYTES).set(figures.bytes as f64);
}

/// A part of a shard that is asked for once more.
pub(crate) fn shard_part_again() {
    counter!(SHARD_PARTS_AGAIN).increment(1);
}

/// A call of another node that ended: the code of its error.
pub(crate) fn sibling_call(error: Option<ErrorCode>) {
    counter!(SIBLING_CALLS, "outcome" => error.map_or("ok", ErrorCode::name)).increment(1);
}

/// Memory that vectors and indexes take.
pub(crate) fn vector_memory(bytes: u64) {
    gauge!(VECTOR_MEMORY).set(bytes as f64);
}
