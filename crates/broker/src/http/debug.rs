//! What the broker knows of nodes and routing, for people.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use pointsman_ids::{
    Error, ErrorCode, NodeId, NodeKey,
    feed::{CollectionEntry, CopyEntry, LoadState, NodeEntry, SegmentEntry, Snapshot},
};
use pointsman_routing::{NodeStatus, RoutingView};
use serde_json::{Value, json};

use crate::{broker::Broker, route::state};

/// Every segment of a collection with its candidates.
pub(super) async fn routing(State(broker): State<Arc<Broker>>, Path(name): Path<String>) -> Response {
    let view = broker.routing.view();
    let Some(entry) = view.collection(&name) else {
        let error = Error::new(ErrorCode::CollectionNotFound, format!("there is no collection '{name}'"));
        return (StatusCode::NOT_FOUND, Json(json!({"error": error_body(&error)}))).into_response();
    };
    Json(collection(&view, entry)).into_response()
}

/// Every node of every cluster, the local one first.
pub(super) async fn nodes(State(broker): State<Arc<Broker>>) -> Json<Value> {
    let view = broker.routing.view();
    let status = broker.routing.nodes().into_iter();
    let status: BTreeMap<NodeKey, NodeStatus> = status.map(|status| (status.node.clone(), status)).collect();
    let snapshots = view.clusters().filter_map(|(_, snapshot)| snapshot);
    let nodes = snapshots.flat_map(|snapshot| {
        let describe = |entry: &NodeEntry| {
            let key = NodeKey { cluster: snapshot.cluster.clone(), node: entry.name.clone() };
            node(snapshot, entry, status.get(&key))
        };
        snapshot.nodes.iter().map(describe).collect::<Vec<_>>()
    });
    Json(json!({
        "cluster": view.cluster().as_str(),
        "feed_version": view.snapshot().version.0,
        "nodes": nodes.collect::<Vec<_>>(),
    }))
}

fn node(snapshot: &Snapshot, entry: &NodeEntry, status: Option<&NodeStatus>) -> Value {
    let excluded = status.filter(|status| status.excluded_for.is_some());
    let suspected = status.filter(|status| status.suspicions > 0);
    json!({
        "cluster": snapshot.cluster.as_str(),
        "node": entry.name.as_str(),
        "id": entry.id.0,
        "address": entry.address,
        "incarnation": entry.incarnation.0,
        "pool": entry.pool.0,
        "group": group(snapshot, entry.pool.0),
        "switched_on": entry.switched_on,
        "enabled": entry.enabled,
        "lost": entry.lost,
        "routable": status.is_some_and(|status| status.routable),
        "excluded_for_ms": excluded.and_then(|status| status.excluded_for).map(crate::millis),
        "evidence": excluded.map(|status| status.evidence.as_str()),
        "tries": excluded.map_or(0, |status| status.failed_probes),
        "last_probe": excluded.map(|status| status.last_probe.as_str()).filter(|text| !text.is_empty()),
        "next_probe_in_ms": status.and_then(|status| status.next_probe_in).map(crate::millis),
        "suspicions": suspected.map_or(0, |status| status.suspicions),
        "suspicion": suspected.map(|status| status.suspicion.as_str()),
    })
}

fn collection(view: &RoutingView, entry: &CollectionEntry) -> Value {
    let (load, percent) = match entry.load {
        LoadState::NotLoaded => ("not_loaded", 0),
        LoadState::Loading { percent } => ("loading", percent),
        LoadState::Serving => ("serving", 100),
    };
    let finished = entry.finished_groups.iter().map(|number| group(view.snapshot(), number.0));
    json!({
        "collection": entry.name.as_str(),
        "feed_version": view.snapshot().version.0,
        "changed_in": entry.version.0,
        "selector": entry.routing.selector.as_str(),
        "load": load,
        "percent": percent,
        "finished_groups": finished.collect::<Vec<_>>(),
        "segments": segments(view, entry),
    })
}

/// The segments of all clusters that have a part, each in the words of its own cluster's catalog.
fn segments(view: &RoutingView, entry: &CollectionEntry) -> Vec<Value> {
    let mut segments = vec![];
    for (cluster, positions) in view.parts(entry.name.as_str()) {
        let snapshot = view.clusters().find_map(|(name, snapshot)| snapshot.filter(|_| name == cluster));
        let Some(snapshot) = snapshot else { continue };
        let own = snapshot.collection(entry.name.as_str()).map_or(entry, |own| own);
        let part =
            Part { view, snapshot, own, nodes: snapshot.nodes.iter().map(|node| (node.id, node)).collect() };
        let of_part = positions.filter_map(|at| entry.segments.get(at as usize));
        segments.extend(of_part.map(|segment| part.segment(segment)));
    }
    segments
}

/// One cluster's part of a collection.
struct Part<'a> {
    view: &'a RoutingView,
    snapshot: &'a Snapshot,
    /// The collection as this cluster's catalog has it.
    own: &'a CollectionEntry,
    nodes: BTreeMap<NodeId, &'a NodeEntry>,
}

impl Part<'_> {
    fn segment(&self, segment: &SegmentEntry) -> Value {
        let own = self.own;
        json!({
            "cluster": self.snapshot.cluster.as_str(),
            "segment": segment.name.as_str(),
            "id": segment.id.0,
            "partition": own.partitions.get(segment.partition as usize).map(|name| name.as_str()),
            "shard": own.shards.get(segment.shard as usize).map(|name| name.as_str()),
            "rows": segment.rows,
            "bytes": segment.bytes,
            "candidates": segment.copies.iter().map(|copy| self.copy(copy)).collect::<Vec<_>>(),
        })
    }

    fn copy(&self, copy: &CopyEntry) -> Value {
        let node = self.nodes.get(&copy.node);
        let key =
            node.map(|node| NodeKey { cluster: self.snapshot.cluster.clone(), node: node.name.clone() });
        let replica = self.own.replicas.get(copy.replica as usize);
        json!({
            "node": node.map(|node| node.name.as_str()),
            "group": replica.and_then(|replica| group(self.snapshot, replica.group.0)),
            "assigned": copy.assigned.map(state),
            "observed": copy.observed.map(state),
            "enabled": node.is_some_and(|node| node.enabled),
            "routable": key.is_some_and(|key| self.view.is_routable(&key)),
        })
    }
}

/// Name of a resource group; `None`: no such group.
fn group(snapshot: &Snapshot, number: i32) -> Option<&str> {
    snapshot.groups.iter().find(|group| group.number.0 == number).map(|group| group.name.as_str())
}

/// An error as these pages show it.
pub(super) fn error_body(error: &Error) -> Value {
    json!({
        "code": error.code().number(),
        "name": error.code().name(),
        "class": error.code().class().as_str(),
        "retriable": error.is_retriable(),
        "message": error.message(),
    })
}
