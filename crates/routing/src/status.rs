//! What operators see.

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::NodeKey;

use crate::{RoutedNode, RoutingView};

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
}

/// How the broker stands to its coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
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
    pub(crate) fn state(&self, now: MonoTime) -> FeedState {
        let age = self.heard.map(|(at, before)| (now - at).saturating_add(before));
        FeedState {
            connected: self.connected,
            age: age.filter(|_| !self.connected),
            refused: self.refused.clone(),
        }
    }
}

pub(crate) fn nodes(view: &RoutingView, now: MonoTime) -> Vec<NodeStatus> {
    let now = now.since_start();
    let status = |node: RoutedNode| {
        let exclusion = view.exclusion(&node.key);
        NodeStatus {
            enabled: view.is_enabled(&node.key),
            routable: view.is_routable(&node.key),
            lost: view.is_lost(&node.key),
            excluded_for: exclusion.map(|exclusion| now.saturating_sub(exclusion.since)),
            evidence: exclusion.map(|exclusion| exclusion.evidence.clone()).unwrap_or_default(),
            next_probe_in: exclusion.map(|exclusion| exclusion.next_probe.saturating_sub(now)),
            node: node.key,
        }
    };
    view.members().into_iter().map(status).collect()
}
