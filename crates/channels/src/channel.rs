//! A node's address as a gRPC service.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response, Uri, uri};
use hyper_util::rt::TokioIo;
use tonic::{body::Body, transport::Endpoint};
use tower::{Service, service_fn, util::BoxCloneSyncService};
use url::Url;

use crate::{
    CallError,
    connection::{Connection, Peer},
};

/// A channel of the type that tonic's own channel can be boxed to as well.
pub type BoxedChannel = BoxCloneSyncService<Request<Body>, Response<Body>, tonic::transport::Error>;

/// Calls to one node. Cheap to clone; never waits to be ready. A deadline is the caller's.
#[derive(Clone)]
pub struct Channel {
    node: Arc<Node>,
}

/// The connections to one node.
pub(crate) struct Node {
    pub(crate) peer: Arc<Peer>,
    connections: Box<[Arc<Connection>]>,
    turn: AtomicUsize,
}

impl Node {
    pub(crate) fn new(peer: Peer) -> Self {
        let peer = Arc::new(peer);
        let connection = |_| Arc::new(Connection::new(peer.clone()));
        let connections = (0..peer.settings.connections.max(1)).map(connection).collect();
        Self { peer, connections, turn: AtomicUsize::new(0) }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.connections.iter().any(|connection| connection.is_open())
    }

    fn next(&self) -> &Arc<Connection> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.connections[turn % self.connections.len()]
    }

    async fn call(&self, mut request: Request<Body>) -> Result<Response<Body>, CallError> {
        *request.uri_mut() = absolute(&self.peer.url, request.uri())?;
        let connection = self.next();
        let mut fresh = false;
        loop {
            let mut sender = connection.sender().await?;
            let mut failed = match sender.try_send_request(request).await {
                Ok(response) => return Ok(response.map(Body::new)),
                Err(failed) => failed,
            };
            match failed.take_message() {
                // The connection ended before anything of the call went out: once more, on a fresh one.
                Some(unsent) if !fresh && sender.is_closed() => (request, fresh) = (unsent, true),
                _ => return Err(CallError::broken(&self.peer.url, failed.into_error())),
            }
        }
    }
}

/// The request's path at the node's address.
pub(crate) fn absolute(url: &Url, path: &Uri) -> Result<Uri, CallError> {
    let authority = url.authority();
    uri::Builder::new()
        .scheme(url.scheme())
        .authority(authority)
        .path_and_query(path.path_and_query().map_or("/", uri::PathAndQuery::as_str))
        .build()
        .map_err(|error| CallError::connect(url, error))
}

impl Channel {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// Where the calls go.
    pub fn url(&self) -> &Url {
        &self.node.peer.url
    }

    /// The same channel as a boxed service whose error is tonic's transport error; [`crate::failure`] reads that
    /// as well.
    pub fn boxed(self) -> BoxedChannel {
        let call = move |request| {
            let node = self.node.clone();
            async move {
                match node.call(request).await {
                    Ok(response) => Ok(response),
                    Err(error) => Err(transport_error(error).await),
                }
            }
        };
        BoxCloneSyncService::new(service_fn(call))
    }
}

/// Only tonic makes its transport error: an endpoint that cannot connect for `error` yields one that carries it.
async fn transport_error(error: CallError) -> tonic::transport::Error {
    let connector = service_fn(move |_: Uri| {
        std::future::ready(Err::<TokioIo<tokio::io::DuplexStream>, _>(error.clone()))
    });
    match Endpoint::from_static("http://node").connect_with_connector(connector).await {
        Err(error) => error,
        Ok(_) => unreachable!("a connector that only fails does not connect"),
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = CallError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let node = self.node.clone();
        Box::pin(async move { node.call(request).await })
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("url", &self.url().as_str()).finish_non_exhaustive()
    }
}
