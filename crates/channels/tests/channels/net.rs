//! Servers that can be killed, and a network that can be told to misbehave.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use pointsman_channels::{ChannelSettings, Channels, Connect, Io, TcpConnect};
use pointsman_testkit::free_address;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    runtime::Runtime,
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic_health::{
    pb::{HealthCheckRequest, health_client::HealthClient},
    server::{HealthReporter, health_reporter},
};
use url::Url;

/// A server on a runtime of its own: dropping it closes all its sockets at once, like the death of a process.
pub(crate) struct Process {
    runtime: Option<Runtime>,
    pub(crate) address: SocketAddr,
    pub(crate) health: HealthReporter,
}

impl Process {
    pub(crate) async fn start() -> Self {
        Self::start_at(free_address().unwrap()).await
    }

    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let runtime = Runtime::new().unwrap();
        let (health, service) = health_reporter();
        let listen = async move {
            let listener = TcpListener::bind(address).await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = Server::builder()
                .http2_max_pending_accept_reset_streams(Some(100_000))
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener));
            tokio::spawn(server);
            address
        };
        let address = runtime.spawn(listen).await.unwrap();
        Self { runtime: Some(runtime), address, health }
    }

    pub(crate) fn url(&self) -> Url {
        format!("http://{}", self.address).parse().unwrap()
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

/// TCP that can be made to hang: new connections, or what comes in on those that stand.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(crate) hang_connects: AtomicBool,
    pub(crate) freeze: Arc<AtomicBool>,
    pub(crate) connects: AtomicUsize,
}

impl Net {
    pub(crate) fn connects(&self) -> usize {
        self.connects.load(Ordering::SeqCst)
    }
}

impl Connect for Net {
    fn connect(&self, url: &Url) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        self.connects.fetch_add(1, Ordering::SeqCst);
        if self.hang_connects.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        let (connecting, freeze) = (TcpConnect.connect(url), self.freeze.clone());
        Box::pin(async move { Ok(Box::new(Freezable { io: connecting.await?, freeze }) as Box<dyn Io>) })
    }
}

struct Freezable {
    io: Box<dyn Io>,
    freeze: Arc<AtomicBool>,
}

impl AsyncRead for Freezable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, into);
        if self.freeze.load(Ordering::SeqCst) {
            into.set_filled(before);
            return Poll::Pending;
        }
        polled
    }
}

impl AsyncWrite for Freezable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// Short deadlines, so that tests end soon.
pub(crate) const SETTINGS: ChannelSettings = ChannelSettings {
    connect_timeout: Duration::from_millis(300),
    keep_alive_time: Duration::from_millis(300),
    keep_alive_timeout: Duration::from_millis(200),
    connections: 1,
};

pub(crate) fn channels(net: &Arc<Net>) -> Channels {
    Channels::new(SETTINGS, net.clone())
}

/// One call.
pub(crate) async fn call(channels: &Channels, url: &Url) -> Result<(), tonic::Status> {
    HealthClient::new(channels.channel(url)).check(HealthCheckRequest::default()).await.map(|_| ())
}

/// A call whose answer stays open, after its first message.
pub(crate) async fn stream(
    channels: &Channels,
    url: &Url,
) -> tonic::Streaming<tonic_health::pb::HealthCheckResponse> {
    let mut client = HealthClient::new(channels.channel(url));
    let mut stream = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    stream
}
