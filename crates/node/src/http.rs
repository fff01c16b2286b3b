//! Health, readiness and metrics, and what the node thinks of its segments.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use pointsman_telemetry::MetricsHandle;
use serde::Serialize;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    cache::{Observation, ObservedIndex, Status},
    leads::{LeadState, Leads, Peers},
    session::Standing,
    shards::{Figures, Load},
};

/// What the pages show.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    pub(crate) observation: watch::Receiver<Arc<Observation>>,
    pub(crate) leads: Leads,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) draining: CancellationToken,
    pub(crate) load: Load,
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
        .route("/debug/leads", get(leads))
        .route("/debug/requests", get(requests))
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
    /// Indexes that it should have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<IndexLine>,
}

/// An index of a segment.
#[derive(Debug, Serialize)]
struct IndexLine {
    column: String,
    metric: String,
    /// `ready`, `building` or `missing`; searches of a segment that is held do without those that are not ready.
    state: &'static str,
    /// Length of its file; of one that is being built a guess.
    bytes: u64,
}

impl From<&ObservedIndex> for IndexLine {
    fn from(observed: &ObservedIndex) -> Self {
        let ObservedIndex { index, state, bytes } = observed;
        Self { column: index.column.clone(), metric: index.metric.clone(), state, bytes: *bytes }
    }
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
            indexes: observed.indexes.iter().map(Into::into).collect(),
        }
    });
    Json(lines.collect())
}

/// A line of `/debug/leads`.
#[derive(Debug, Serialize)]
struct LeadLine {
    collection: String,
    shard: String,
    replica: u64,
    version: u64,
    /// The target that its view is from; 0: the coordinator has not synced it yet.
    target_version: u64,
    /// Segments that its view lists.
    segments: usize,
    partitions: Vec<String>,
    /// Segments of the shard that it can reach, also such that its view does not list.
    reach: usize,
    loaded_ratio: f64,
    serviceable: bool,
    /// Nodes that hold them.
    hosts: Vec<HostLine>,
}

/// A node that holds segments of a shard.
#[derive(Debug, Serialize)]
struct HostLine {
    node: String,
    address: String,
    segments: usize,
}

fn hosts(state: &LeadState, peers: &Peers) -> Vec<HostLine> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    state.reach.values().for_each(|host| *counts.entry(*host).or_default() += 1);
    let line = |(id, segments): (u64, usize)| {
        let peer = peers.get(&id);
        let node = peer.map_or_else(|| id.to_string(), |peer| peer.name.clone());
        HostLine { node, address: peer.map(|peer| peer.address.clone()).unwrap_or_default(), segments }
    };
    counts.into_iter().map(line).collect()
}

async fn leads(State(pages): State<Pages>) -> Json<Vec<LeadLine>> {
    let states = Arc::clone(&pages.leads.states().borrow());
    let peers = pages.leads.peers();
    let lines = states.iter().map(|((_, shard), state)| LeadLine {
        collection: state.collection.clone(),
        shard: shard.to_string(),
        replica: state.replica,
        version: state.version,
        target_version: state.target_version(),
        segments: state.listed(),
        partitions: state.partitions().to_vec(),
        reach: state.reach.len(),
        loaded_ratio: state.loaded_ratio(),
        serviceable: state.is_serviceable(),
        hosts: hosts(state, &peers),
    });
    Json(lines.collect())
}

async fn requests(State(pages): State<Pages>) -> Json<Figures> {
    Json(pages.load.figures())
}
