//! `/debug/shards`: the shard leaders that the broker knows, and what speaks against them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode, NodeId, Result, feed::CollectionEntry, near};
use pointsman_routing::RoutingView;
use pointsman_shard_client::{Leader, NodeReport, NodeView, Standing};
use serde::Deserialize;
use serde_json::{Value, json};

use super::debug::error_body;
use crate::{broker::Broker, shards::Shards};

/// Parameters of the address.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    collection: String,
    shard: Option<String>,
    /// Name or number.
    node: Option<String>,
}

/// The table of a collection.
pub(super) async fn show(State(broker): State<Arc<Broker>>, Query(asked): Query<Asked>) -> Response {
    let view = broker.routing.view();
    match entry(&view, &asked.collection) {
        Ok(entry) => Json(page(broker.rows.shards(), &view, entry)).into_response(),
        Err(error) => refuse(&error),
    }
}

/// Lets a node be asked for a shard again, though it failed there a moment ago; without shard and node, drops the leaders
/// that are cached of the collection.
pub(super) async fn clear(State(broker): State<Arc<Broker>>, Query(asked): Query<Asked>) -> Response {
    let view = broker.routing.view();
    let client = &broker.rows.shards().client;
    let cleared = || {
        let entry = entry(&view, &asked.collection)?;
        let (shard, node) = match (&asked.shard, &asked.node) {
            (Some(shard), Some(node)) => (shard, node),
            (None, None) => {
                let was_cached = client.cached_leaders(entry.id).is_some();
                client.invalidate(&[entry.id]);
                return Ok(json!({"was_cached": was_cached}));
            }
            _ => {
                let text = "name both `shard` and `node`, or neither of them";
                return Err(Error::new(ErrorCode::ParameterMissing, text));
            }
        };
        if !entry.shards.iter().any(|known| known.as_str() == shard) {
            let known = near(shard, entry.shards.iter().map(|known| known.as_str()), "it has none yet");
            let text =
                format!("collection '{}' has no shard '{}'; {known}", entry.name, shard.escape_debug());
            return Err(Error::new(ErrorCode::ParameterInvalid, text));
        }
        let named =
            view.snapshot().nodes.iter().find(|known| known.name.as_str() == node).map(|known| known.id);
        let node = named.or_else(|| node.parse().ok().map(NodeId)).ok_or_else(|| {
            let known =
                near(node, view.snapshot().nodes.iter().map(|known| known.name.as_str()), "there is none");
            let text = format!("there is no node '{}'; {known}", node.escape_debug());
            Error::new(ErrorCode::NodeNotFound, text)
        })?;
        Ok(json!({"was_avoided": client.pardon(entry.id, shard, node)}))
    };
    match cleared() {
        Ok(cleared) => Json(cleared).into_response(),
        Err(error) => refuse(&error),
    }
}

fn entry<'a>(view: &'a RoutingView, name: &str) -> Result<&'a Arc<CollectionEntry>> {
    let snapshot = view.snapshot();
    snapshot.collection(name).ok_or_else(|| {
        let hint =
            near(name, snapshot.collections.iter().map(|entry| entry.name.as_str()), "there is none yet");
        let text = format!("there is no collection '{}'; {hint}", name.escape_debug());
        Error::new(ErrorCode::CollectionNotFound, text)
    })
}

fn refuse(error: &Error) -> Response {
    let status = match error.code() {
        ErrorCode::ParameterMissing => StatusCode::BAD_REQUEST,
        _ => StatusCode::NOT_FOUND,
    };
    (status, Json(json!({"error": error_body(error)}))).into_response()
}

fn page(shards: &Shards, view: &RoutingView, entry: &CollectionEntry) -> Value {
    let client = &shards.client;
    let now = client.now();
    let cached = client.cached_leaders(entry.id);
    let avoided = client.blacklist(entry.id);
    let reports: BTreeMap<NodeId, NodeReport> =
        client.balancer().report(now).into_iter().map(|report| (report.node, report)).collect();
    let of_shard = |(name, leaders): (&Arc<str>, &Arc<[Leader]>)| {
        let avoided = avoided.get(name);
        let until = |node| avoided.and_then(|nodes| nodes.get(&node)).copied();
        let leaders: Vec<Value> = leaders
            .iter()
            .map(|leader| described(shards, leader, until(leader.node), reports.get(&leader.node), now))
            .collect();
        let listed = |node: &NodeId| leaders.iter().any(|leader| leader["node_id"] == json!(node.0));
        let others = avoided.into_iter().flatten().filter(|(node, _)| !listed(node));
        let others: Vec<Value> = others
            .map(|(node, until)| json!({"node_id": node.0, "avoided_for_ms": left(*until, now)}))
            .collect();
        json!({"shard": &**name, "leaders": leaders, "avoided_besides": others})
    };
    json!({
        "collection": entry.name.as_str(),
        "collection_id": entry.id.0,
        "feed_version": view.snapshot().version.0,
        "cached": cached.is_some(),
        "connection_pools": client.pools(),
        "shards": cached.iter().flat_map(|table| table.shards()).map(of_shard).collect::<Vec<_>>(),
    })
}

fn described(
    shards: &Shards,
    leader: &Leader,
    avoided_until: Option<MonoTime>,
    report: Option<&NodeReport>,
    now: MonoTime,
) -> Value {
    let standing = match shards.client.standing(leader.node) {
        Standing::Routable => "routable",
        Standing::Excluded => "excluded",
        Standing::Disabled => "disabled",
    };
    json!({
        "node_id": leader.node.0,
        "node": shards.nodes.node(leader.node).map(|node| node.key.node.to_string()),
        "address": &*leader.address,
        "serviceable": leader.serviceable,
        "group": Some(&*leader.resource_group).filter(|group| !group.is_empty()),
        "standing": standing,
        "excluded_because": shards.nodes.why_excluded(leader.node),
        "avoided_for_ms": avoided_until.map(|until| left(until, now)),
        "executing": report.map_or(0, |report| report.executing),
        "score": report.map(|report| report.score),
        "unavailable": report.is_some_and(|report| report.unavailable),
    })
}

fn left(until: MonoTime, now: MonoTime) -> u64 {
    let left: Duration = until - now;
    crate::millis(left)
}
