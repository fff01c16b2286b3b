//! A connection that belongs to whoever opened it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use tonic::body::Body;
use tower::Service;
use url::Url;

use crate::{
    CallError,
    channel::absolute,
    connection::{Connection, Peer, Sender},
};

/// One open connection, as a gRPC service. Clones are the same connection. It is not made anew after it ended: whoever
/// keeps several looks at [`OwnConnection::is_closed`] and opens others.
#[derive(Clone)]
pub struct OwnConnection {
    peer: Arc<Peer>,
    sender: Sender,
}

impl OwnConnection {
    /// Opens it.
    pub(crate) async fn open(peer: Arc<Peer>) -> Result<Self, CallError> {
        let sender = Arc::new(Connection::new(peer.clone())).sender().await?;
        Ok(Self { peer, sender })
    }

    /// Where the calls go.
    pub fn url(&self) -> &Url {
        &self.peer.url
    }

    /// Whether it has ended: reset, closed, or a ping was not answered.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed() || self.peer.closed.is_cancelled()
    }

    /// Closes it for all clones; calls on it break off.
    pub fn close(&self) {
        self.peer.closed.cancel();
    }
}

impl Service<Request<Body>> for OwnConnection {
    type Response = Response<Body>;
    type Error = CallError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (peer, mut sender) = (self.peer.clone(), self.sender.clone());
        Box::pin(async move {
            *request.uri_mut() = absolute(&peer.url, request.uri())?;
            let sent = sender.send_request(request).await;
            sent.map(|response| response.map(Body::new)).map_err(|error| CallError::broken(&peer.url, error))
        })
    }
}

impl fmt::Debug for OwnConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnConnection").field("url", &self.peer.url.as_str()).finish_non_exhaustive()
    }
}
