//! A coordinator that is played: a routing feed, and the shard leaders that a test wants it to tell.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::Stream;
use pointsman_ids::{
    Error, ErrorCode, FeedVersion,
    feed::{Delta, Snapshot},
};
use pointsman_proto::{
    broker::v1::{
        AcknowledgeRequest, AcknowledgeResponse, WatchRequest, WatchResponse,
        routing_feed_server::{RoutingFeed, RoutingFeedServer},
    },
    coordinator::v1::{
        self as pb, ShardLeaders,
        query_coord_server::{QueryCoord, QueryCoordServer},
    },
};
use pointsman_testkit::free_address;
use tokio::{runtime::Runtime, sync::watch};
use tokio_stream::{StreamExt, wrappers::WatchStream};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// A running coordinator, on a runtime of its own so that its connections end with it.
pub(crate) struct Coordinator {
    pub(crate) url: String,
    pub(crate) played: Arc<Played>,
    words: watch::Sender<WatchResponse>,
    runtime: Option<Runtime>,
}

/// What it says, and what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Played {
    leaders: Mutex<BTreeMap<String, ShardLeaders>>,
    refusal: Mutex<Option<Error>>,
    /// How long it thinks.
    pub(crate) pause: Mutex<Duration>,
    calls: AtomicU64,
    acknowledged: AtomicU64,
}

impl Played {
    /// Changes the leaders of a shard.
    pub(crate) fn set(&self, leaders: ShardLeaders) {
        self.leaders.lock().unwrap().insert(leaders.shard.clone(), leaders);
    }

    /// Changes what is told of a shard.
    pub(crate) fn change(&self, shard: &str, change: impl FnOnce(&mut ShardLeaders)) {
        change(self.leaders.lock().unwrap().get_mut(shard).unwrap());
    }

    /// Refuses from now on; `None`: does not any more.
    pub(crate) fn refuse(&self, error: Option<Error>) {
        *self.refusal.lock().unwrap() = error;
    }

    /// How often it was asked for leaders.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// The version that the broker acknowledged last.
    pub(crate) fn acknowledged(&self) -> FeedVersion {
        FeedVersion(self.acknowledged.load(Ordering::SeqCst))
    }

    fn told(&self) -> Result<Vec<ShardLeaders>, Status> {
        match &*self.refusal.lock().unwrap() {
            Some(error) => Err(pointsman_proto::status(error)),
            None => Ok(self.leaders.lock().unwrap().values().cloned().collect()),
        }
    }
}

impl Coordinator {
    pub(crate) fn start(snapshot: &Snapshot) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let incoming = {
            let _inside = runtime.enter();
            TcpIncoming::bind(free_address().unwrap()).unwrap()
        };
        let url = format!("http://{}", incoming.local_addr().unwrap());
        let (words, heard) = watch::channel(word(Some(snapshot)));
        let played = Arc::new(Played::default());
        let service = Service { played: played.clone(), heard };
        let server = Server::builder()
            .add_service(RoutingFeedServer::new(service.clone()))
            .add_service(QueryCoordServer::new(service));
        runtime.spawn(server.serve_with_incoming(incoming));
        Self { url, played, words, runtime: Some(runtime) }
    }

    pub(crate) fn send(&self, snapshot: &Snapshot) {
        self.words.send_replace(word(Some(snapshot)));
    }

    pub(crate) fn send_delta(&self, delta: &Delta) {
        self.words.send_replace(WatchResponse { delta: Some(delta.into()), ..word(None) });
    }

    /// Ends it at once, with all its connections.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.kill();
    }
}

fn word(snapshot: Option<&Snapshot>) -> WatchResponse {
    WatchResponse { snapshot: snapshot.map(Into::into), epoch: 1, watch: 1, ..WatchResponse::default() }
}

#[derive(Clone)]
struct Service {
    played: Arc<Played>,
    heard: watch::Receiver<WatchResponse>,
}

#[tonic::async_trait]
impl RoutingFeed for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        if let Some(error) = &*self.played.refusal.lock().unwrap()
            && error.code() == ErrorCode::ServiceNotReady
        {
            return Err(pointsman_proto::status(error));
        }
        let beats = tokio_stream::iter(std::iter::repeat_with(|| word(None)));
        let beats = beats.throttle(Duration::from_secs(1));
        Ok(Response::new(Box::pin(WatchStream::new(self.heard.clone()).merge(beats).map(Ok))))
    }

    async fn acknowledge(
        &self,
        request: Request<AcknowledgeRequest>,
    ) -> Result<Response<AcknowledgeResponse>, Status> {
        self.played.acknowledged.fetch_max(request.get_ref().version, Ordering::SeqCst);
        Ok(Response::new(AcknowledgeResponse {}))
    }
}

macro_rules! not_played {
    ($($call:ident: $request:ident => $response:ident;)*) => {
        #[tonic::async_trait]
        impl QueryCoord for Service {
            async fn get_shard_leaders(
                &self,
                request: Request<pb::GetShardLeadersRequest>,
            ) -> Result<Response<pb::GetShardLeadersResponse>, Status> {
                assert!(request.get_ref().with_unserviceable, "the loose form");
                self.played.calls.fetch_add(1, Ordering::SeqCst);
                let pause = *self.played.pause.lock().unwrap();
                tokio::time::sleep(pause).await;
                Ok(Response::new(pb::GetShardLeadersResponse { shards: self.played.told()? }))
            }

            $(async fn $call(&self, _: Request<pb::$request>) -> Result<Response<pb::$response>, Status> {
                Err(Status::unimplemented("not played"))
            })*
        }
    };
}

not_played! {
    load_collection: LoadCollectionRequest => LoadCollectionResponse;
    load_partitions: LoadPartitionsRequest => LoadPartitionsResponse;
    release_partitions: ReleasePartitionsRequest => ReleasePartitionsResponse;
    update_load_config: UpdateLoadConfigRequest => UpdateLoadConfigResponse;
    release_collection: ReleaseCollectionRequest => ReleaseCollectionResponse;
    show_load: ShowLoadRequest => ShowLoadResponse;
    show_partitions: ShowPartitionsRequest => ShowPartitionsResponse;
    get_load_percentage: GetLoadPercentageRequest => GetLoadPercentageResponse;
    get_readiness: GetReadinessRequest => GetReadinessResponse;
    check_health: CheckHealthRequest => CheckHealthResponse;
}
