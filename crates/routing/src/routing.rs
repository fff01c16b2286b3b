//! The handle that a broker holds.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use pointsman_clock::{Clock, MonoTime};
use pointsman_failure_detector::{Probe, SuspicionCause};
use pointsman_ids::{ClusterName, Epoch, Error, FeedVersion, Incarnation, NodeKey};
use pointsman_instance_selector::AdaptiveSettings;
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    core::Core,
    holding::Digests,
    keeper::{Decay, Keeper, Published},
    probes::Probes,
    reports::Reports,
    saver::Saver,
    settings::{Deps, Settings},
    status::{self, Contact, FeedState, NodeStatus},
    store::{Store, Stored},
    view::RoutingView,
    watch::Watch,
};

/// Words of the watches that may wait for the keeper; a watch waits beyond that.
const WORDS: usize = 4;

/// The routing of a broker over all of its clusters. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Routing {
    published: Arc<Published>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
}

impl Routing {
    /// Reads the stored snapshots and starts, on the current runtime, a watch per cluster and the task that keeps the
    /// views. They run until `shutdown` is cancelled. A stored snapshot that is damaged or too old is not taken
    /// ([`FeedState::refused`] says why); without that of the local cluster the broker is not ready before its
    /// coordinator is heard. A remote cluster that is away is routed to once it has been heard.
    ///
    /// # Errors
    /// `parameter_invalid` naming the setting that makes no sense.
    pub async fn start(settings: Settings, deps: Deps, shutdown: CancellationToken) -> Result<Self, Error> {
        settings.check()?;
        if let Some(text) = settings.without_effect() {
            tracing::warn!("{text}");
        }
        let mut core = Core::new(settings.core(&*deps.clock))?;
        let view = Arc::new(ArcSwap::new(Arc::clone(core.view())));
        let (sender, words) = mpsc::channel(WORDS);
        let tasks = TaskTracker::new();
        let (mut contacts, mut savers, mut watches, mut probes) = (vec![], vec![], vec![], vec![]);
        for (at, cluster) in settings.clusters().enumerate() {
            let store = match at {
                0 => Store::local(&settings.data_dir),
                _ => Store::remote(&settings.data_dir, &cluster.name),
            };
            let resumed = resume(&store, &cluster.name, &mut core, &settings, &*deps.clock).await;
            probes.extend(resumed.probes);
            contacts.push(ArcSwap::from_pointee(resumed.contact));
            savers.push(Saver::new(store, resumed.epoch, resumed.saved));
            watches.push(Watch {
                cluster: at,
                broker: settings.name_in(at),
                coordinators: cluster.coordinators.clone(),
                channels: deps.coordinator_channels.clone(),
                view: Arc::clone(&view),
                epoch: resumed.epoch,
                words: sender.clone(),
                random: Watch::random(deps.seed.wrapping_add(at as u64)),
                digests: Digests::default(),
                start_anew: false,
            });
        }
        let version = watch::Sender::new(FeedVersion(0));
        let published =
            Arc::new(Published { view: Arc::clone(&view), contacts, reports: Reports::default(), version });
        let mut keeper = Keeper {
            published: Arc::clone(&published),
            clock: Arc::clone(&deps.clock),
            probes: Probes::new(deps.channels.clone(), settings.detector.probe_timeout, view),
            channels: deps.channels,
            words,
            savers,
            decay: decay(&settings.adaptive, deps.clock.mono()),
            leaders: deps.leaders,
        };
        keeper.publish(&core, probes);
        for watch in watches {
            let stop = shutdown.clone();
            tasks.spawn(async move { stop.run_until_cancelled(watch.run()).await });
        }
        tasks.spawn(keeper.run(core, shutdown));
        tasks.close();
        Ok(Self { published, clock: deps.clock, tasks })
    }

    /// What queries are to be routed by now.
    pub fn view(&self) -> Arc<RoutingView> {
        self.published.view.load_full()
    }

    /// Whether there is anything to route by: a snapshot of the local cluster.
    pub fn is_ready(&self) -> bool {
        self.published.view.load().snapshot().version > FeedVersion(0)
    }

    /// Tells of views with another snapshot, of whichever cluster: the local version of the one in force.
    pub fn changed(&self) -> watch::Receiver<FeedVersion> {
        self.published.version.subscribe()
    }

