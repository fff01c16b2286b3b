//! The one task that writes: it takes what happens, makes views of it, and looks after probes and the stored copy.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use pointsman_channels::Channels;
use pointsman_clock::{Clock, MonoTime};
use pointsman_failure_detector::{Event, Key, Probe};
use pointsman_ids::{Epoch, FeedVersion, Incarnation, NodeKey};
use tokio::{
    sync::{Notify, broadcast, mpsc, watch},
    task::JoinHandle,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{core::Core, probes::Probes, status::Contact, store::Store, view::RoutingView, watch::Word};

/// A changed snapshot is stored at most so often.
const SAVE_PAUSE: Duration = Duration::from_secs(5);

/// An unchanged one is stored again after so long, so that its age tells when the coordinator was heard.
const CONFIRM_PAUSE: Duration = Duration::from_secs(60);

/// Failures that queries met, by process: many queries see the same one.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    waiting: Mutex<BTreeMap<(NodeKey, Incarnation), String>>,
    news: Notify,
}

impl Reports {
    pub(crate) fn add(&self, node: &NodeKey, incarnation: Incarnation, evidence: &str) {
        let mut waiting = self.waiting.lock();
        waiting.entry((node.clone(), incarnation)).or_insert_with(|| evidence.to_owned());
        drop(waiting);
        self.news.notify_one();
    }

    async fn next(&self) -> Vec<Event> {
        loop {
            let waiting = std::mem::take(&mut *self.waiting.lock());
            if !waiting.is_empty() {
                let failed = |((node, incarnation), evidence)| Event::Failed {
                    key: Key::Node(node),
                    incarnation: Some(incarnation),
                    evidence,
                };
                return waiting.into_iter().map(failed).collect();
            }
            self.news.notified().await;
        }
    }
}

/// What readers see of the keeper.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) view: Arc<ArcSwap<RoutingView>>,
    pub(crate) contact: ArcSwap<Contact>,
    pub(crate) reports: Reports,
    pub(crate) version: watch::Sender<FeedVersion>,
}

pub(crate) struct Keeper {
    pub(crate) core: Core,
    pub(crate) published: Arc<Published>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) channels: Channels,
    pub(crate) probes: Probes,
    pub(crate) words: mpsc::Receiver<Word>,
    pub(crate) saver: Saver,
}

impl Keeper {
    /// Keeps on until `shutdown`; then the newest snapshot is on disk.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut lost = self.channels.lost();
        loop {
            let wakeup = self.wakeup();
            let published = self.published.clone();
            let probes = tokio::select! {
                () = shutdown.cancelled() => break,
                events = published.reports.next() => self.handle(events),
                event = self.probes.next() => self.handle([event]),
                Some(word) = self.words.recv() => self.listen(word),
                url = lost.recv() => self.dropped(url),
                () = sleep(wakeup) => self.handle([Event::Tick]),
            };
            self.publish(probes);
            self.saver.save_if_due(&self.published, self.clock.mono(), &*self.clock);
        }
        self.saver.save_at_last(&self.published, &*self.clock).await;
    }

    /// Time until something is due.
    fn wakeup(&self) -> Duration {
        let now = self.clock.mono();
        let retry = self.core.next_wakeup().map(|at| at.saturating_sub(now.since_start()));
        // A timer may fire a little early; a pause of nothing would spin until the clock gets there.
        retry.unwrap_or(SAVE_PAUSE).clamp(Duration::from_millis(1), SAVE_PAUSE)
    }

    fn handle(&mut self, events: impl IntoIterator<Item = Event>) -> Vec<Probe> {
        self.core.handle_all(events, self.clock.mono().since_start())
    }

    fn listen(&mut self, word: Word) -> Vec<Probe> {
        let now = self.clock.mono();
        let before = self.published.contact.load_full();
        let (contact, probes) = match word {
            Word::Away => (Contact { connected: false, ..Contact::clone(&before) }, vec![]),
            Word::Heard { epoch, snapshot } => {
                self.saver.epoch = self.saver.epoch.max(epoch);
                let probes =
                    snapshot.map_or(Ok(vec![]), |snapshot| self.core.apply(*snapshot, now.since_start()));
                let probes = probes.unwrap_or_else(|error| {
                    tracing::error!(%error, "snapshot is not applied");
                    vec![]
                });
                (Contact { connected: true, heard: Some((now, Duration::ZERO)), refused: None }, probes)
            }
        };
        if contact.connected != before.connected {
            tracing::info!(connected = contact.connected, "coordinator");
        }
        self.published.contact.store(Arc::new(contact));
        probes
    }

    /// A connection ended that nobody closed. Whoever waited for an answer on it reports for himself; if nobody did,
    /// one probe tells.
    fn dropped(&mut self, url: Result<Url, broadcast::error::RecvError>) -> Vec<Probe> {
        let node = url.ok().and_then(|url| self.core.view().node_by_url(&url));
        self.handle(node.map(|node| Event::ProbeWanted { node: node.key, incarnation: node.incarnation }))
    }

    /// Puts a new view in force, and starts probes.
    pub(crate) fn publish(&mut self, probes: Vec<Probe>) {
        let view = self.core.view();
        let before = self.published.view.load();
        if !Arc::ptr_eq(view, &before) {
            if !Arc::ptr_eq(view.snapshot(), before.snapshot()) {
                // Connections to a process that is gone are closed before its successor gets a query.
                self.channels
                    .set_members(view.members().into_iter().map(|node| (node.url, node.incarnation)));
            }
            self.published.view.store(view.clone());
            self.published.version.send_replace(view.snapshot().version);
        }
        for probe in probes {
            self.probes.start(probe, view);
        }
    }
}

/// Keeps the newest snapshot on disk.
#[derive(Debug)]
pub(crate) struct Saver {
    store: Store,
    epoch: Epoch,
    saved: Option<(FeedVersion, MonoTime)>,
    saving: Option<JoinHandle<()>>,
}

impl Saver {
    pub(crate) fn new(store: Store, epoch: Epoch, saved: Option<(FeedVersion, MonoTime)>) -> Self {
        Self { store, epoch, saved, saving: None }
    }

    fn save_if_due(&mut self, published: &Published, now: MonoTime, clock: &dyn Clock) {
        let version = published.view.load().snapshot().version;
        let due = match self.saved {
            _ if !published.contact.load().connected || version == FeedVersion(0) => false,
            None => true,
            Some((saved, at)) => now - at >= if saved == version { CONFIRM_PAUSE } else { SAVE_PAUSE },
        };
        if due && self.saving.as_ref().is_none_or(JoinHandle::is_finished) {
            self.saved = Some((version, now));
            self.saving = self.start(published, clock);
        }
    }

    async fn save_at_last(mut self, published: &Published, clock: &dyn Clock) {
        // One that is under way would else be overtaken.
        for saving in [self.saving.take(), self.start(published, clock)].into_iter().flatten() {
            if let Err(error) = saving.await {
                tracing::error!(%error, "snapshot was not stored");
            }
        }
    }

    fn start(&self, published: &Published, clock: &dyn Clock) -> Option<JoinHandle<()>> {
        let view = published.view.load_full();
        let (at, before) = published.contact.load().heard?;
        let age = (clock.mono() - at).saturating_add(before);
        let heard = clock.wall().0.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        let (store, epoch) = (self.store.clone(), self.epoch);
        Some(tokio::task::spawn_blocking(move || {
            if let Err(error) = store.save(pointsman_clock::WallTime(heard), epoch, view.snapshot()) {
                tracing::error!(%error, "snapshot cannot be stored; a restart without the coordinator would miss it");
            }
        }))
    }
}
