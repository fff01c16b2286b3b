//! What comes out of a step, by the keys under which it may be expected.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, NodeId};
use pointsman_shard_client::{Leader, NodeReport, Selected, ShardError};
use serde_json::{Map, Value, json};

use super::{driver::Client, metrics, scenario::NodeOutcome, world::Try};
use crate::errors;

/// What a step shows.
pub(super) type Shown = Map<String, Value>;

pub(super) fn put(shown: &mut Shown, key: &str, value: impl Into<Value>) {
    shown.insert(key.to_owned(), value.into());
}

/// An error, or null.
pub(super) fn error(error: Option<&ShardError>) -> Value {
    let told =
        |error: &ShardError| errors::told(error.code(), error.is_retriable(), error.class(), error.message());
    error.map_or(Value::Null, told)
}

/// A duration as expectations are told.
pub(super) fn duration(duration: Duration) -> Value {
    humantime::format_duration(duration).to_string().into()
}

/// Where a request went; a node that could not be reached was not visited.
pub(super) fn visits(shown: &mut Shown, tries: &[Try]) {
    let mut visits = BTreeMap::<&str, Vec<&Try>>::new();
    for visit in tries.iter().filter(|visit| !matches!(visit.outcome, NodeOutcome::Unreachable)) {
        visits.entry(&visit.shard).or_default().push(visit);
    }
    let each = |of: &dyn Fn(&[&Try]) -> Value| -> Map<String, Value> {
        visits.iter().map(|(shard, visits)| ((*shard).to_owned(), of(visits))).collect()
    };
    put(shown, "visits", each(&|visits| visits.iter().map(|visit| json!(visit.node.0)).collect()));
    put(shown, "runs", each(&|visits| json!(visits.len())));
    put(shown, "addresses", each(&|visits| visits.iter().map(|visit| json!(&*visit.address)).collect()));
}

/// Shard to avoided nodes.
pub(super) fn blacklist(client: &Client, collection: CollectionId) -> Value {
    let listed: BTreeMap<Arc<str>, BTreeMap<NodeId, MonoTime>> = client.blacklist(collection);
    let nodes = |nodes: BTreeMap<NodeId, MonoTime>| nodes.keys().map(|node| json!(node.0)).collect::<Value>();
    listed.into_iter().map(|(shard, listed)| (shard.to_string(), nodes(listed))).collect()
}

/// Leaders in order.
pub(super) fn leaders(leaders: &[Leader]) -> Value {
    let leader = |leader: &Leader| {
        json!({
            "node": leader.node.0,
            "address": &*leader.address,
            "serviceable": leader.serviceable,
            "resource_group": &*leader.resource_group,
        })
    };
    leaders.iter().map(leader).collect()
}

/// A choice.
pub(super) fn selected(shown: &mut Shown, selected: Option<&Selected>) {
    put(shown, "node", json!(selected.map(|selected| selected.leader.node.0)));
    put(shown, "by_balancer", selected.is_some_and(|selected| selected.work.is_some()));
}

/// Node numbers.
pub(super) fn nodes(nodes: impl IntoIterator<Item = NodeId>) -> Value {
    nodes.into_iter().map(|node| json!(node.0)).collect()
}

/// What a check shows.
pub(super) fn check(client: &Client, collection: CollectionId) -> Shown {
    let reports = client.balancer().report(client.now());
    let map = |of: &dyn Fn(&NodeReport) -> Option<i64>| -> Map<String, Value> {
        reports.iter().filter_map(|report| Some((report.node.to_string(), of(report)?.into()))).collect()
    };
    let set = |holds: fn(&NodeReport) -> bool| {
        nodes(reports.iter().filter(|report| holds(report)).map(|report| report.node))
    };
    let mut shown = Shown::new();
    put(&mut shown, "blacklist", blacklist(client, collection));
    put(&mut shown, "executing", map(&|report| Some(report.executing).filter(|executing| *executing != 0)));
    put(&mut shown, "scores", map(&|report| Some(report.score)));
    put(&mut shown, "unavailable", set(|report| report.unavailable));
    put(&mut shown, "known", set(|report| report.known));
    put(&mut shown, "metrics", metrics::all(&client.samples()));
    shown
}
