//! The routing feed's streams: what is new for each broker, and what brokers say that they route by.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{future::BoxFuture, stream};
use pointsman_ids::{Error, ErrorCode, FeedVersion, NodeName};
use pointsman_proto::{broker::v1 as pb, status};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, body::Body, server::NamedService};
use tower::Service;

use crate::{
    encoded::{self, Encoded},
    feed::{News, Published, Reader, epoch_of},
    server::{MAX_MESSAGE, MAX_SNAPSHOT},
    shared::Shared,
    tenure::Tenure,
};

/// The longest silence of a watch.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Answers that wait in one watch. What a slow broker misses comes as one change, made when there is room for it.
const QUEUE: usize = 1;

/// The field of an answer that holds a snapshot.
const SNAPSHOT: u32 = 1;

/// Serves the routing feed.
#[derive(Clone, Debug)]
pub(crate) struct FeedService(pub(crate) Arc<Shared>);

impl NamedService for FeedService {
    const NAME: &'static str = "pointsman.broker.v1.RoutingFeed";
}

impl Service<http::Request<Body>> for FeedService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/pointsman.broker.v1.RoutingFeed/Watch" => {
                    let asked = encoded::message(request, MAX_MESSAGE).await;
                    encoded::answer(asked.and_then(|asked| watch(&shared, asked)), MAX_SNAPSHOT)
                }
                "/pointsman.broker.v1.RoutingFeed/Acknowledge" => {
                    let said = encoded::message(request, MAX_MESSAGE).await;
                    let answer = said.and_then(|said| acknowledge(&shared, said));
                    let answer = answer.map(|answer| stream::iter([Ok(Encoded::new(&answer))]));
                    encoded::answer(answer, MAX_MESSAGE)
                }
                _ => Status::unimplemented("").into_http(),
            })
        })
    }
}

type Answer = Result<Encoded, Status>;

fn watch(shared: &Arc<Shared>, request: pb::WatchRequest) -> Result<ReceiverStream<Answer>, Status> {
    let open = || {
        let tenure = shared.active()?;
        // Brokers are named like nodes.
        NodeName::new(&request.broker).map_err(|error| error.context("a broker's name"))?;
        // A version begins with the epoch that gave it, and ours have to be above every one that a broker kept.
        let seen = request.epoch_seen.max(epoch_of(FeedVersion(request.version)));
        shared.hear_epoch(&tenure, seen, &request.broker)?;
        Ok(tenure)
    };
    let tenure = open().map_err(|error: Error| status(&error))?;
    let (answers, stream) = mpsc::channel(QUEUE);
    pointsman_telemetry::spawn("broker-watch", drive(tenure, request, answers));
    Ok(ReceiverStream::new(stream))
}

fn acknowledge(shared: &Shared, request: pb::AcknowledgeRequest) -> Result<pb::AcknowledgeResponse, Status> {
    let pb::AcknowledgeRequest { broker, watch, version } = request;
    let acknowledge = || {
        let tenure = shared.active()?;
        tenure.brokers.acknowledge(&broker, watch, FeedVersion(version), tenure.now())?;
        tenure.count_brokers();
        Ok(())
    };
    acknowledge().map_err(|error: Error| status(&error))?;
    Ok(pb::AcknowledgeResponse {})
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
        let rest = pb::WatchResponse { epoch, watch, ..Default::default() };
        let mut response = None;
        if let Some(published) = newest {
            let version = published.version;
            (response, reader) = news(published, reader, rest.clone()).await?;
            has = if response.is_some() { version } else { has };
            registered.tenure.brokers.sent(registered.number, has);
        }
        room.send(Ok(response.unwrap_or_else(|| Encoded::new(&rest))));
    }
}

/// What is new, if anything, beside the rest of the answer. A large one takes a while to make, which is not the business of
/// the threads that serve.
async fn news(
    published: Arc<Published>,
    mut reader: Option<Reader>,
    rest: pb::WatchResponse,
) -> Result<(Option<Encoded>, Option<Reader>), Error> {
    let made = tokio::task::spawn_blocking(move || {
        let news = match &mut reader {
            Some(reader) => published.news(reader)?,
            None => published.whole(false).map(News::Whole),
        };
        let answer = news.map(|news| match news {
            News::Whole(snapshot) => Encoded::around(SNAPSHOT, snapshot, &rest),
            News::Delta(delta) => Encoded::new(&pb::WatchResponse { delta: Some(*delta), ..rest }),
        });
        Ok((answer, reader))
    });
    made.await.map_err(|error| Error::new(ErrorCode::ServiceInternal, error.to_string()))?
}
