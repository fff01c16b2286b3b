//! The one task that writes: it takes what happens, makes views of it, and looks after probes and the stored copies.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use pointsman_channels::Channels;
use pointsman_clock::{Clock, MonoTime};
use pointsman_failure_detector::{Event, Probe};
use pointsman_ids::{ClusterName, Epoch, Error, ErrorCode, FeedVersion};
use tokio::{
    sync::{broadcast, mpsc, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    KeepsLeaders,
    core::Core,
    probes::Probes,
    reports::Reports,
    saver::{SAVE_PAUSE, Saver},
    status::Contact,
    view::RoutingView,
    watch::{News, Said, Word},
};

/// What readers see of the keeper.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) view: Arc<ArcSwap<RoutingView>>,
    /// By place of the cluster.
    pub(crate) contacts: Vec<ArcSwap<Contact>>,
    pub(crate) reports: Reports,
    pub(crate) version: watch::Sender<FeedVersion>,
}

/// How often statistics drift, and when they do next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decay {
    pub(crate) window: Duration,
    pub(crate) next: MonoTime,
}

#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) published: Arc<Published>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) channels: Channels,
    pub(crate) probes: Probes,
    pub(crate) words: mpsc::Receiver<Word>,
    /// By place of the cluster.
    pub(crate) savers: Vec<Saver>,
    /// `None`: statistics do not drift, or there are none.
    pub(crate) decay: Option<Decay>,
    pub(crate) leaders: Option<Arc<dyn KeepsLeaders>>,
}

/// Place of the local cluster.
const LOCAL: usize = 0;

impl Keeper {
    /// Keeps on until `shutdown`; then the newest snapshots are on disk.
    pub(crate) async fn run(mut self, mut core: Core, shutdown: CancellationToken) {
        let mut lost = self.channels.lost();
        loop {
            let wakeup = self.wakeup(&core);
            let published = Arc::clone(&self.published);
            tokio::select! {
                () = shutdown.cancelled() => break,
                events = published.reports.next() => self.handle(&mut core, events),
                event = self.probes.next() => self.handle(&mut core, [event]),
                Some(word) = self.words.recv() => match self.listen(core, word).await {
                    Ok(after) => core = after,
                    Err(error) => {
                        tracing::error!(%error, "routing has ended; it stays as it is");
                        break;
                    }
                },
                url = lost.recv() => self.dropped(&mut core, url),
                () = sleep(wakeup) => self.tick(&mut core),
            }
            self.save_if_due();
        }
        let view = self.published.view.load_full();
        let places = self.savers.into_iter().zip(&view.clusters).zip(&self.published.contacts);
        for ((saver, cluster), contact) in places {
            saver.save_at_last(&cluster.snapshot, &contact.load(), &*self.clock).await;
        }
    }

    /// Time until something is due.
    fn wakeup(&self, core: &Core) -> Duration {
        let now = self.clock.mono();
        let retry = core.next_wakeup().map(|at| at.saturating_sub(now.since_start()));
        let decay = self.decay.map(|decay| decay.next - now);
        let due = [retry, decay].into_iter().flatten().min();
        // A timer may fire a little early; a pause of nothing would spin until the clock gets there.
        due.unwrap_or(SAVE_PAUSE).clamp(Duration::from_millis(1), SAVE_PAUSE)
    }

    fn handle(&mut self, core: &mut Core, events: impl IntoIterator<Item = Event>) {
        let probes = core.handle_all(events, self.clock.mono().since_start());
        self.published.reports.set_suspicious(core.has_suspicions());
        self.publish(core, probes);
    }

    fn tick(&mut self, core: &mut Core) {
        let now = self.clock.mono();
        if let Some(decay) = self.decay.as_mut().filter(|decay| decay.next <= now) {
            decay.next = now + decay.window;
            core.view().decay_statistics(now.since_start());
        }
        self.handle(core, [Event::Tick]);
    }

    /// A connection ended that nobody closed. Whoever waited for an answer on it reports for himself; if nobody did,
    /// one probe tells.
    fn dropped(&mut self, core: &mut Core, url: Result<Url, broadcast::error::RecvError>) {
        let node = url.ok().and_then(|url| core.view().node_by_url(&url));
        let event =
            node.map(|node| Event::ProbeWanted { node: node.key.clone(), incarnation: node.incarnation });
        self.handle(core, event);
    }

