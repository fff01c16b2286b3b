//! What people are told of nodes that leave.

use std::time::Duration;

use pointsman_proto::coordinator::v1::{Broker, LastCopy};
use serde_json::{Value, json};

/// Entries of a list at most; the rest is counted.
const SHOWN: usize = 10;

/// A time for people, in whole seconds.
pub(super) fn time(millis: u64) -> String {
    humantime::format_duration(Duration::from_secs(millis.div_ceil(1000))).to_string()
}

/// Something that a node serves.
pub(super) fn copy(copy: &LastCopy) -> String {
    let what = match copy.segment.as_str() {
        "" => format!("lead of {}", copy.shard),
        segment => format!("segment {segment}"),
    };
    format!("{}: {what}, for {}", copy.collection, copy.resource_group)
}

/// The first of them, and how many more there are, each in a line.
pub(super) fn copies(copies: &[LastCopy], total: u64) -> String {
    list(&copies.iter().map(copy).collect::<Vec<_>>(), total)
}

/// The first lines, and how many more there are.
pub(super) fn list(lines: &[String], total: u64) -> String {
    let mut text: String = lines.iter().take(SHOWN).map(|line| format!("  {line}\n")).collect();
    let more = total.saturating_sub(lines.len().min(SHOWN) as u64);
    if more > 0 {
        text += &format!("  and {more} more\n");
    }
    text
}

/// Which brokers are waited for.
pub(super) fn missing(lagging: &[Broker], awaited: bool, version: u64) -> String {
    let brokers: Vec<String> =
        lagging.iter().map(|broker| format!("{} (by {})", broker.name, broker.applied_version)).collect();
    let mut parts = Vec::new();
    if !brokers.is_empty() {
        parts.push(format!("waiting for brokers to route by version {version}: {}", list_of(&brokers)));
    }
    if awaited {
        parts.push(
            "waiting for brokers that may still come back to a coordinator that has just started".into(),
        );
    }
    parts.join("; ")
}

fn list_of(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

pub(super) fn copy_to_json(copy: &LastCopy) -> Value {
    let lead = copy.segment.is_empty();
    json!({
        "collection": copy.collection,
        "resource_group": copy.resource_group,
        "kind": if lead { "lead" } else { "segment" },
        "segment": (!lead).then_some(&copy.segment),
        "shard": copy.shard,
    })
}

pub(super) fn brokers_to_json(brokers: &[Broker]) -> Value {
    let broker = |broker: &Broker| {
        json!({
            "name": broker.name,
            "sent_version": broker.sent_version,
            "applied_version": broker.applied_version,
        })
    };
    brokers.iter().map(broker).collect()
}
