//! A node that leads shards: the engine answers from real Parquet files, and a test says when it does not.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use pointsman_engine::{
    SegmentFile, SegmentStore,
    rows::{Checked, Memory, RowStore},
};
use pointsman_ids::{Error, ErrorCode, SegmentId, request::VectorIndex};
use pointsman_proto::node::v1::{
    AnswerSegmentsRequest, AnswerSegmentsResponse, AnswerShardRequest, AnswerShardResponse,
    shard_requests_server::{ShardRequests, ShardRequestsServer},
};
use pointsman_testkit::free_address;
use tokio::runtime::Runtime;
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_server::{Health, HealthServer},
};

/// A running node, on a runtime of its own, so that it can die and hang like a process.
pub(crate) struct Leader {
    pub(crate) url: String,
    pub(crate) played: Arc<Played>,
    runtime: Option<Runtime>,
    hung: Mutex<Option<mpsc::Sender<()>>>,
}

/// What it holds, and how it behaves.
#[derive(Debug)]
pub(crate) struct Played {
    id: u64,
    replica: u64,
    /// Files of the segments of each shard that it leads.
    shards: Mutex<BTreeMap<String, BTreeMap<SegmentId, PathBuf>>>,
    refusal: Mutex<Option<Status>>,
    target: AtomicU64,
    /// How long it thinks.
    pub(crate) pause: Mutex<Duration>,
    visits: AtomicU64,
    checks: AtomicU64,
    /// Header `age` of its answers to health checks, as a cache that answers for it sends it.
    pub(crate) ages: Mutex<Vec<&'static str>>,
    running: AtomicU64,
}

impl Played {
    /// How often it was asked whether it is healthy.
    pub(crate) fn checks(&self) -> u64 {
        self.checks.load(Ordering::SeqCst)
    }

    /// How often it was asked.
    pub(crate) fn visits(&self) -> u64 {
        self.visits.load(Ordering::SeqCst)
    }

    /// Calls that run.
    pub(crate) fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst)
    }

    /// Fails with this from now on; `None`: does not any more.
    pub(crate) fn refuse(&self, status: Option<Status>) {
        *self.refusal.lock().unwrap() = status;
    }

    /// Leads these shards and no others.
    pub(crate) fn lead(&self, shards: BTreeMap<String, BTreeMap<SegmentId, PathBuf>>) {
        *self.shards.lock().unwrap() = shards;
    }

    /// The target that it answers from.
    pub(crate) fn set_target(&self, version: u64) {
        self.target.store(version, Ordering::SeqCst);
    }
}

impl Leader {
    pub(crate) fn start(id: u64, replica: u64) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let incoming = {
            let _inside = runtime.enter();
            TcpIncoming::bind(free_address().unwrap()).unwrap().with_nodelay(Some(true))
        };
        let url = format!("http://{}", incoming.local_addr().unwrap());
        let played = Arc::new(Played {
            id,
            replica,
            shards: Mutex::default(),
            refusal: Mutex::default(),
            target: AtomicU64::new(7),
            pause: Mutex::default(),
            visits: AtomicU64::default(),
            checks: AtomicU64::default(),
            ages: Mutex::default(),
            running: AtomicU64::default(),
        });
        let service = ShardRequestsServer::new(Service(played.clone()));
        let health = HealthServer::new(Service(played.clone()));
        let server = Server::builder().add_service(health).add_service(service);
        runtime.spawn(server.serve_with_incoming(incoming));
        Self { url, played, runtime: Some(runtime), hung: Mutex::default() }
    }

    /// Ends it at once, with all its connections.
    pub(crate) fn kill(&mut self) {
        self.hung.lock().unwrap().take();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Stops it, with its connections open. When this returns, it answers nothing any more.
    pub(crate) fn hang(&self) {
        let (wake, wait) = mpsc::channel();
        *self.hung.lock().unwrap() = Some(wake);
        let (hangs, hung) = mpsc::channel();
        self.runtime.as_ref().unwrap().spawn(async move { hangs.send(()).is_ok() && wait.recv().is_ok() });
        hung.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.kill();
    }
}

#[derive(Debug)]
struct Files(BTreeMap<SegmentId, PathBuf>);

impl SegmentStore for Files {
    fn open(&self, segment: SegmentId) -> Option<SegmentFile> {
        let path = self.0.get(&segment)?.clone();
        let bytes = path.metadata().ok()?.len();
        Some(SegmentFile { path, bytes, hold: None })
    }
}

impl RowStore for Files {
    fn index(&self, _: SegmentId, _: &VectorIndex) -> Option<PathBuf> {
        None
    }
}

struct Service(Arc<Played>);

/// Counts a call while it runs, however it ends.
struct Running<'a>(&'a AtomicU64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service {
    async fn answered(&self, request: AnswerShardRequest) -> Result<AnswerShardResponse, Error> {
        let AnswerShardRequest { shard, node_id, table, question, target_version_at_least, .. } = request;
        let misrouted = || Error::new(ErrorCode::ChannelMisrouted, "another process leads it");
        let files = self.0.shards.lock().unwrap().get(&shard).cloned();
        let files = files.filter(|_| node_id == self.0.id).ok_or_else(misrouted)?;
        let target_version = self.0.target.load(Ordering::SeqCst);
        if target_version < target_version_at_least {
            return Err(Error::new(ErrorCode::CollectionNotFullyLoaded, "an older target"));
        }
        let checked =
            Checked::new(question.unwrap_or_default().try_into()?, &table.unwrap_or_default().try_into()?)?;
        let segments: Vec<_> = files.keys().copied().collect();
        let store: Arc<dyn RowStore> = Arc::new(Files(files));
        let (part, looked) = checked.answer(&segments, &store, &Memory::new(1 << 20)).await?;
        Ok(AnswerShardResponse {
            rows: part.encode()?.into(),
            target_version,
            replica_id: self.0.replica,
            looked: Some(looked.into()),
            response_us: 200,
            service_us: 100,
            total_nq: 1,
        })
    }
}

#[tonic::async_trait]
impl Health for Service {
    type WatchStream = tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.checks.fetch_add(1, Ordering::SeqCst);
        let mut response = Response::new(HealthCheckResponse { status: 1 });
        for age in &*self.0.ages.lock().unwrap() {
            response.metadata_mut().append("age", age.parse().unwrap());
        }
        Ok(response)
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("nobody watches"))
    }
}

#[tonic::async_trait]
impl ShardRequests for Service {
    async fn answer_shard(
        &self,
        request: Request<AnswerShardRequest>,
    ) -> Result<Response<AnswerShardResponse>, Status> {
        assert!(request.metadata().contains_key("grpc-timeout"), "the deadline travels along");
        self.0.visits.fetch_add(1, Ordering::SeqCst);
        self.0.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(&self.0.running);
        let pause = *self.0.pause.lock().unwrap();
        tokio::time::sleep(pause).await;
        if let Some(status) = self.0.refusal.lock().unwrap().clone() {
            return Err(status);
        }
        let answered = self.answered(request.into_inner()).await;
        answered.map(Response::new).map_err(|error| pointsman_proto::status(&error))
    }

    async fn answer_segments(
        &self,
        _: Request<AnswerSegmentsRequest>,
    ) -> Result<Response<AnswerSegmentsResponse>, Status> {
        Err(Status::unimplemented("not played"))
    }
}
