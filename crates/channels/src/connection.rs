//! One connection to one node: made when needed, shared by all calls, made anew after it ended.

use std::{fmt, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::broadcast, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use url::Url;

use crate::{CallError, ChannelSettings, Connect, connect::Closable};

/// Sends calls over an open connection.
pub(crate) type Sender = SendRequest<Body>;

type Opening = Shared<BoxFuture<'static, Result<Sender, CallError>>>;

/// What all connections to one node share.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) url: Url,
    pub(crate) settings: ChannelSettings,
    pub(crate) connector: Arc<dyn Connect>,
    /// Cancelled when the node is gone or has started anew: every connection ends.
    pub(crate) closed: CancellationToken,
    /// Told when a connection ended that nobody closed.
    pub(crate) lost: broadcast::Sender<Url>,
}

/// A place for one connection.
pub(crate) struct Connection {
    peer: Arc<Peer>,
    state: Mutex<State>,
}

enum State {
    Closed,
    /// Driven by a task of its own, so that a caller who gives up leaves nothing half done to the next.
    Opening(Opening),
    Open(Sender),
}

impl Connection {
    pub(crate) fn new(peer: Arc<Peer>) -> Self {
        Self { peer, state: Mutex::new(State::Closed) }
    }

    /// The open connection, or a new one. Calls that come while it is being made wait for it together and share
    /// its failure; the next one tries anew.
    pub(crate) async fn sender(self: &Arc<Self>) -> Result<Sender, CallError> {
        let opening = match &mut *self.state.lock() {
            State::Open(sender) if !sender.is_closed() => return Ok(sender.clone()),
            State::Opening(opening) => opening.clone(),
            state => {
                let opening = self.clone().start();
                *state = State::Opening(opening.clone());
                opening
            }
        };
        opening.await
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(&*self.state.lock(), State::Open(sender) if !sender.is_closed())
    }

    fn start(self: Arc<Self>) -> Opening {
        let runtime = self.peer.connector.driver().unwrap_or_else(Handle::current);
        let task = runtime.spawn(async move {
            let opened = self.open().await;
            // The lock is free only after the caller has noted the opening, so this comes after it.
            *self.state.lock() = match &opened {
                Ok(sender) => State::Open(sender.clone()),
                Err(_) => State::Closed,
            };
            opened
        });
        let outcome = async { task.await.unwrap_or_else(|_| Err(CallError::closed())) };
        outcome.boxed().shared()
    }

    async fn open(&self) -> Result<Sender, CallError> {
        let peer = &self.peer;
        if peer.closed.is_cancelled() {
            return Err(CallError::closed());
        }
        let limit = peer.settings.connect_timeout;
        let io = match timeout(limit, peer.connector.connect(&peer.url)).await {
            Ok(connected) => connected.map_err(|error| CallError::connect(&peer.url, error))?,
            Err(_) => return Err(CallError::connect_deadline(&peer.url, limit)),
        };
        let io = TokioIo::new(Closable::new(io, peer.closed.clone()));
        let (sender, connection) = builder(&peer.settings)
            .handshake(io)
            .await
            .map_err(|error| CallError::connect(&peer.url, error))?;
        let peer = peer.clone();
        tokio::spawn(async move {
            let ended = connection.await;
            if !peer.closed.is_cancelled() {
                tracing::debug!(url = %peer.url, ?ended, "connection ended");
                // Nobody may be listening.
                let _ = peer.lost.send(peer.url.clone());
            }
        });
        Ok(sender)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("url", &self.peer.url.as_str()).finish_non_exhaustive()
    }
}

fn builder(settings: &ChannelSettings) -> http2::Builder<TokioExecutor> {
    /// Calls that are cancelled in a burst must not be taken for an attack on ourselves.
    const NO_LIMIT: Option<usize> = None;
    /// A cancelled call is remembered so long, for frames that were under way.
    const REMEMBER_RESETS: Duration = Duration::from_secs(1);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(settings.keep_alive_time)
        .keep_alive_timeout(settings.keep_alive_timeout)
        .keep_alive_while_idle(true)
        .max_local_error_reset_streams(NO_LIMIT)
        .reset_stream_duration(REMEMBER_RESETS);
    builder
}
