//! What the client costs on top of the wire: a request on 16 shards with a ready cache, against calling the same 16 gRPC
//! services directly, all at once, over the same connections. Both take turns in one run. And what a cold cache costs the
//! coordinator when many ask at once.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot be set up has failed; it prints figures"
)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use pointsman_channels::{ChannelSettings, Channels, OwnConnection};
use pointsman_ids::{CollectionId, NodeId};
use pointsman_proto::{
    common::v1::{Question, Search, Vector, question::Kind},
    node::v1::{
        AnswerSegmentsRequest, AnswerSegmentsResponse, AnswerShardRequest, AnswerShardResponse,
        shard_requests_client::ShardRequestsClient,
        shard_requests_server::{ShardRequests, ShardRequestsServer},
    },
};
use pointsman_shard_client::{
    CollectionWorkload, Connect, Coordinator, Cost, Parts, Reply, Request, Result, Settings, ShardClient,
    ShardError, ShardListing, Visit,
};
use tonic::{
    Response, Status,
    transport::{Server, server::TcpIncoming},
};

const SHARDS: u64 = 16;
const LEADERS: u64 = 3;
const DOCS: CollectionId = CollectionId(31);
const TIME: Duration = Duration::from_secs(10);

/// Requests one after the other, for latencies.
const ROUNDS: usize = 6000;
/// Requests at once, for throughput, and for how long at a time.
const AT_ONCE: usize = 16;
const STRETCH: Duration = Duration::from_secs(2);
const STRETCHES: usize = 5;

/// A node that answers at once with what ten rows take.
struct Node;

#[tonic::async_trait]
impl ShardRequests for Node {
    async fn answer_shard(
        &self,
        _: tonic::Request<AnswerShardRequest>,
    ) -> std::result::Result<Response<AnswerShardResponse>, Status> {
        let answer = AnswerShardResponse {
            rows: vec![7; 1024],
            target_version: 1,
            response_us: 50,
            service_us: 40,
            ..AnswerShardResponse::default()
        };
        Ok(Response::new(answer))
    }

    async fn answer_segments(
        &self,
        _: tonic::Request<AnswerSegmentsRequest>,
    ) -> std::result::Result<Response<AnswerSegmentsResponse>, Status> {
        Err(Status::unimplemented("not asked here"))
    }
}

#[derive(Debug)]
struct Cluster {
    addresses: Vec<String>,
    channels: Channels,
    calls: AtomicU64,
    opened: Mutex<BTreeMap<NodeId, Vec<OwnConnection>>>,
}

impl Cluster {
    /// As many nodes as shards, on threads of their own.
    fn start(servers: &tokio::runtime::Runtime) -> Arc<Self> {
        let start = |_| {
            let _inside = servers.enter();
            let incoming =
                TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap().with_nodelay(Some(true));
            let address = format!("http://{}", incoming.local_addr().unwrap());
            let server = Server::builder().add_service(ShardRequestsServer::new(Node));
            servers.spawn(server.serve_with_incoming(incoming));
            address
        };
        Arc::new(Self {
            addresses: (0..SHARDS).map(start).collect(),
            channels: Channels::tcp(ChannelSettings::default()),
            calls: AtomicU64::default(),
            opened: Mutex::default(),
        })
    }

    fn address(&self, node: u64) -> String {
        self.addresses[usize::try_from(node).unwrap()].clone()
    }
}

impl Coordinator for Cluster {
    fn shard_leaders(&self, _: CollectionId) -> BoxFuture<'_, Result<Vec<ShardListing>>> {
        self.calls.fetch_add(1, Relaxed);
        let listing = |shard: u64| {
            let nodes = (0..LEADERS).map(|leader| (shard + leader * 5) % SHARDS);
            ShardListing {
                shard: format!("docs-{shard:02}"),
                node_ids: nodes.clone().collect(),
                node_addrs: nodes.clone().map(|node| self.address(node)).collect(),
                serviceable: nodes.clone().map(|_| true).collect(),
                resource_groups: nodes.map(|_| "east".to_owned()).collect(),
            }
        };
        let listings = (0..SHARDS).map(listing).collect();
        async move {
            // As a call takes; meanwhile others ask.
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(listings)
        }
        .boxed()
    }
}

impl Connect for Cluster {
    type Connection = OwnConnection;

    fn connect(&self, _: NodeId, address: Arc<str>) -> BoxFuture<'static, Result<OwnConnection>> {
        let (channels, url) = (self.channels.clone(), address.parse().unwrap());
        async move { channels.open(&url).await.map_err(ShardError::foreign) }.boxed()
    }

    fn is_closed(&self, connection: &OwnConnection) -> bool {
        connection.is_closed()
    }

    fn check(&self, _: OwnConnection) -> BoxFuture<'static, Result<bool>> {
        futures::future::ready(Ok(true)).boxed()
    }
}

/// The call itself: the same for both.
struct Ask {
    question: Question,
    cluster: Arc<Cluster>,
}

impl Ask {
    fn new(cluster: Arc<Cluster>) -> Self {
        let vectors = vec![Vector { values: vec![0.5; 128] }];
        let search = Search { vectors, k: 10, ..Search::default() };
        Self { question: Question { kind: Some(Kind::Search(search)) }, cluster }
    }

