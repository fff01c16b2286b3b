//! The client of one cluster's routing feed: finds the active coordinator and stays with it.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use pointsman_channels::{Channel, Channels};
use pointsman_ids::{
    Epoch, Error, ErrorCode, FeedVersion,
    feed::{Delta, LeaderDrops, Snapshot},
};
use pointsman_proto::broker::v1::{
    Holding, WatchRequest, WatchResponse, routing_feed_client::RoutingFeedClient,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep, timeout},
};
use tonic::Streaming;
use url::Url;

use crate::{RoutingView, acknowledge::acknowledge, holding::Digests, pace::Pace};

/// The coordinator sends something about once per second; a watch that is silent for so long is dead.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(5);

/// The first news may be everything, which takes a while to come over a slow network.
const FIRST_NEWS_WITHIN: Duration = Duration::from_secs(60);

/// The largest message that is taken.
const MAX_MESSAGE: usize = 1 << 30;

/// What a watch has to say, and whose it is.
#[derive(Debug)]
pub(crate) struct Word {
    /// Place of the cluster.
    pub(crate) cluster: usize,
    pub(crate) said: Said,
}

#[derive(Debug)]
pub(crate) enum Said {
    /// The coordinator of this epoch is there and has no news.
    Heard(Epoch),
    /// It has news. Whether they were taken is answered once the views that hold them are published.
    News(Epoch, News, oneshot::Sender<Result<FeedVersion, Error>>),
    /// The watch has ended.
    Away,
}

#[derive(Debug)]
pub(crate) enum News {
    Whole(Box<Snapshot>),
    Delta(Box<Delta>),
}

impl News {
    /// Whose shard leaders may be others by now.
    pub(crate) fn leader_drops(&self) -> LeaderDrops {
        match self {
            Self::Whole(_) => LeaderDrops::All,
            Self::Delta(delta) => delta.leader_drops.clone(),
        }
    }
}

/// Watches until nobody listens any more.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) cluster: usize,
    pub(crate) broker: String,
    pub(crate) coordinators: Vec<Url>,
    pub(crate) channels: Channels,
    pub(crate) view: Arc<ArcSwap<RoutingView>>,
    /// The highest epoch that was seen.
    pub(crate) epoch: Epoch,
    pub(crate) words: mpsc::Sender<Word>,
    pub(crate) random: StdRng,
    pub(crate) digests: Digests,
    /// What came last did not fit what is held: everything is asked for anew.
    pub(crate) start_anew: bool,
}

