//! `Route` over gRPC for 1,000 segments, against an empty call that returns as many bytes. Both servers and both clients
//! are the same but for what is between the request and the answer, and each client decodes all that it gets. They take
//! short turns, so that what else the machine does falls on both.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that cannot run ends by panicking; it prints figures"
)]

#[expect(dead_code, reason = "the tests change what it sends")]
#[path = "../tests/it/feed.rs"]
mod feed;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use feed::Feed;
use futures::future::join_all;
use pointsman_broker::{Deps, run};
use pointsman_ids::{
    CollectionId, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, SegmentId,
    catalog::RoutingOptions,
    feed::{
        CollectionEntry, CopyEntry, CopyState, GroupEntry, LoadState, NodeEntry, ReplicaEntry, SegmentEntry,
        Snapshot,
    },
};
use pointsman_proto::{
    broker::v1::{
        RouteRequest, RouteResponse, routing_client::RoutingClient, routing_server,
        routing_server::RoutingServer,
    },
    positions,
};
use pointsman_settings::BrokerSettings;
use prost::Message;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Server, server::TcpIncoming},
};

const SEGMENTS: u64 = 1_000;
const REPLICAS: u64 = 3;
const NODES: u64 = 30;

/// Calls under way at once, and connections for them.
const CALLERS: usize = 16;
const CONNECTIONS: usize = 4;

/// How long each has the machine in turn, and how often.
const TURN: Duration = Duration::from_millis(200);
const TURNS: usize = 50;

/// Answers the same to everything.
struct Empty(RouteResponse);

#[tonic::async_trait]
impl routing_server::Routing for Empty {
    async fn route(&self, _: Request<RouteRequest>) -> Result<Response<RouteResponse>, Status> {
        Ok(Response::new(self.0.clone()))
    }
}

fn main() {
    Runtime::new().unwrap().block_on(async { tokio::spawn(measure()).await.unwrap() });
}

async fn measure() {
    let feed = Feed::start(snapshot());
    let dir = tempfile::tempdir().unwrap();
    let broker = start_broker(dir.path().join("broker"), &feed.url).await;
    let route = connect(&broker).await;
    let answer = routed(route[0].clone()).await;
    assert_eq!(answer.parts.iter().map(|part| positions(&part.segments).len() as u64).sum::<u64>(), SEGMENTS);
    let empty = connect(&start_empty(answer.encoded_len())).await;

    // Connections and memory are as they will be.
    per_second(&route).await;
    per_second(&empty).await;
    let (mut routes, mut empties) = (vec![], vec![]);
    for _ in 0..TURNS {
        routes.push(per_second(&route).await);
        empties.push(per_second(&empty).await);
    }
    for (name, mut rates) in [("over_grpc", routes), ("empty_call", empties)] {
        rates.sort_unstable_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        println!("{{\"figure\":\"{name}\",\"value\":{median},\"unit\":\"calls/s\"}}");
    }
}

/// How many calls come back in a second.
#[expect(clippy::cast_precision_loss, reason = "some thousands")]
async fn per_second(clients: &[RoutingClient<Channel>]) -> f64 {
    let began = Instant::now();
    let callers = (0..CALLERS).map(|caller| {
        let mut client = clients[caller % clients.len()].clone();
        tokio::spawn(async move {
            let mut calls = 0_u64;
            while began.elapsed() < TURN {
                client.route(request()).await.unwrap();
                calls += 1;
            }
            calls
        })
    });
    let calls: u64 = join_all(callers).await.into_iter().map(Result::unwrap).sum();
    calls as f64 / began.elapsed().as_secs_f64()
}

fn request() -> RouteRequest {
    RouteRequest { collection: "t".into(), ..RouteRequest::default() }
}

/// The first table, once the broker has heard of the collection.
async fn routed(mut client: RoutingClient<Channel>) -> RouteResponse {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        match client.route(request()).await {
            Ok(answer) => return answer.into_inner(),
            Err(status) => assert!(Instant::now() < give_up, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn connect(url: &str) -> Vec<RoutingClient<Channel>> {
    let connect = (0..CONNECTIONS).map(|_| RoutingClient::connect(url.to_owned()));
    join_all(connect).await.into_iter().map(Result::unwrap).collect()
}

async fn start_broker(data_dir: std::path::PathBuf, coordinator: &str) -> String {
    let grpc = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", grpc.local_addr().unwrap());
    let settings =
        BrokerSettings { coordinators: vec![coordinator.to_owned()], data_dir, ..BrokerSettings::default() };
    let deps = Deps { http: Some(http), grpc: Some(grpc), ..Deps::without_metrics() };
    tokio::spawn(async move { run(settings, deps, CancellationToken::new()).await.unwrap() });
    url
}

/// A server whose answers have so many bytes.
fn start_empty(bytes: usize) -> String {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap().with_nodelay(Some(true));
    let url = format!("http://{}", incoming.local_addr().unwrap());
    let with = |bytes| RouteResponse { not_connected: vec!["x".repeat(bytes)], ..RouteResponse::default() };
    let overhead = with(bytes).encoded_len() - bytes;
    let service = RoutingServer::new(Empty(with(bytes - overhead)));
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
    url
}

fn snapshot() -> Snapshot {
    let group = |at: u64| GroupNumber(i32::try_from(at).unwrap());
    let node = |at: u64| NodeEntry {
        name: format!("n{at:02}").parse().unwrap(),
        id: NodeId(at + 1),
        address: format!("http://127.0.0.1:{}", at + 1),
        incarnation: Incarnation(1),
        switched_on: true,
        enabled: true,
        lost: false,
        pool: group(at % REPLICAS),
    };
    let copy = |segment: u64, replica: u64| CopyEntry {
        node: NodeId((segment * REPLICAS + replica) % NODES + 1),
        replica: u32::try_from(replica).unwrap(),
        assigned: Some(CopyState::Online),
        observed: Some(CopyState::Online),
    };
    let segment = |at: u64| SegmentEntry {
        id: SegmentId(at + 1),
        name: format!("t-{at:05}").parse().unwrap(),
        partition: 0,
        shard: 0,
        rows: 1,
        bytes: 1,
        created_at: 1,
        promoted: true,
        statistics: Arc::default(),
        copies: (0..REPLICAS).map(|replica| copy(at, replica)).collect(),
    };
    let entry = CollectionEntry {
        name: "t".parse().unwrap(),
        id: CollectionId(1),
        version: FeedVersion(1),
        routing: RoutingOptions::default(),
        query_timeout: None,
        key: None,
        vector_indexes: Vec::new(),
        clusters: vec![],
        columns: vec![],
        partitions: vec!["default".parse().unwrap()],
        shards: vec!["shard-0".parse().unwrap()],
        load: LoadState::Serving,
        finished_groups: (0..REPLICAS).map(group).collect(),
        replicas: (0..REPLICAS).map(|at| ReplicaEntry { id: ReplicaId(at + 1), group: group(at) }).collect(),
        segments: (0..SEGMENTS).map(|at| Arc::new(segment(at))).collect(),
        leaders: vec![vec![]],
    };
    Snapshot {
        cluster: "local".parse().unwrap(),
        version: FeedVersion(1),
        nodes: (0..NODES).map(node).collect(),
        groups: (0..REPLICAS)
            .map(|at| GroupEntry { number: group(at), name: format!("g{at}").parse().unwrap() })
            .collect(),
        collections: vec![Arc::new(entry)],
        config: std::collections::BTreeMap::new(),
    }
}
