//! Which nodes a request tried, and what each did.

use humantime::format_duration;
use pointsman_ids::ErrorCode;

use super::{scenario::NodeOutcome, world::Try};

/// One line for each try, in their order.
pub(super) fn lines(tries: &[Try]) -> Vec<String> {
    tries.iter().map(line).collect()
}

fn line(tried: &Try) -> String {
    let Try { at, shard, node, address, outcome } = tried;
    format!("at {}: {shard} on node {node} ({address}): {}", format_duration(at.since_start()), told(outcome))
}

fn told(outcome: &NodeOutcome) -> String {
    match outcome {
        NodeOutcome::Unreachable => "no client to be had".to_owned(),
        NodeOutcome::Hang => "never answers".to_owned(),
        NodeOutcome::Answer { after, error } => {
            let what = error.map_or_else(|| "answers".to_owned(), |(code, input)| failure(code, input));
            if after.is_zero() { what } else { format!("{what} after {}", format_duration(*after)) }
        }
    }
}

fn failure(code: ErrorCode, is_input: Option<bool>) -> String {
    match is_input {
        Some(true) => format!("fails with {code}, which it blames on the request"),
        _ => format!("fails with {code}"),
    }
}
