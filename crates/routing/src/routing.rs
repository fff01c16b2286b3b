//! The handle that a broker holds.

use std::{path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use pointsman_channels::Channels;
use pointsman_clock::Clock;
use pointsman_ids::{ClusterName, Epoch, Error, ErrorCode, FeedVersion, Incarnation, NodeKey};
use pointsman_instance_selector::{AdaptiveSettings, FailOpen};
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use url::Url;

use crate::{
    core::{Core, CoreSettings},
    keeper::{Keeper, Published, Reports, Saver},
    probes::Probes,
    status::{self, Contact, FeedState, NodeStatus},
    store::{Store, Stored},
    view::RoutingView,
    watch::Watch,
};

/// Words of the watch that may wait for the keeper; the watch waits beyond that.
const WORDS: usize = 4;

/// What rules the routing of a broker.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Stable name of the broker.
    pub broker: String,
    /// Name of the local cluster. Snapshots of another one are refused.
    pub cluster: ClusterName,
    /// Coordinators; the active one is found among them. At least one.
    pub coordinators: Vec<Url>,
    /// Folder of the stored snapshot; made when it is not there.
    pub data_dir: PathBuf,
    /// The oldest stored snapshot to start from.
    pub max_snapshot_age: Duration,
    /// The failure detector.
    pub detector: pointsman_failure_detector::Settings,
    /// Deadline of a probe.
    pub probe_timeout: Duration,
}

/// What routing stands on.
#[derive(Clone, Debug)]
pub struct Deps {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Root of randomness: the jitter of reconnects.
    pub seed: u64,
    /// Channels to the nodes, the ones that queries go over.
    pub channels: Channels,
    /// Channels to the coordinators.
    pub coordinator_channels: Channels,
}

/// The routing of one cluster. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Routing {
    published: Arc<Published>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
}

impl Routing {
    /// Reads the stored snapshot and starts, on the current runtime, the watch and the task that keeps the views.
    /// They run until `shutdown` is cancelled. A stored snapshot that is damaged or too old is not taken
    /// ([`FeedState::refused`] says why); the broker is then not ready before the coordinator is heard.
    ///
    /// # Errors
    /// `parameter_invalid` naming the setting that makes no sense.
    pub async fn start(settings: Settings, deps: Deps, shutdown: CancellationToken) -> Result<Self, Error> {
        if settings.coordinators.is_empty() {
            return Err(Error::new(ErrorCode::ParameterInvalid, "no coordinator is named"));
        }
        let now = deps.clock.mono();
        let since_start = u64::try_from(now.since_start().as_nanos()).unwrap_or(u64::MAX);
        let mut core = Core::new(CoreSettings {
            clusters: vec![settings.cluster.clone()],
            detector: settings.detector.clone(),
            new_segment_window: Duration::from_mins(5),
            fail_open: FailOpen::default(),
            adaptive: AdaptiveSettings::default(),
            started_at: deps.clock.wall().0.saturating_sub(since_start),
        })?;
        let store = Store::new(&settings.data_dir);
        let (mut contact, mut epoch, mut saved) = (Contact::default(), Epoch::default(), None);
        let mut probes = vec![];
        match load(&store, &settings, &*deps.clock).await {
            Ok(None) => {}
            Ok(Some((stored, age))) => match core.apply(stored.snapshot, now.since_start()) {
                Ok(first) => {
                    probes = first;
                    let version = core.view().snapshot().version;
                    tracing::info!(version = version.0, ?age, "starting from the stored snapshot");
                    contact.heard = Some((now, age));
                    epoch = stored.epoch;
                    saved = Some((version, now));
                }
                Err(error) => contact.refused = Some(error.to_string()),
            },
            Err(why) => contact.refused = Some(why),
        }
        if let Some(why) = &contact.refused {
            tracing::warn!(%why, "stored snapshot is not taken");
        }
        let view = Arc::new(ArcSwap::new(core.view().clone()));
        let published = Arc::new(Published {
            view: view.clone(),
            contact: ArcSwap::from_pointee(contact),
            reports: Reports::default(),
            version: watch::Sender::new(FeedVersion(0)),
        });
        let (sender, words) = mpsc::channel(WORDS);
        let watch = Watch {
            broker: settings.broker,
            coordinators: settings.coordinators,
            channels: deps.coordinator_channels,
            view,
            epoch,
            words: sender,
            random: Watch::random(deps.seed),
        };
        let mut keeper = Keeper {
            core,
            published: published.clone(),
            clock: deps.clock.clone(),
            probes: Probes::new(deps.channels.clone(), settings.probe_timeout),
            channels: deps.channels,
            words,
            saver: Saver::new(store, epoch, saved),
        };
        keeper.publish(probes);
        let tasks = TaskTracker::new();
        let stop_watch = shutdown.clone();
        tasks.spawn(async move { stop_watch.run_until_cancelled(watch.run()).await });
        tasks.spawn(keeper.run(shutdown));
        tasks.close();
        Ok(Self { published, clock: deps.clock, tasks })
    }

    /// What queries are to be routed by now.
    pub fn view(&self) -> Arc<RoutingView> {
        self.published.view.load_full()
    }

    /// Whether there is anything to route by.
    pub fn is_ready(&self) -> bool {
        self.published.view.load().snapshot().version > FeedVersion(0)
    }

    /// Tells of views: the version of the one in force, on every change.
    pub fn changed(&self) -> watch::Receiver<FeedVersion> {
        self.published.version.subscribe()
    }

    /// How the broker stands to its coordinator.
    pub fn feed(&self) -> FeedState {
        self.published.contact.load().state(self.clock.mono())
    }

    /// Every member as the broker sees it, by name.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        status::nodes(&self.published.view.load(), self.clock.mono())
    }

    /// A call to a node died with its connection, or no connection could be made. Never waits; the node is excluded
    /// within a moment. The query that saw it leaves the node out by itself.
    pub fn report_unreachable(&self, node: &NodeKey, incarnation: Incarnation, evidence: &str) {
        self.published.reports.add(node, incarnation, evidence);
    }

    /// Waits until all tasks have ended after `shutdown`; the newest snapshot is then on disk.
    pub async fn stopped(&self) {
        self.tasks.wait().await;
    }
}

async fn load(
    store: &Store,
    settings: &Settings,
    clock: &dyn Clock,
) -> Result<Option<(Stored, Duration)>, String> {
    let (store, now, limit) = (store.clone(), clock.wall(), settings.max_snapshot_age);
    let loaded = tokio::task::spawn_blocking(move || store.load(now, limit)).await;
    match loaded {
        Ok(Ok(loaded)) => Ok(loaded),
        Ok(Err(refused)) => Err(match std::error::Error::source(&refused) {
            Some(cause) => format!("{refused}: {cause}"),
            None => refused.to_string(),
        }),
        Err(error) => Err(error.to_string()),
    }
}
