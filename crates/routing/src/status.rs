//! What operators see.

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::{ClusterName, NodeKey};

use crate::{RoutingView, cluster::RoutedNode};

/// A node as the broker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// Who.
    pub node: NodeKey,
    /// The cluster lets queries go to it.
    pub enabled: bool,
    /// Enabled and not excluded.
    pub routable: bool,
    /// Its lease at the coordinator has ended.
    pub lost: bool,
    /// How long it has been excluded; `None`: it is not.
    pub excluded_for: Option<Duration>,
    /// What was seen of its failure; empty when it is not excluded.
    pub evidence: String,
    /// Time until it is probed; zero while that is under way; `None`: it is not excluded.
    pub next_probe_in: Option<Duration>,
    /// Failed probes since it was excluded.
    pub failed_probes: u64,
    /// What the last failed probe saw; empty before the first.
    pub last_probe: String,
    /// Suspicions in a row; as many as the limit exclude it.
    pub suspicions: usize,
    /// What the last of them rests on; empty when there is none.
    pub suspicion: String,
}

/// How the broker stands to the coordinators of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedState {
    /// The cluster.
    pub cluster: ClusterName,
    /// Whether the watch lives.
    pub connected: bool,
    /// How old the routing is: time since the coordinator was last heard, over restarts of the broker; `None` while
    /// the watch lives or when there is no routing.
    pub age: Option<Duration>,
    /// Why the stored snapshot was not taken at the start; `None`: it was, or there was none.
    pub refused: Option<String>,
}

/// When the coordinator was heard last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contact {
    pub(crate) connected: bool,
    /// A point in time, and how long before it the coordinator was heard.
    pub(crate) heard: Option<(MonoTime, Duration)>,
    pub(crate) refused: Option<String>,
}

impl Contact {
    /// How long ago the coordinator was heard.
    pub(crate) fn age(&self, now: MonoTime) -> Option<Duration> {
        self.heard.map(|(at, before)| (now - at).saturating_add(before))
    }

    pub(crate) fn state(&self, cluster: ClusterName, now: MonoTime) -> FeedState {
        FeedState {
            cluster,
            connected: self.connected,
            age: self.age(now).filter(|_| !self.connected),
            refused: self.refused.clone(),
        }
    }
}

/// Every member of every cluster, cluster after cluster, by name.
pub(crate) fn nodes(view: &RoutingView, now: MonoTime) -> Vec<NodeStatus> {
    let now = now.since_start();
    let status = |node: &RoutedNode| {
        let key = &node.key;
        let exclusion = view.exclusion(key);
        let suspicions = view.suspicions().get(key);
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        NodeStatus {
            enabled: view.is_enabled(key),
            routable: view.is_routable(key),
            lost: view.is_lost(key),
            excluded_for: exclusion.map(|exclusion| now.saturating_sub(exclusion.since)),
            evidence: text(exclusion.map(|exclusion| &exclusion.evidence)),
            next_probe_in: exclusion.map(|exclusion| exclusion.next_probe.saturating_sub(now)),
            failed_probes: exclusion.map_or(0, |exclusion| exclusion.tries),
            last_probe: text(exclusion.and_then(|exclusion| exclusion.last_probe.as_ref())),
            suspicions: suspicions.map_or(0, |row| row.times.len()),
            suspicion: text(suspicions.map(|row| &row.evidence)),
            node: key.clone(),
        }
    };
    view.members().into_iter().map(|node| status(node)).collect()
}
