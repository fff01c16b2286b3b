//! What rules the routing of a broker.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use pointsman_channels::Channels;
use pointsman_clock::Clock;
use pointsman_failure_detector::Kind;
use pointsman_ids::{ClusterName, Error, ErrorCode, NodeName, feed::LeaderDrops};
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
    /// Who keeps shard leaders of the local cluster; `None`: nobody.
    pub leaders: Option<Arc<dyn KeepsLeaders>>,
}

/// Keeps shard leaders of the local cluster, and hears when they may be others by now.
pub trait KeepsLeaders: Send + Sync + fmt::Debug {
    /// Forgets leaders. The version of the feed that says so counts as known, and is acknowledged, after that.
    fn forget(&self, whose: &LeaderDrops);
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

    /// What was asked for and has no effect.
    pub(crate) fn without_effect(&self) -> Option<&'static str> {
        (self.fail_open.enabled && self.detector.kind == Kind::None).then_some(
            "broker.fail_open.enabled has no effect: broker.failure_detector.kind is none, and nobody is ever excluded",
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(kind: Kind, enabled: bool) -> Settings {
        let cluster = |name: &str| ClusterSettings {
            name: name.parse().unwrap(),
            coordinators: vec!["http://127.0.0.1:1".parse().unwrap()],
        };
        Settings {
            broker: "b1".into(),
            local: cluster("home"),
            remote: vec![cluster("west")],
            data_dir: PathBuf::new(),
            max_snapshot_age: Duration::ZERO,
            detector: pointsman_failure_detector::Settings { kind, ..Default::default() },
            new_segment_window: Duration::ZERO,
            fail_open: FailOpen { enabled, ..FailOpen::default() },
            adaptive: AdaptiveSettings::default(),
        }
    }

    #[test]
    fn fail_open_without_a_detector_is_told_to_have_no_effect() {
        assert!(settings(Kind::None, true).without_effect().unwrap().contains("no effect"));
        assert_eq!(settings(Kind::None, false).without_effect(), None);
        assert_eq!(settings(Kind::Connection, true).without_effect(), None);
    }

    #[test]
    fn remote_clusters_know_the_broker_by_its_cluster_as_well() {
        let settings = settings(Kind::Connection, false);
        assert_eq!((settings.name_in(0), settings.name_in(1)), ("b1".into(), "home.b1".into()));
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let mut nobody = settings(Kind::Connection, false);
        nobody.remote[0].coordinators.clear();
        assert!(nobody.check().unwrap_err().message().contains("'west'"));
        let nameless = Settings { broker: "b 1".into(), ..settings(Kind::Connection, false) };
        assert!(nameless.check().unwrap_err().message().starts_with("the broker's name"));
    }
}
