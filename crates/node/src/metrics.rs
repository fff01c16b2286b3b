//! What a node counts.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use pointsman_ids::ErrorCode;

use crate::{cache::Observation, leads::LeadStates};

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

/// Describes every metric, and sets those that never change.
pub(crate) fn describe(cache_limit: u64) {
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
    describe_gauge!(LEADS, "Shards that the node leads, by state: serviceable, lacking.");
    gauge!(CACHE_LIMIT).set(cache_limit as f64);
}

/// What is there.
pub(crate) fn segments(observation: &Observation) {
    for state in ["held", "fetching", "failed"] {
        gauge!(SEGMENTS, "state" => state).set(observation.count(state) as f64);
    }
    gauge!(WANTED).set(observation.wanted() as f64);
    gauge!(CACHE_BYTES).set(observation.bytes as f64);
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
