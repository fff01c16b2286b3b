//! The routing feed's stream: whole snapshots, the newest only.

use std::{sync::Arc, time::Duration};

use pointsman_ids::{Error, ErrorCode, FeedVersion, NodeName};
use pointsman_proto::{broker::v1 as pb, status};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::{
    feed::epoch_of,
    shared::Shared,
    tenure::{Published, Tenure},
};

/// The longest silence of a watch.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Answers that wait in one watch. A slow broker skips versions, since the newest takes the place of older ones before
/// it enters.
const QUEUE: usize = 1;

/// Serves the routing feed.
#[derive(Debug)]
pub(crate) struct FeedService(pub(crate) Arc<Shared>);

type Answer = Result<pb::WatchResponse, Status>;

#[tonic::async_trait]
impl pb::routing_feed_server::RoutingFeed for FeedService {
    type WatchStream = ReceiverStream<Answer>;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let open = || {
            let tenure = self.0.active()?;
            // Brokers are named like nodes.
            NodeName::new(&request.broker).map_err(|error| error.context("a broker's name"))?;
            // A version begins with the epoch that gave it, and ours have to be above every one that a broker kept.
            let seen = request.epoch_seen.max(epoch_of(FeedVersion(request.version)));
            self.0.hear_epoch(&tenure, seen, &request.broker)?;
            Ok(tenure)
        };
        let tenure = open().map_err(|error: Error| status(&error))?;
        let (answers, stream) = mpsc::channel(QUEUE);
        pointsman_telemetry::spawn("broker-watch", drive(tenure, request, answers));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Counts a broker's watch for as long as it lives.
#[derive(Debug)]
struct Registered {
    tenure: Arc<Tenure>,
    broker: String,
}

impl Registered {
    fn new(tenure: Arc<Tenure>, broker: String) -> Self {
        tracing::info!(broker, "a broker watches the feed");
        tenure.brokers.lock().entry(broker.clone()).or_default().watches += 1;
        Self { tenure, broker }
    }

    fn sent(&self, version: FeedVersion) {
        if let Some(watch) = self.tenure.brokers.lock().get_mut(&self.broker) {
            watch.sent = watch.sent.max(version);
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        tracing::info!(broker = self.broker, "a broker's watch ended");
        let mut brokers = self.tenure.brokers.lock();
        if let Some(watch) = brokers.get_mut(&self.broker) {
            watch.watches -= 1;
            if watch.watches == 0 {
                brokers.remove(&self.broker);
            }
        }
    }
}

async fn drive(tenure: Arc<Tenure>, request: pb::WatchRequest, answers: mpsc::Sender<Answer>) {
    let registered = Registered::new(Arc::clone(&tenure), request.broker);
    let mut feed = tenure.feed.subscribe();
    feed.mark_changed();
    tokio::select! {
        () = send(&registered, &mut feed, FeedVersion(request.version), &answers) => {}
        () = answers.closed() => {}
        () = tenure.over.cancelled() => {
            let error = Error::new(ErrorCode::ServiceNotReady, "this coordinator is not active any more");
            // A broker that does not read learns it from the end of the stream.
            let _full = answers.try_send(Err(status(&error)));
        }
    }
}

/// Sends what is newer than the broker has, and a sign of life while there is nothing, until the broker is gone.
async fn send(
    registered: &Registered,
    feed: &mut watch::Receiver<Option<Arc<Published>>>,
    mut has: FeedVersion,
    answers: &mpsc::Sender<Answer>,
) {
    let epoch = registered.tenure.epoch().0;
    loop {
        let newest = match timeout(KEEP_ALIVE, feed.changed()).await {
            Ok(Ok(())) => feed.borrow_and_update().clone().filter(|published| published.version > has),
            Ok(Err(_)) => return,
            Err(_) => None,
        };
        // Room first, then the newest of that time.
        let Ok(room) = answers.reserve().await else { return };
        let newest = feed.borrow().clone().filter(|published| published.version > has).or(newest);
        if let Some(published) = &newest {
            has = published.version;
            registered.sent(has);
        }
        room.send(Ok(pb::WatchResponse {
            snapshot: newest.map(|published| published.message.clone()),
            epoch,
        }));
    }
}
