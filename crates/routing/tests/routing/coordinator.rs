//! A coordinator and nodes for tests: real servers, each on a runtime of its own, so that they can be killed.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt};
use pointsman_channels::{ChannelSettings, Channels};
use pointsman_clock::{Clock, SystemClock};
use pointsman_ids::{
    Error, ErrorCode, FeedVersion,
    feed::{Delta, Snapshot},
};
use pointsman_instance_selector::{AdaptiveSettings, FailOpen};
use pointsman_proto::broker::v1::{
    AcknowledgeRequest, AcknowledgeResponse, WatchRequest, WatchResponse,
    routing_feed_server::{RoutingFeed, RoutingFeedServer},
};
use pointsman_routing::{ClusterSettings, Deps, Routing, Sample, Settings};
use tokio::{net::TcpListener, runtime::Runtime, sync::watch, time::sleep};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, service::Routes, transport::Server};
use url::Url;

/// A server that can be killed.
pub(crate) struct Process {
    runtime: Option<Runtime>,
    pub(crate) address: SocketAddr,
}

impl Process {
    async fn start(address: SocketAddr, routes: Routes) -> Self {
        let runtime = Runtime::new().unwrap();
        let listen = async move {
            let listener = TcpListener::bind(address).await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = Server::builder().add_routes(routes);
            tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
            address
        };
        let address = runtime.spawn(listen).await.unwrap();
        Self { runtime: Some(runtime), address }
    }

    /// A node that answers health checks.
    pub(crate) async fn node() -> Self {
        Self::node_at(anywhere()).await
    }

    /// A node that answers calls by `routes`.
    pub(crate) async fn node_with(routes: Routes) -> Self {
        Self::start(anywhere(), routes).await
    }

    pub(crate) async fn node_at(address: SocketAddr) -> Self {
        let (_, health) = tonic_health::server::health_reporter();
        Self::start(address, Routes::new(health)).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns when its sockets are closed.
    pub(crate) async fn kill(mut self) -> SocketAddr {
        let runtime = self.runtime.take().unwrap();
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(5))).await.unwrap();
        self.address
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

pub(crate) fn anywhere() -> SocketAddr {
    pointsman_testkit::free_address().unwrap()
}

/// What a coordinator says, and whether it does.
#[derive(Clone)]
pub(crate) struct Feed {
    said: watch::Sender<(u64, Snapshot)>,
    stands_by: Arc<AtomicBool>,
    mute: Arc<AtomicBool>,
    /// Whether it tells a broker that has a version what changed since.
    deltas: bool,
    loses_one: Arc<AtomicBool>,
    heard: Arc<Mutex<Heard>>,
}

/// What brokers said.
#[derive(Default)]
pub(crate) struct Heard {
    /// Requests for the feed, in order.
    pub(crate) watches: Vec<WatchRequest>,
    /// The newest acknowledgement of each broker.
    pub(crate) acknowledged: BTreeMap<String, u64>,
    /// How often brokers were heard.
    pub(crate) times: usize,
}

impl Feed {
    pub(crate) fn new(epoch: u64, snapshot: Snapshot) -> Self {
        let said = watch::Sender::new((epoch, snapshot));
        let (stands_by, mute, loses_one, heard) = Default::default();
        Self { said, stands_by, mute, deltas: false, loses_one, heard }
    }

    /// One that sends deltas.
    pub(crate) fn with_deltas(epoch: u64, snapshot: Snapshot) -> Self {
        Self { deltas: true, ..Self::new(epoch, snapshot) }
    }

    pub(crate) fn standing_by() -> Self {
        let feed = Self::new(0, Snapshot::empty("local".parse().unwrap()));
        feed.stands_by.store(true, Ordering::SeqCst);
        feed
    }

    pub(crate) fn say(&self, snapshot: Snapshot) {
        self.said.send_modify(|said| said.1 = snapshot);
    }

    /// The next delta does not continue what was sent before.
    pub(crate) fn lose_one(&self) {
        self.loses_one.store(true, Ordering::SeqCst);
    }

    /// Keeps the connection and says nothing any more.
    pub(crate) fn fall_silent(&self) {
        self.mute.store(true, Ordering::SeqCst);
    }

    /// How many brokers listen.
    pub(crate) fn listeners(&self) -> usize {
        self.said.receiver_count()
    }

    pub(crate) fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap()
    }

    /// What the broker routes by, as it said.
    pub(crate) fn acknowledged(&self) -> Option<u64> {
        self.heard().acknowledged.get("broker-1").copied()
    }

    pub(crate) async fn serve(&self) -> Process {
        self.serve_at(anywhere()).await
    }

    pub(crate) async fn serve_at(&self, address: SocketAddr) -> Process {
        Process::start(address, Routes::new(RoutingFeedServer::new(self.clone()))).await
    }