    /// Takes a word of a watch.
    async fn listen(&mut self, mut core: Core, word: Word) -> Result<Core, Error> {
        let Word { cluster, said } = word;
        match said {
            Said::Away => self.contact(cluster, None),
            Said::Heard(epoch) => self.contact(cluster, Some(epoch)),
            Said::News(epoch, news, answer) => {
                let name = core.view().clusters[cluster].name.clone();
                let drops = news.leader_drops();
                let now = self.clock.mono().since_start();
                let (after, taken) = take(core, &name, news, now).await?;
                core = after;
                let taken = taken.map(|probes| {
                    if let Some(leaders) = self.leaders.as_ref().filter(|_| cluster == LOCAL) {
                        leaders.forget(&drops);
                    }
                    self.publish(&core, probes);
                    core.view().clusters[cluster].snapshot.version
                });
                // Whose news are not taken is not heard; the watch tells of it.
                if taken.is_ok() {
                    self.contact(cluster, Some(epoch));
                }
                // A watch that does not listen any more has ended.
                let _ended = answer.send(taken);
            }
        }
        Ok(core)
    }

    /// The coordinator of a cluster was heard, or is away.
    fn contact(&mut self, cluster: usize, heard: Option<Epoch>) {
        let before = self.published.contacts[cluster].load_full();
        let after = match heard {
            None => Contact { connected: false, ..Contact::clone(&before) },
            Some(epoch) => {
                let saver = &mut self.savers[cluster];
                saver.epoch = saver.epoch.max(epoch);
                let heard = Some((self.clock.mono(), Duration::ZERO));
                Contact { connected: true, heard, refused: None }
            }
        };
        if after.connected != before.connected {
            let name = &self.published.view.load().clusters[cluster].name;
            tracing::info!(cluster = %name, connected = after.connected, "coordinator");
        }
        self.published.contacts[cluster].store(Arc::new(after));
    }

    /// Puts a new view in force, and starts probes.
    pub(crate) fn publish(&mut self, core: &Core, probes: Vec<Probe>) {
        let (view, before) = (core.view(), self.published.view.load_full());
        let pairs = || view.clusters.iter().zip(&before.clusters);
        if !pairs().all(|(after, before)| after.members.is(&before.members)) {
            // Connections to a process that is gone are closed before its successor gets a query.
            let members = view.members().into_iter();
            self.channels.set_members(members.map(|node| (node.url.clone(), node.incarnation)));
        }
        self.published.view.store(Arc::clone(view));
        if !pairs().all(|(after, before)| Arc::ptr_eq(&after.snapshot, &before.snapshot)) {
            self.published.version.send_replace(view.snapshot().version);
        }
        for probe in probes {
            self.probes.start(probe);
        }
    }

    fn save_if_due(&mut self) {
        let view = self.published.view.load();
        let places = self.savers.iter_mut().zip(&view.clusters).zip(&self.published.contacts);
        for ((saver, cluster), contact) in places {
            saver.save_if_due(&cluster.snapshot, &contact.load(), &*self.clock);
        }
    }
}

/// Takes what a watch of `cluster` brought. That may take a while, and is done beside the threads that serve.
///
/// # Errors
/// When the process is going down.
async fn take(
    mut core: Core,
    cluster: &ClusterName,
    news: News,
    now: Duration,
) -> Result<(Core, Result<Vec<Probe>, Error>), Error> {
    let about = match &news {
        News::Whole(snapshot) => &snapshot.cluster,
        News::Delta(delta) => &delta.cluster,
    };
    if about != cluster {
        let text = format!("a coordinator of cluster '{about}' is named as one of '{cluster}'");
        return Ok((core, Err(Error::new(ErrorCode::ParameterInvalid, text))));
    }
    let work = move || {
        let taken = match news {
            News::Whole(snapshot) => core.apply(*snapshot, now),
            News::Delta(delta) => core.apply_delta(&delta, now),
        };
        (core, taken)
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::new(ErrorCode::ServiceInternal, error.to_string()))
}
