//! The routing feed's streams: what is new for each broker, and what brokers say that they route by.

use std::{sync::Arc, time::Duration};

use pointsman_ids::{Error, ErrorCode, FeedVersion, NodeName};
use pointsman_proto::{broker::v1 as pb, status};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::{
    feed::{News, Published, Reader, epoch_of},
    shared::Shared,
    tenure::Tenure,
};

/// The longest silence of a watch.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Answers that wait in one watch. What a slow broker misses comes as one change, made when there is room for it.
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

    async fn acknowledge(
        &self,
        request: Request<pb::AcknowledgeRequest>,
    ) -> Result<Response<pb::AcknowledgeResponse>, Status> {
        let pb::AcknowledgeRequest { broker, watch, version } = request.into_inner();
        let acknowledge = || {
            let tenure = self.0.active()?;
            tenure.brokers.acknowledge(&broker, watch, FeedVersion(version), tenure.now())?;
            tenure.count_brokers();
            Ok(())
        };
        acknowledge().map_err(|error: Error| status(&error))?;
        Ok(Response::new(pb::AcknowledgeResponse {}))
    }
}

/// Counts a broker's watch for as long as it lives.
#[derive(Debug)]
struct Registered {
    tenure: Arc<Tenure>,
    broker: String,
    number: u64,
    acknowledges: bool,
}

impl Registered {
    fn new(tenure: Arc<Tenure>, broker: String, acknowledges: bool) -> Self {
        tracing::info!(broker, "a broker watches the feed");
        let number = tenure.brokers.open(&broker, acknowledges, tenure.now());
        tenure.count_brokers();
        Self { tenure, broker, number, acknowledges }
    }

    /// Returns when the broker was not heard for the time of its lease.
    async fn lease_over(&self) {
        while let Some(heard) = self.tenure.brokers.heard(self.number) {
            let lease = self.tenure.settings().broker_lease_ttl;
            let silent = self.tenure.now() - heard;
            if silent >= lease {
                tracing::warn!(broker = self.broker, ?silent, "a broker does not say that it lives");
                return;
            }
            sleep(lease - silent).await;
        }
        std::future::pending().await
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        tracing::info!(broker = self.broker, "a broker's watch ended");
        self.tenure.brokers.close(self.number);
        self.tenure.count_brokers();
    }
}

async fn drive(tenure: Arc<Tenure>, request: pb::WatchRequest, answers: mpsc::Sender<Answer>) {
    let has = FeedVersion(request.version);
    let reader = request.holding.map(|holding| Reader::new(has, holding, request.reads_columns));
    let registered = Registered::new(Arc::clone(&tenure), request.broker, reader.is_some());
    let feed = tenure.feed.subscribe();
    let over = |text: &str| Err(Error::new(ErrorCode::ServiceNotReady, text));
    let ended = tokio::select! {
        ended = send(&registered, feed, has, reader, &answers) => ended,
        () = answers.closed() => Ok(()),
        () = registered.lease_over() => over("the broker was not heard for coordinator.broker_lease_ttl"),
        why = tenure.sends_away() => Err(why),
        () = tenure.over.cancelled() => over("this coordinator is not active any more"),
    };
    if let Err(error) = ended {
        // A broker that does not read learns it from the end of the stream.
        let _full = answers.try_send(Err(status(&error)));
    }
}

/// Sends what is newer than the broker has, and a sign of life while there is nothing, until the broker is gone.
async fn send(
    registered: &Registered,
    mut feed: watch::Receiver<Option<Arc<Published>>>,
    mut has: FeedVersion,
    mut reader: Option<Reader>,
    answers: &mpsc::Sender<Answer>,
) -> Result<(), Error> {
    let watch = if registered.acknowledges { registered.number } else { 0 };
    feed.mark_changed();
    loop {
        if let Ok(Err(_)) = timeout(KEEP_ALIVE, feed.changed()).await {
            return Ok(());
        }
        // Room first, then the newest of that time.
        let Ok(room) = answers.reserve().await else { return Ok(()) };
        let newest = feed.borrow_and_update().clone().filter(|published| published.version > has);
        let epoch = registered.tenure.epoch().0;
        let mut response = pb::WatchResponse { epoch, watch, ..Default::default() };
        if let Some(published) = newest {
            let version = published.version;
            let (news, after) = news(published, reader).await?;
            reader = after;
            has = if news.is_some() { version } else { has };
            match news {
                Some(News::Whole(snapshot)) => response.snapshot = Some(snapshot),
                Some(News::Delta(delta)) => response.delta = Some(delta),
                None => {}
            }
            registered.tenure.brokers.sent(registered.number, has);
        }
        room.send(Ok(response));
    }
}

/// A large answer takes a while to make, which is not the business of the threads that serve.
async fn news(
    published: Arc<Published>,
    mut reader: Option<Reader>,
) -> Result<(Option<News>, Option<Reader>), Error> {
    let made = tokio::task::spawn_blocking(move || {
        let news = match &mut reader {
            Some(reader) => published.news(reader)?,
            None => published.whole(false).map(News::Whole),
        };
        Ok((news, reader))
    });
    made.await.map_err(|error| Error::new(ErrorCode::ServiceInternal, error.to_string()))?
}