    async fn ask(
        &self,
        connection: OwnConnection,
        shard: String,
        node: NodeId,
    ) -> Result<AnswerShardResponse> {
        let mut request = tonic::Request::new(AnswerShardRequest {
            collection_id: DOCS.0,
            shard,
            node_id: node.0,
            question: Some(self.question.clone()),
            ..AnswerShardRequest::default()
        });
        request.set_timeout(TIME);
        let mut client = ShardRequestsClient::new(connection);
        client.answer_shard(request).await.map(Response::into_inner).map_err(ShardError::foreign)
    }
}

impl Request<OwnConnection> for Ask {
    type Answer = AnswerShardResponse;

    fn run<'a>(
        &'a self,
        connection: OwnConnection,
        visit: &'a Visit,
    ) -> BoxFuture<'a, Result<Reply<AnswerShardResponse>>> {
        async move {
            // The first visits tell which connections there are.
            if let Ok(mut opened) = self.cluster.opened.try_lock() {
                let of_node = opened.entry(visit.node).or_default();
                if of_node.len() < 10 {
                    of_node.push(connection.clone());
                }
            }
            let answer = self.ask(connection, visit.shard.to_string(), visit.node).await?;
            let cost = Cost {
                response_time: Duration::from_micros(answer.response_us),
                service_time: Duration::from_micros(answer.service_us),
                total_nq: 0,
            };
            Ok(Reply { answer, cost: Some(cost) })
        }
        .boxed()
    }
}

/// Calls the 16 services, all at once.
struct Direct {
    ask: Ask,
    connections: Vec<Vec<OwnConnection>>,
    turn: AtomicUsize,
}

impl Direct {
    async fn execute(&self) -> Vec<AnswerShardResponse> {
        let turn = self.turn.fetch_add(1, Relaxed);
        let call = |(at, connections): (usize, &Vec<OwnConnection>)| {
            let connection = connections[turn % connections.len()].clone();
            self.ask.ask(connection, format!("docs-{at:02}"), NodeId(at as u64))
        };
        let mut calls: FuturesUnordered<_> = self.connections.iter().enumerate().map(call).collect();
        let mut answers = Vec::with_capacity(self.connections.len());
        while let Some(answer) = calls.next().await {
            answers.push(answer.unwrap());
        }
        answers
    }
}

struct Client {
    client: ShardClient<Cluster>,
    workload: CollectionWorkload<Ask>,
}

impl Client {
    fn new(cluster: &Arc<Cluster>) -> Self {
        let settings = Settings::default();
        let parts = Parts::new(&settings, cluster.clone(), cluster.clone());
        let workload = CollectionWorkload {
            database: "default".into(),
            name: "docs".into(),
            collection: DOCS,
            nq: 1,
            request: Arc::new(Ask::new(cluster.clone())),
            resource_group: "".into(),
            preferred: None,
            preferred_group: "".into(),
        };
        Self { client: ShardClient::new(settings, parts), workload }
    }

    async fn execute(&self) {
        let deadline = self.client.now() + TIME;
        let answers = self.client.execute(&self.workload, Some(deadline)).await.unwrap();
        assert_eq!(answers.len() as u64, SHARDS);
    }
}

fn figure(name: &str, value: f64, unit: &str) {
    println!("{{\"figure\":\"{name}\",\"value\":{value},\"unit\":\"{unit}\"}}");
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
async fn per_second<F: Future<Output = ()>>(request: impl Fn() -> F) -> f64 {
    let began = Instant::now();
    let loops = (0..AT_ONCE).map(async |_| {
        let mut count = 0_u64;
        while began.elapsed() < STRETCH {
            request().await;
            count += 1;
        }
        count
    });
    let count: u64 = join_all(loops).await.into_iter().sum();
    count as f64 / began.elapsed().as_secs_f64()
}

async fn measure(cluster: Arc<Cluster>) {
    let client = Client::new(&cluster);
    let cold = (0..1000).map(|_| client.execute());
    join_all(cold).await;
    figure("cold_cache.calls", cluster.calls.load(Relaxed) as f64, "calls");

    for _ in 0..2000 {
        client.execute().await;
    }
    let connections: Vec<_> = cluster.opened.lock().unwrap().values().cloned().collect();
    assert_eq!(connections.len() as u64, SHARDS);
    let direct = Direct { ask: Ask::new(cluster.clone()), connections, turn: AtomicUsize::new(0) };
    let (mut own, mut floor) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let began = Instant::now();
            if (round + turn) % 2 == 0 {
                client.execute().await;
                own.push(began.elapsed());
            } else {
                assert_eq!(direct.execute().await.len() as u64, SHARDS);
                floor.push(began.elapsed());
            }
        }
    }
    for (name, mut times) in [("execute", own), ("direct", floor)] {
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
        figure(&format!("{name}.p50"), at(50), "us");
        figure(&format!("{name}.p99"), at(99), "us");
    }
    let (mut own, mut floor) = (vec![], vec![]);
    for _ in 0..STRETCHES {
        own.push(per_second(|| client.execute()).await);
        floor.push(per_second(|| async { drop(direct.execute().await) }).await);
    }
    for (name, mut rates) in [("execute", own), ("direct", floor)] {
        rates.sort_unstable_by(f64::total_cmp);
        figure(&format!("{name}.throughput"), rates[rates.len() / 2], "requests/s");
    }
}

fn main() {
    let threads =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (servers, clients) = (threads(), threads());
    let cluster = Cluster::start(&servers);
    clients.block_on(async move { tokio::spawn(measure(cluster)).await.unwrap() });
}