/// Why a watch ended.
#[derive(Debug)]
enum Ended {
    /// Nobody listens any more.
    Unheard,
    /// It was told, or could not begin.
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Watch {
    pub(crate) fn random(seed: u64) -> StdRng {
        StdRng::seed_from_u64(seed)
    }

    pub(crate) async fn run(mut self) {
        let cluster = self.view.load().clusters[self.cluster].name.clone();
        let mut pace = Pace::default();
        loop {
            let mut last = None;
            for at in 0..self.coordinators.len() {
                let url = self.coordinators[at].clone();
                let (mut lived, began) = (false, Instant::now());
                let Ended::Failed(error) = self.follow(&url, &mut lived).await else { return };
                if !lived {
                    tracing::debug!(%cluster, %url, %error, "coordinator cannot be watched");
                    last = Some(error);
                    continue;
                }
                if pace.ended(at, began.elapsed(), self.start_anew, error.message()) {
                    tracing::warn!(%cluster, %url, %error, "watch of the coordinator ended");
                } else {
                    tracing::debug!(%cluster, %url, %error, "watch of the coordinator ended again");
                }
                if self.say(Said::Away).await.is_err() {
                    return;
                }
                self.pause(pace.wait()).await;
            }
            self.pause(pace.wait()).await;
            if pace.alone(self.start_anew)
                && let Some(error) = last
            {
                tracing::warn!(%cluster, %error, "no coordinator can be watched; it is tried on");
            }
        }
    }

    /// Brokers that lost one coordinator together do not come back together.
    async fn pause(&mut self, wait: Duration) {
        sleep(wait.mul_f64(self.random.random_range(0.5..1.5))).await;
    }

    async fn say(&self, said: Said) -> Result<(), Ended> {
        let word = Word { cluster: self.cluster, said };
        self.words.send(word).await.map_err(|_| Ended::Unheard)
    }

    /// Follows one coordinator; `lived` becomes true once it has said something lawful.
    async fn follow(&mut self, url: &Url, lived: &mut bool) -> Ended {
        let client =
            RoutingFeedClient::new(self.channels.channel(url)).max_decoding_message_size(MAX_MESSAGE);
        let (applied, acknowledged) = watch::channel((0, FeedVersion(0)));
        let broker = self.broker.clone();
        let ended = async {
            let (stream, has) = self.open(client.clone()).await?;
            self.listen(stream, has, &applied, lived).await
        };
        let ended: Result<(), Ended> = tokio::select! {
            ended = ended => ended,
            error = acknowledge(client.clone(), broker, acknowledged) => Err(error.into()),
        };
        ended.err().unwrap_or(Ended::Unheard)
    }

    async fn open(
        &mut self,
        mut client: RoutingFeedClient<Channel>,
    ) -> Result<(Streaming<WatchResponse>, FeedVersion), Ended> {
        let (has, holding) = self.holding().await?;
        let request = WatchRequest {
            broker: self.broker.clone(),
            version: has.0,
            epoch_seen: self.epoch.0,
            holding: Some(holding),
            reads_columns: true,
        };
        match timeout(STALLED_AFTER, client.watch(request)).await {
            Ok(Ok(response)) => Ok((response.into_inner(), has)),
            Ok(Err(status)) => Err(pointsman_proto::error(&status).into()),
            Err(_) => Err(away(format!("no answer within {STALLED_AFTER:?}")).into()),
        }
    }

    /// The version that is held, and what of it.
    async fn holding(&mut self) -> Result<(FeedVersion, Holding), Error> {
        let view = self.view.load_full();
        let held = view.clusters().nth(self.cluster).and_then(|(_, snapshot)| snapshot.cloned());
        let Some(snapshot) = held.filter(|_| !self.start_anew) else {
            return Ok((FeedVersion(0), Holding::default()));
        };
        let version = snapshot.version;
        let mut digests = std::mem::take(&mut self.digests);
        let made = aside(move || {
            let holding = digests.holding(&snapshot);
            (holding, digests)
        });
        let (holding, digests) = made.await?;
        self.digests = digests;
        Ok((version, holding))
    }

    async fn listen(
        &mut self,
        mut stream: Streaming<WatchResponse>,
        mut has: FeedVersion,
        applied: &watch::Sender<(u64, FeedVersion)>,
        lived: &mut bool,
    ) -> Result<(), Ended> {
        let mut patience = FIRST_NEWS_WITHIN;
        loop {
            let message = match timeout(patience, stream.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return Err(away("the coordinator ended the watch").into()),
                Ok(Err(status)) => return Err(pointsman_proto::error(&status).into()),
                Err(_) => return Err(away(format!("no word for {patience:?}")).into()),
            };
            let watch = message.watch;
            let news = self.read(message).await?;
            *lived = true;
            match news {
                None => self.say(Said::Heard(self.epoch)).await?,
                Some(news) => {
                    patience = STALLED_AFTER;
                    has = self.tell(news).await?;
                }
            }
            applied.send_if_modified(|before| std::mem::replace(before, (watch, has)) != (watch, has));
        }
    }

    /// Hands news on, and gives the version that is routed by then.
    async fn tell(&mut self, news: News) -> Result<FeedVersion, Ended> {
        let (answer, taken) = oneshot::channel();
        self.say(Said::News(self.epoch, news, answer)).await?;
        let taken = taken.await.map_err(|_| Ended::Unheard)?;
        self.start_anew = taken.is_err();
        Ok(taken?)
    }

    /// A coordinator with a lower epoch has been replaced, and may not know it yet.
    async fn read(&mut self, message: WatchResponse) -> Result<Option<News>, Error> {
        let epoch = Epoch(message.epoch);
        if epoch < self.epoch {
            let message = format!(
                "the coordinator's epoch {epoch} is older than {}, which was seen before",
                self.epoch
            );
            return Err(Error::new(ErrorCode::ServiceNotReady, message));
        }
        let news = match (message.snapshot, message.delta) {
            (Some(snapshot), _) => {
                // A large one takes a while to read.
                let read = aside(move || Snapshot::try_from(snapshot)).await??;
                Some(News::Whole(Box::new(read)))
            }
            (None, Some(delta)) => {
                let read = aside(move || Delta::try_from(delta)).await?;
                // The same would come again.
                self.start_anew |= read.is_err();
                Some(News::Delta(Box::new(read?)))
            }
            (None, None) => None,
        };
        self.epoch = epoch;
        Ok(news)
    }
}

/// Does what may take long beside the threads that serve.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::new(ErrorCode::ServiceInternal, error.to_string()))
}

pub(crate) fn away(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::ServiceUnavailable, what)
}
