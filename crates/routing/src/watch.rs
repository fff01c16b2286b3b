//! The client of the routing feed: finds the active coordinator and stays with it.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use pointsman_channels::Channels;
use pointsman_ids::{Epoch, Error, ErrorCode, feed::Snapshot};
use pointsman_proto::broker::v1::{WatchRequest, WatchResponse, routing_feed_client::RoutingFeedClient};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tonic::Streaming;
use url::Url;

use crate::RoutingView;

/// The coordinator sends something about once per second; a watch that is silent for so long is dead.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// Waits between rounds over all coordinators: the first, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The largest message that is taken.
const MAX_MESSAGE: usize = 1 << 30;

/// What the watch has to say.
#[derive(Debug)]
pub(crate) enum Word {
    /// The coordinator of this epoch is there, with news or without.
    Heard { epoch: Epoch, snapshot: Option<Box<Snapshot>> },
    /// The watch has ended.
    Away,
}

/// Watches until nobody listens any more.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) broker: String,
    pub(crate) coordinators: Vec<Url>,
    pub(crate) channels: Channels,
    pub(crate) view: Arc<ArcSwap<RoutingView>>,
    /// The highest epoch that was seen.
    pub(crate) epoch: Epoch,
    pub(crate) words: mpsc::Sender<Word>,
    pub(crate) random: StdRng,
}

/// Why a watch ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// Nobody listens any more.
    Unheard,
    /// It was told, or could not begin.
    Failed(Error),
}

impl Watch {
    pub(crate) fn random(seed: u64) -> StdRng {
        StdRng::seed_from_u64(seed)
    }

    pub(crate) async fn run(mut self) {
        let mut wait = FIRST_WAIT;
        loop {
            for at in 0..self.coordinators.len() {
                let url = self.coordinators[at].clone();
                let version = self.view.load().snapshot().version;
                let mut lived = false;
                let ended = self.follow(&url, &mut lived).await;
                let Ended::Failed(error) = ended else { return };
                if lived {
                    wait = FIRST_WAIT;
                    tracing::warn!(%url, %error, "watch of the coordinator ended");
                    if self.words.send(Word::Away).await.is_err() {
                        return;
                    }
                } else {
                    tracing::debug!(%url, version = version.0, %error, "coordinator cannot be watched");
                }
            }
            // Brokers that lost one coordinator together do not come back together.
            sleep(wait.mul_f64(self.random.random_range(0.5..1.5))).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Follows one coordinator; `lived` becomes true once it has said something lawful.
    async fn follow(&mut self, url: &Url, lived: &mut bool) -> Ended {
        let mut stream = match self.open(url).await {
            Ok(stream) => stream,
            Err(error) => return Ended::Failed(error),
        };
        loop {
            let message = match timeout(STALLED_AFTER, stream.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return Ended::Failed(away("the coordinator ended the watch")),
                Ok(Err(status)) => return Ended::Failed(pointsman_proto::error(&status)),
                Err(_) => return Ended::Failed(away(format!("no word for {STALLED_AFTER:?}"))),
            };
            let word = match self.read(message) {
                Ok(word) => word,
                Err(error) => return Ended::Failed(error),
            };
            *lived = true;
            if self.words.send(word).await.is_err() {
                return Ended::Unheard;
            }
        }
    }

    async fn open(&self, url: &Url) -> Result<Streaming<WatchResponse>, Error> {
        let mut client =
            RoutingFeedClient::new(self.channels.channel(url)).max_decoding_message_size(MAX_MESSAGE);
        let request = WatchRequest {
            broker: self.broker.clone(),
            version: self.view.load().snapshot().version.0,
            epoch_seen: self.epoch.0,
            holding: None,
        };
        match timeout(STALLED_AFTER, client.watch(request)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(pointsman_proto::error(&status)),
            Err(_) => Err(away(format!("no answer within {STALLED_AFTER:?}"))),
        }
    }

    /// A coordinator with a lower epoch has been replaced, and may not know it yet.
    fn read(&mut self, message: WatchResponse) -> Result<Word, Error> {
        let epoch = Epoch(message.epoch);
        if epoch < self.epoch {
            let message = format!(
                "the coordinator's epoch {epoch} is older than {}, which was seen before",
                self.epoch
            );
            return Err(Error::new(ErrorCode::ServiceNotReady, message));
        }
        let snapshot = message.snapshot.map(Snapshot::try_from).transpose()?.map(Box::new);
        self.epoch = epoch;
        Ok(Word::Heard { epoch, snapshot })
    }
}

fn away(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::ServiceUnavailable, what)
}
