//! What the broker knows of nodes and routing, for people.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use pointsman_ids::{
    Error, ErrorCode, NodeId,
    feed::{CollectionEntry, CopyState, LoadState, NodeEntry, SegmentEntry, Snapshot},
};
use pointsman_routing::NodeStatus;
use serde_json::{Value, json};

use crate::broker::Broker;

/// Every segment of a collection with its candidates.
pub(super) async fn routing(State(broker): State<Arc<Broker>>, Path(name): Path<String>) -> Response {
    let view = broker.routing.view();
    let Some(entry) = view.collection(&name) else {
        let error = Error::new(ErrorCode::CollectionNotFound, format!("there is no collection '{name}'"));
        return (StatusCode::NOT_FOUND, Json(json!({"error": error_body(&error)}))).into_response();
    };
    let nodes = Nodes::new(view.snapshot(), broker.routing.nodes());
    Json(collection(view.snapshot(), entry, &nodes)).into_response()
}

/// Every node of the cluster.
pub(super) async fn nodes(State(broker): State<Arc<Broker>>) -> Json<Value> {
    let view = broker.routing.view();
    let nodes = Nodes::new(view.snapshot(), broker.routing.nodes());
    Json(json!({
        "cluster": view.snapshot().cluster.as_str(),
        "feed_version": view.snapshot().version.0,
        "nodes": view.snapshot().nodes.iter().map(|entry| nodes.describe(view.snapshot(), entry)).collect::<Vec<_>>(),
    }))
}

/// Members of the cluster, with what the broker thinks of them.
struct Nodes<'a> {
    entries: BTreeMap<NodeId, &'a NodeEntry>,
    status: BTreeMap<String, NodeStatus>,
}

impl<'a> Nodes<'a> {
    fn new(snapshot: &'a Snapshot, status: Vec<NodeStatus>) -> Self {
        Self {
            entries: snapshot.nodes.iter().map(|entry| (entry.id, entry)).collect(),
            status: status.into_iter().map(|status| (status.node.node.to_string(), status)).collect(),
        }
    }

    fn is_routable(&self, entry: &NodeEntry) -> bool {
        self.status.get(entry.name.as_str()).is_some_and(|status| status.routable)
    }

    fn describe(&self, snapshot: &Snapshot, entry: &NodeEntry) -> Value {
        let status = self.status.get(entry.name.as_str());
        let excluded = status.and_then(|status| Some((status, status.excluded_for?)));
        json!({
            "node": entry.name.as_str(),
            "id": entry.id.0,
            "address": entry.address,
            "incarnation": entry.incarnation.0,
            "pool": entry.pool.0,
            "group": group(snapshot, entry.pool.0),
            "switched_on": entry.switched_on,
            "enabled": entry.enabled,
            "lost": entry.lost,
            "routable": self.is_routable(entry),
            "excluded_for_ms": excluded.map(|(_, since)| crate::millis(since)),
            "evidence": excluded.map(|(status, _)| status.evidence.as_str()),
            "next_probe_in_ms": status.and_then(|status| status.next_probe_in).map(crate::millis),
        })
    }
}

fn collection(snapshot: &Snapshot, entry: &CollectionEntry, nodes: &Nodes<'_>) -> Value {
    let (load, percent) = match entry.load {
        LoadState::NotLoaded => ("not_loaded", 0),
        LoadState::Loading { percent } => ("loading", percent),
        LoadState::Serving => ("serving", 100),
    };
    json!({
        "collection": entry.name.as_str(),
        "feed_version": snapshot.version.0,
        "changed_in": entry.version.0,
        "selector": entry.routing.selector.as_str(),
        "load": load,
        "percent": percent,
        "finished_groups": entry.finished_groups.iter().map(|number| group(snapshot, number.0)).collect::<Vec<_>>(),
        "segments": entry.segments.iter().map(|one| segment(snapshot, entry, one, nodes)).collect::<Vec<_>>(),
    })
}

fn segment(snapshot: &Snapshot, entry: &CollectionEntry, segment: &SegmentEntry, nodes: &Nodes<'_>) -> Value {
    let candidates = segment.copies.iter().map(|copy| {
        let node = nodes.entries.get(&copy.node);
        let replica = entry.replicas.get(copy.replica as usize);
        json!({
            "node": node.map(|node| node.name.as_str()),
            "group": replica.and_then(|replica| group(snapshot, replica.group.0)),
            "assigned": copy.assigned.map(state),
            "observed": copy.observed.map(state),
            "enabled": node.is_some_and(|node| node.enabled),
            "routable": node.is_some_and(|node| nodes.is_routable(node)),
        })
    });
    json!({
        "segment": segment.name.as_str(),
        "id": segment.id.0,
        "partition": entry.partitions.get(segment.partition as usize).map(|name| name.as_str()),
        "shard": entry.shards.get(segment.shard as usize).map(|name| name.as_str()),
        "rows": segment.rows,
        "bytes": segment.bytes,
        "candidates": candidates.collect::<Vec<_>>(),
    })
}

/// Name of a resource group; `None`: no such group.
fn group(snapshot: &Snapshot, number: i32) -> Option<&str> {
    snapshot.groups.iter().find(|group| group.number.0 == number).map(|group| group.name.as_str())
}

fn state(state: CopyState) -> &'static str {
    match state {
        CopyState::Online => "online",
        CopyState::Consuming => "consuming",
        CopyState::Offline => "offline",
        CopyState::Error => "error",
    }
}

fn error_body(error: &Error) -> Value {
    json!({
        "code": error.code().number(),
        "name": error.code().name(),
        "class": error.code().class().as_str(),
        "retriable": error.is_retriable(),
        "message": error.message(),
    })
}
