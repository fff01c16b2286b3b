//! Health, readiness and metrics.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use pointsman_routing::FeedState;
use serde_json::{Value, json};

use crate::broker::Broker;

/// The process lives. Says nothing about routing.
pub(super) async fn health(State(broker): State<Arc<Broker>>) -> Json<Value> {
    Json(json!({"status": "ok", "broker": broker.name, "version": env!("CARGO_PKG_VERSION")}))
}

/// Whether queries can be answered: 200 once there is a routing view, 503 before.
pub(super) async fn ready(State(broker): State<Arc<Broker>>) -> Response {
    let feed = broker.routing.feed();
    let is_ready = broker.routing.is_ready();
    let snapshot = Arc::clone(broker.routing.view().snapshot());
    let view = match (is_ready, feed.connected) {
        (false, _) => "none",
        (true, true) => "coordinator",
        (true, false) if broker.stored_version == Some(snapshot.version) => "disk",
        (true, false) => "memory",
    };
    let body = json!({
        "ready": is_ready,
        "broker": broker.name,
        "version": env!("CARGO_PKG_VERSION"),
        "cluster": snapshot.cluster.as_str(),
        "feed_version": snapshot.version.0,
        "view": view,
        "connected": feed.connected,
        "routing_age_ms": feed.age.map(crate::millis),
        "stored_snapshot_refused": feed.refused,
        "clusters": clusters(&broker),
    });
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(body)).into_response()
}

/// How the broker stands to each of its clusters, the local one first.
fn clusters(broker: &Broker) -> Vec<Value> {
    let view = broker.routing.view();
    let versions = view.clusters().map(|(_, snapshot)| snapshot.map(|snapshot| snapshot.version.0));
    let cluster = |(feed, version): (FeedState, Option<u64>)| {
        json!({
            "cluster": feed.cluster.as_str(),
            "feed_version": version,
            "connected": feed.connected,
            "routing_age_ms": feed.age.map(crate::millis),
        })
    };
    broker.routing.feeds().into_iter().zip(versions).map(cluster).collect()
}

/// Everything that is counted, in Prometheus' text format.
pub(super) async fn metrics(State(broker): State<Arc<Broker>>) -> Response {
    let Some(text) = broker.render_metrics() else {
        return (StatusCode::NOT_FOUND, "this process has no metrics").into_response();
    };
    let text_format = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, text_format)], text).into_response()
}
