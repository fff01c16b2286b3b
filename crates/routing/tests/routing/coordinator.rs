//! A coordinator and nodes for tests: real servers, each on a runtime of its own, so that they can be killed.

use std::{
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt};
use pointsman_channels::{ChannelSettings, Channels};
use pointsman_clock::{Clock, SystemClock};
use pointsman_ids::{Error, ErrorCode, feed::Snapshot};
use pointsman_proto::broker::v1::{
    WatchRequest, WatchResponse,
    routing_feed_server::{RoutingFeed, RoutingFeedServer},
};
use pointsman_routing::{Deps, Routing, Settings};
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
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// What a coordinator says, and whether it does.
#[derive(Clone)]
pub(crate) struct Feed {
    said: watch::Sender<(u64, Snapshot)>,
    stands_by: Arc<AtomicBool>,
    mute: Arc<AtomicBool>,
}

impl Feed {
    pub(crate) fn new(epoch: u64, snapshot: Snapshot) -> Self {
        let (stands_by, mute) = Default::default();
        Self { said: watch::Sender::new((epoch, snapshot)), stands_by, mute }
    }

    pub(crate) fn standing_by() -> Self {
        let feed = Self::new(0, Snapshot::empty("local".parse().unwrap()));
        feed.stands_by.store(true, Ordering::SeqCst);
        feed
    }

    pub(crate) fn say(&self, snapshot: Snapshot) {
        self.said.send_modify(|said| said.1 = snapshot);
    }

    /// Keeps the connection and says nothing any more.
    pub(crate) fn fall_silent(&self) {
        self.mute.store(true, Ordering::SeqCst);
    }

    /// How many brokers listen.
    pub(crate) fn listeners(&self) -> usize {
        self.said.receiver_count()
    }

    pub(crate) async fn serve(&self) -> Process {
        self.serve_at(anywhere()).await
    }

    pub(crate) async fn serve_at(&self, address: SocketAddr) -> Process {
        Process::start(address, Routes::new(RoutingFeedServer::new(self.clone()))).await
    }

    async fn next(&self, said: &mut watch::Receiver<(u64, Snapshot)>, sent: &mut u64) -> WatchResponse {
        loop {
            // The empty message comes more often than a real coordinator sends it, so that tests end sooner.
            tokio::select! {
                _ = said.changed() => {}
                () = sleep(Duration::from_millis(50)) => {}
            }
            if !self.mute.load(Ordering::SeqCst) {
                return response(&said.borrow(), sent);
            }
        }
    }
}

fn response((epoch, snapshot): &(u64, Snapshot), sent: &mut u64) -> WatchResponse {
    let news = snapshot.version.0 != *sent;
    *sent = snapshot.version.0;
    WatchResponse { snapshot: news.then(|| snapshot.into()), epoch: *epoch }
}

#[tonic::async_trait]
impl RoutingFeed for Feed {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        if self.stands_by.load(Ordering::SeqCst) {
            let error = Error::new(ErrorCode::ServiceNotReady, "this coordinator stands by");
            return Err(pointsman_proto::status(&error));
        }
        let said = self.said.subscribe();
        let mut sent = request.into_inner().version;
        let first = response(&said.borrow(), &mut sent);
        let rest =
            futures::stream::unfold((self.clone(), said, sent), |(feed, mut said, mut sent)| async move {
                let next = feed.next(&mut said, &mut sent).await;
                Some((Ok(next), (feed, said, sent)))
            });
        let first = futures::stream::once(async { Ok(first) });
        Ok(Response::new(first.chain(rest).boxed()))
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
            cluster: "local".parse().unwrap(),
            coordinators: coordinators.iter().map(url).collect(),
            data_dir: data_dir.to_owned(),
            max_snapshot_age: Duration::from_secs(3600),
            detector: pointsman_failure_detector::Settings {
                initial_delay: Duration::from_millis(100),
                factor: 1.0,
                max_retries: -1,
                ..Default::default()
            },
            probe_timeout: Duration::from_millis(500),
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
        };
        let shutdown = CancellationToken::new();
        let routing = Routing::start(settings, deps, shutdown.clone()).await.unwrap();
        Self { routing, channels, shutdown }
    }

    pub(crate) fn version(&self) -> u64 {
        self.routing.view().snapshot().version.0
    }

    pub(crate) fn is_routable(&self, node: &str) -> bool {
        self.routing.view().is_routable(&crate::values::name(node))
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
