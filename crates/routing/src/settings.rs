//! What rules the routing of a broker.

use std::{path::PathBuf, sync::Arc, time::Duration};

use pointsman_channels::Channels;
use pointsman_clock::Clock;
use pointsman_failure_detector::Kind;
use pointsman_ids::{ClusterName, Error, ErrorCode, NodeName};
use pointsman_instance_selector::{AdaptiveSettings, FailOpen};
use url::Url;

use crate::CoreSettings;

/// What rules the routing of a broker.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Stable name of the broker. Remote clusters know it by this name behind that of the local cluster and a dot.
    pub broker: String,
    /// The local cluster. Its configuration is the one that counts.
    pub local: ClusterSettings,
    /// Other clusters, in the order in which their parts of a collection are merged.
    pub remote: Vec<ClusterSettings>,
    /// Folder of the stored snapshots; made when it is not there.
    pub data_dir: PathBuf,
    /// The oldest stored snapshot to start from.
    pub max_snapshot_age: Duration,
    /// The failure detector.
    pub detector: pointsman_failure_detector::Settings,
    /// How long a segment that is loaded for the first time may count as new.
    pub new_segment_window: Duration,
    /// The broker's own switches of fail-open.
    pub fail_open: FailOpen,
    /// Adaptive selection.
    pub adaptive: AdaptiveSettings,
}

/// One cluster that a broker routes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Its name. Snapshots of another one are refused.
    pub name: ClusterName,
    /// Its coordinators; the active one is found among them. At least one.
    pub coordinators: Vec<Url>,
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

impl Settings {
    /// All clusters, the local one first.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &ClusterSettings> {
        std::iter::once(&self.local).chain(&self.remote)
    }

    /// # Errors
    /// `parameter_invalid` naming what makes no sense: a cluster without coordinators, a name of the broker that is
    /// none.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(cluster) = self.clusters().find(|cluster| cluster.coordinators.is_empty()) {
            let text = format!("no coordinator of cluster '{}' is named", cluster.name);
            return Err(Error::new(ErrorCode::ParameterInvalid, text));
        }
        for at in 0..=self.remote.len() {
            // Brokers are named like nodes.
            NodeName::new(&self.name_in(at)).map_err(|error| error.context("the broker's name"))?;
        }
        Ok(())
    }

    /// The broker's name in the cluster at this place. Brokers of several clusters may watch one of them.
    pub(crate) fn name_in(&self, cluster: usize) -> String {
        match cluster {
            0 => self.broker.clone(),
            _ => format!("{}.{}", self.local.name, self.broker),
        }
    }

    /// Says what was asked for and has no effect.
    pub(crate) fn warn(&self) {
        if self.fail_open.enabled && self.detector.kind == Kind::None {
            tracing::warn!(
                "broker.fail_open.enabled has no effect: broker.failure_detector.kind is none, and nobody is ever excluded"
            );
        }
    }

    pub(crate) fn core(&self, clock: &dyn Clock) -> CoreSettings {
        let since_start = u64::try_from(clock.mono().since_start().as_nanos()).unwrap_or(u64::MAX);
        CoreSettings {
            clusters: self.clusters().map(|cluster| cluster.name.clone()).collect(),
            detector: self.detector.clone(),
            new_segment_window: self.new_segment_window,
            fail_open: self.fail_open,
            adaptive: self.adaptive,
            started_at: clock.wall().0.saturating_sub(since_start),
        }
    }
}
