//! Rows of suspicions: what several calls in a row hold against a node, where one would prove nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use pointsman_ids::{Incarnation, NodeKey};

use crate::SuspicionCause;

/// The suspicions against one process that no complete answer has come between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicions {
    /// The process.
    pub incarnation: Incarnation,
    /// When they arose, ascending; never more than the limit.
    pub times: VecDeque<Duration>,
    /// What the last one is.
    pub cause: SuspicionCause,
    /// What was seen at the last one.
    pub evidence: String,
}

/// The rows of all nodes. A row lives as long as its newest suspicion counts, so memory is bounded by the nodes that
/// were suspected within one window.
#[derive(Debug, Default)]
pub(crate) struct Rows(BTreeMap<NodeKey, Suspicions>);

impl Rows {
    /// Puts a suspicion into the node's row, and says how long the row is now. Whatever is older than `window` falls
    /// out of every row.
    pub(crate) fn add(
        &mut self,
        node: &NodeKey,
        suspicion: (Incarnation, SuspicionCause, String),
        now: Duration,
        window: Duration,
    ) -> usize {
        let counts = |at: &Duration| now.saturating_sub(*at) <= window;
        self.0.retain(|_, row| {
            row.times.retain(counts);
            !row.times.is_empty()
        });
        let (incarnation, cause, evidence) = suspicion;
        let empty = Suspicions { incarnation, times: VecDeque::new(), cause, evidence: String::new() };
        let row = self.0.entry(node.clone()).or_insert_with(|| empty.clone());
        if row.incarnation < incarnation {
            *row = empty;
        }
        row.times.push_back(now);
        (row.cause, row.evidence) = (cause, evidence);
        row.times.len()
    }

    /// Whether the node's row is about a later process than this.
    pub(crate) fn are_about_later(&self, node: &NodeKey, incarnation: Incarnation) -> bool {
        self.0.get(node).is_some_and(|row| row.incarnation > incarnation)
    }

    pub(crate) fn end(&mut self, node: &NodeKey) {
        self.0.remove(node);
    }

    pub(crate) fn contain(&self, node: &NodeKey) -> bool {
        self.0.contains_key(node)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NodeKey, &Suspicions)> {
        self.0.iter()
    }
}
