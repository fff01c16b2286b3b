//! Health, readiness and metrics, and what the node thinks of its segments.

use std::sync::Arc;

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use pointsman_telemetry::MetricsHandle;
use serde::Serialize;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    cache::{Observation, Status},
    session::Standing,
};

/// What the pages show.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    pub(crate) observation: watch::Receiver<Arc<Observation>>,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) draining: CancellationToken,
    pub(crate) metrics: Option<MetricsHandle>,
}

/// Serves the pages until it is told to stop.
pub(crate) async fn serve(
    pages: Pages,
    listener: TcpListener,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/health", get(|| async { "OK" }))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/debug/segments", get(segments))
        .with_state(pages);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// The answer of `/ready`: 200 when the node serves and knows its whole wish, else 503.
#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
    /// Why not; absent when it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The coordinator of the session that stands; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    coordinator: Option<String>,
    /// Empty before the first session.
    cluster: String,
    /// 0 before the first session.
    node_id: u64,
    desired_version: u64,
    wanted: usize,
    held: usize,
    fetching: usize,
    failed: usize,
}

async fn ready(State(pages): State<Pages>) -> (StatusCode, Json<Ready>) {
    let observation = Arc::clone(&pages.observation.borrow());
    let standing = pages.standing.borrow().clone();
    let why = if pages.draining.is_cancelled() {
        Some("it drains".to_owned())
    } else if observation.desired_version == 0 {
        Some(standing.trouble.unwrap_or_else(|| "no coordinator has said yet what to hold".into()))
    } else {
        None
    };
    let ready = Ready {
        ready: why.is_none(),
        why,
        coordinator: standing.coordinator,
        cluster: standing.cluster,
        node_id: standing.node_id,
        desired_version: observation.desired_version,
        wanted: observation.wanted(),
        held: observation.count("held"),
        fetching: observation.count("fetching"),
        failed: observation.count("failed"),
    };
    let status = if ready.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ready))
}

async fn metrics(State(pages): State<Pages>) -> String {
    pages.metrics.map(|metrics| metrics.render()).unwrap_or_default()
}

/// A line of `/debug/segments`.
#[derive(Debug, Serialize)]
struct SegmentLine {
    id: u64,
    collection: String,
    segment: String,
    object: String,
    bytes: u64,
    /// `held`, `fetching` or `failed`.
    state: &'static str,
    /// Whether the desired state names it; what it does not name is dropped soon.
    wanted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tries: Option<u32>,
}

async fn segments(State(pages): State<Pages>) -> Json<Vec<SegmentLine>> {
    let observation = Arc::clone(&pages.observation.borrow());
    let lines = observation.segments.values().map(|observed| {
        let (error, tries) = match &observed.status {
            Status::Failed { error, tries } => (Some(format!("{}: {error}", error.code())), Some(*tries)),
            Status::Fetching | Status::Held => (None, None),
        };
        let segment = &observed.segment;
        SegmentLine {
            id: segment.id,
            collection: segment.collection.clone(),
            segment: segment.name.clone(),
            object: segment.object.clone(),
            bytes: segment.bytes,
            state: observed.status.as_str(),
            wanted: observed.wanted,
            error,
            tries,
        }
    });
    Json(lines.collect())
}
