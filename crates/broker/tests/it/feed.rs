//! A coordinator's routing feed that sends what a test tells it to.

use std::{pin::Pin, time::Duration};

use futures::Stream;
use pointsman_ids::feed::Snapshot;
use pointsman_proto::broker::v1::{
    WatchRequest, WatchResponse,
    routing_feed_server::{RoutingFeed, RoutingFeedServer},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_stream::{
    StreamExt,
    wrappers::{TcpListenerStream, WatchStream},
};
use tonic::{Request, Response, Status};

/// A running feed. Ends when dropped.
pub(crate) struct Feed {
    pub(crate) url: String,
    snapshots: watch::Sender<Snapshot>,
    serving: JoinHandle<()>,
}

impl Feed {
    pub(crate) async fn start(first: Snapshot) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (snapshots, receiver) = watch::channel(first);
        let service = RoutingFeedServer::new(Service(receiver));
        let serving = tonic::transport::Server::builder().add_service(service);
        let serving = serving.serve_with_incoming(TcpListenerStream::new(listener));
        let serving = tokio::spawn(async move { serving.await.unwrap() });
        Self { url, snapshots, serving }
    }

    pub(crate) fn send(&self, snapshot: Snapshot) {
        self.snapshots.send_replace(snapshot);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Service(watch::Receiver<Snapshot>);

#[tonic::async_trait]
impl RoutingFeed for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let snapshots = WatchStream::new(self.0.clone())
            .map(|snapshot| WatchResponse { snapshot: Some((&snapshot).into()), epoch: 1 });
        let beats = tokio_stream::iter(std::iter::repeat_with(|| WatchResponse { snapshot: None, epoch: 1 }));
        let beats = beats.throttle(Duration::from_secs(1));
        Ok(Response::new(Box::pin(snapshots.merge(beats).map(Ok))))
    }
}