    /// How the broker stands to the coordinators of each of its clusters, the local one first.
    pub fn feeds(&self) -> Vec<FeedState> {
        let (view, now) = (self.published.view.load(), self.clock.mono());
        let places = view.clusters.iter().zip(&self.published.contacts);
        places.map(|(cluster, contact)| contact.load().state(cluster.name.clone(), now)).collect()
    }

    /// How the broker stands to the coordinators of its local cluster.
    pub fn feed(&self) -> FeedState {
        let view = self.published.view.load();
        // There is always a local cluster.
        self.published.contacts[0].load().state(view.cluster().clone(), self.clock.mono())
    }

    /// Every member of every cluster as the broker sees it: cluster after cluster, by name.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        status::nodes(&self.published.view.load(), self.clock.mono())
    }

    /// A call to a node died with its connection, or no connection could be made. Never waits; the node is excluded
    /// within a moment. The query that saw it leaves the node out by itself.
    pub fn report_unreachable(&self, node: &NodeKey, incarnation: Incarnation, evidence: &str) {
        self.published.reports.failed(node, incarnation, evidence);
    }

    /// A call to a node ended in a way that may be the node's fault. Never waits; several in a row exclude the node.
    pub fn report_suspicious(
        &self,
        node: &NodeKey,
        incarnation: Incarnation,
        cause: SuspicionCause,
        evidence: &str,
    ) {
        self.published.reports.suspicious(node, incarnation, cause, evidence);
    }

    /// A node answered completely, if only with an error that is the query's fault. Never waits, and costs next to
    /// nothing while no node is suspected.
    pub fn report_answered(&self, node: &NodeKey, incarnation: Incarnation) {
        self.published.reports.answered(node, incarnation);
    }

    /// Waits until all tasks have ended after `shutdown`; the newest snapshots are then on disk.
    pub async fn stopped(&self) {
        self.tasks.wait().await;
    }
}

fn decay(adaptive: &AdaptiveSettings, now: MonoTime) -> Option<Decay> {
    let window = adaptive.decay_window;
    (adaptive.is_on() && !window.is_zero()).then(|| Decay { window, next: now + window })
}

/// What a cluster begins with.
#[derive(Debug, Default)]
struct Resumed {
    contact: Contact,
    epoch: Epoch,
    saved: Option<(FeedVersion, MonoTime)>,
    probes: Vec<Probe>,
}

/// Begins with what is stored of a cluster, if anything.
async fn resume(
    store: &Store,
    cluster: &ClusterName,
    core: &mut Core,
    settings: &Settings,
    clock: &dyn Clock,
) -> Resumed {
    match taken(store, cluster, core, settings, clock).await {
        Ok(resumed) => resumed,
        Err(why) => {
            tracing::warn!(%cluster, %why, "stored snapshot is not taken");
            let contact = Contact { refused: Some(why), ..Contact::default() };
            Resumed { contact, ..Resumed::default() }
        }
    }
}

async fn taken(
    store: &Store,
    cluster: &ClusterName,
    core: &mut Core,
    settings: &Settings,
    clock: &dyn Clock,
) -> Result<Resumed, String> {
    let Some((stored, age)) = load(store, settings.max_snapshot_age, clock).await? else {
        return Ok(Resumed::default());
    };
    let Stored { snapshot, epoch, .. } = stored;
    if snapshot.cluster != *cluster {
        return Err(format!("the stored snapshot is of cluster '{}', not of '{cluster}'", snapshot.cluster));
    }
    let (version, now) = (snapshot.version, clock.mono());
    let probes = core.apply(snapshot, now.since_start()).map_err(|error| error.to_string())?;
    tracing::info!(%cluster, version = version.0, ?age, "starting from the stored snapshot");
    let contact = Contact { heard: Some((now, age)), ..Contact::default() };
    Ok(Resumed { contact, epoch, saved: Some((version, now)), probes })
}

async fn load(
    store: &Store,
    limit: Duration,
    clock: &dyn Clock,
) -> Result<Option<(Stored, Duration)>, String> {
    let (store, now) = (store.clone(), clock.wall());
    match tokio::task::spawn_blocking(move || store.load(now, limit)).await {
        Ok(Ok(loaded)) => Ok(loaded),
        Ok(Err(refused)) => Err(match std::error::Error::source(&refused) {
            Some(cause) => format!("{refused}: {cause}"),
            None => refused.to_string(),
        }),
        Err(error) => Err(error.to_string()),
    }
}
