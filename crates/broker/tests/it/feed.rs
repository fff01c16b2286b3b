//! A coordinator's routing feed that sends what a test tells it to.

use std::{pin::Pin, time::Duration};

use futures::Stream;
use pointsman_ids::feed::Snapshot;
use pointsman_proto::broker::v1::{
    AcknowledgeRequest, AcknowledgeResponse, WatchRequest, WatchResponse,
    routing_feed_server::{RoutingFeed, RoutingFeedServer},
};
use pointsman_testkit::free_address;
use tokio::{runtime::Runtime, sync::watch};
use tokio_stream::{StreamExt, wrappers::WatchStream};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// A running feed, on a runtime of its own so that its connections end with it. Ends when dropped.
pub(crate) struct Feed {
    pub(crate) url: String,
    snapshots: watch::Sender<Snapshot>,
    runtime: Option<Runtime>,
}

impl Feed {
    pub(crate) fn start(first: Snapshot) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let incoming = {
            let _inside = runtime.enter();
            TcpIncoming::bind(free_address().unwrap()).unwrap()
        };
        let url = format!("http://{}", incoming.local_addr().unwrap());
        let (snapshots, receiver) = watch::channel(first);
        let service = RoutingFeedServer::new(Service(receiver));
        runtime.spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        Self { url, snapshots, runtime: Some(runtime) }
    }

    pub(crate) fn send(&self, snapshot: Snapshot) {
        self.snapshots.send_replace(snapshot);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Service(watch::Receiver<Snapshot>);

#[tonic::async_trait]
impl RoutingFeed for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let word = |snapshot| WatchResponse { snapshot, epoch: 1, ..WatchResponse::default() };
        let snapshots = WatchStream::new(self.0.clone()).map(move |snapshot| word(Some((&snapshot).into())));
        let beats = tokio_stream::iter(std::iter::repeat_with(move || word(None)));
        let beats = beats.throttle(Duration::from_secs(1));
        Ok(Response::new(Box::pin(snapshots.merge(beats).map(Ok))))
    }

    async fn acknowledge(
        &self,
        _: Request<AcknowledgeRequest>,
    ) -> Result<Response<AcknowledgeResponse>, Status> {
        Ok(Response::new(AcknowledgeResponse {}))
    }
}