    async fn next(&self, said: &mut watch::Receiver<(u64, Snapshot)>, sent: &mut Snapshot) -> WatchResponse {
        loop {
            // The empty message comes more often than a real coordinator sends it, so that tests end sooner.
            tokio::select! {
                _ = said.changed() => {}
                () = sleep(Duration::from_millis(50)) => {}
            }
            if !self.mute.load(Ordering::SeqCst) {
                return self.response(&said.borrow(), sent);
            }
        }
    }

    fn response(&self, (epoch, snapshot): &(u64, Snapshot), sent: &mut Snapshot) -> WatchResponse {
        let mut response = WatchResponse { epoch: *epoch, watch: 1, ..WatchResponse::default() };
        if snapshot.version != sent.version {
            if self.deltas && sent.version > FeedVersion(0) {
                sent.version.0 += u64::from(self.loses_one.swap(false, Ordering::SeqCst));
                response.delta = Some((&Delta::between(sent, snapshot)).into());
            } else {
                response.snapshot = Some(snapshot.into());
            }
            *sent = snapshot.clone();
        }
        response
    }
}

#[tonic::async_trait]
impl RoutingFeed for Feed {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        if self.stands_by.load(Ordering::SeqCst) {
            let error = Error::new(ErrorCode::ServiceNotReady, "this coordinator stands by");
            return Err(pointsman_proto::status(&error));
        }
        let request = request.into_inner();
        let said = self.said.subscribe();
        let mut sent = said.borrow().1.clone();
        if sent.version.0 != request.version {
            sent.version = FeedVersion(0);
        }
        self.heard().watches.push(request);
        let first = self.response(&said.borrow(), &mut sent);
        let rest =
            futures::stream::unfold((self.clone(), said, sent), |(feed, mut said, mut sent)| async move {
                let next = feed.next(&mut said, &mut sent).await;
                Some((Ok(next), (feed, said, sent)))
            });
        let first = futures::stream::once(async { Ok(first) });
        Ok(Response::new(first.chain(rest).boxed()))
    }

    async fn acknowledge(
        &self,
        request: Request<AcknowledgeRequest>,
    ) -> Result<Response<AcknowledgeResponse>, Status> {
        let AcknowledgeRequest { broker, version, .. } = request.into_inner();
        let mut heard = self.heard();
        heard.acknowledged.insert(broker, version);
        heard.times += 1;
        Ok(Response::new(AcknowledgeResponse {}))
    }
}

/// A broker's routing.
pub(crate) struct Broker {
    pub(crate) routing: Routing,
    pub(crate) channels: Channels,
    shutdown: CancellationToken,
}

impl Broker {
    pub(crate) async fn start(data_dir: &Path, coordinators: &[&Process]) -> Self {
        Self::start_with(data_dir, coordinators, |_| {}).await
    }

    pub(crate) async fn start_with(
        data_dir: &Path,
        coordinators: &[&Process],
        change: impl FnOnce(&mut (Settings, Arc<dyn Clock>)),
    ) -> Self {
        let url = |process: &&Process| process.url().parse::<Url>().unwrap();
        let settings = Settings {
            broker: "broker-1".into(),
            local: ClusterSettings {
                name: "local".parse().unwrap(),
                coordinators: coordinators.iter().map(url).collect(),
            },
            remote: vec![],
            data_dir: data_dir.to_owned(),
            max_snapshot_age: Duration::from_secs(3600),
            detector: pointsman_failure_detector::Settings {
                initial_delay: Duration::from_millis(100),
                factor: 1.0,
                max_retries: -1,
                probe_timeout: Duration::from_millis(500),
                ..Default::default()
            },
            new_segment_window: Duration::from_secs(300),
            fail_open: FailOpen::default(),
            adaptive: AdaptiveSettings::default(),
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let mut changed = (settings, clock);
        change(&mut changed);
        let (settings, clock) = changed;
        let channels = Channels::tcp(ChannelSettings::default());
        let deps = Deps {
            clock,
            seed: 7,
            channels: channels.clone(),
            coordinator_channels: Channels::tcp(ChannelSettings::default()),
            leaders: None,
        };
        let shutdown = CancellationToken::new();
        let routing = Routing::start(settings, deps, shutdown.clone()).await.unwrap();
        Self { routing, channels, shutdown }
    }

    pub(crate) fn version(&self) -> u64 {
        self.routing.view().snapshot().version.0
    }

    /// A figure: the sum over all of its series whose labels have these values.
    pub(crate) fn figure(&self, name: &str, values: &[&str]) -> f64 {
        let samples = self.routing.view().samples();
        let is_wanted = |sample: &&Sample| {
            let has = |value: &&str| sample.labels.iter().any(|(_, label)| label == value);
            sample.name == name && values.iter().all(has)
        };
        samples.iter().filter(is_wanted).map(|sample| sample.value).sum()
    }

    pub(crate) fn is_routable(&self, node: &str) -> bool {
        self.routing.view().is_routable(&crate::values::key(node))
    }

    /// A clean stop.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.routing.stopped().await;
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
