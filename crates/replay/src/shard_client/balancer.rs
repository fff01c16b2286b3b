//! The balancer of a scenario: its own, or a real one that is watched.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::NodeId;
use pointsman_shard_client::{Balancer, Cost, Leader, NodeReport, Result, ShardError};

use super::scenario::Pick;

/// What a balancer was told and asked since somebody last looked.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) registered: BTreeSet<NodeId>,
    /// What it was offered last.
    pub(super) offered: Vec<NodeId>,
}

/// Passes everything on and remembers it.
#[derive(Debug)]
pub(super) struct Watched {
    inner: Arc<dyn Balancer>,
    seen: Mutex<Seen>,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Balancer>) -> Self {
        Self { inner, seen: Mutex::default() }
    }

    /// What was seen, once.
    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock())
    }
}

impl Balancer for Watched {
    fn register(&self, candidates: &[&Leader]) {
        self.seen.lock().registered.extend(candidates.iter().map(|leader| leader.node));
        self.inner.register(candidates);
    }

    fn pick(&self, nodes: &[NodeId], nq: i64, now: MonoTime) -> Result<NodeId> {
        self.seen.lock().offered = nodes.to_vec();
        self.inner.pick(nodes, nq, now)
    }

    fn cancel(&self, node: NodeId, nq: i64) {
        self.inner.cancel(node, nq);
    }

    fn report_cost(&self, node: NodeId, cost: Cost, now: MonoTime) {
        self.inner.report_cost(node, cost, now);
    }

    fn start_checks(&self, now: MonoTime) -> Vec<(NodeId, Arc<str>)> {
        self.inner.start_checks(now)
    }

    fn checked(&self, node: NodeId, is_healthy: bool) {
        self.inner.checked(node, is_healthy);
    }

    fn not_checked(&self, node: NodeId) {
        self.inner.not_checked(node);
    }

    fn report(&self, now: MonoTime) -> Vec<NodeReport> {
        self.inner.report(now)
    }
}

/// Does what the scenario says, one pick after the other; the last repeats.
#[derive(Debug)]
pub(super) struct Scripted {
    picks: Vec<Pick>,
    next: AtomicUsize,
}

impl Scripted {
    pub(super) fn new(picks: Vec<Pick>) -> Self {
        Self { picks, next: AtomicUsize::new(0) }
    }
}

impl Balancer for Scripted {
    fn register(&self, _candidates: &[&Leader]) {}

    fn pick(&self, nodes: &[NodeId], _nq: i64, _now: MonoTime) -> Result<NodeId> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let pick = self.picks.get(at).or(self.picks.last()).copied().unwrap_or(Pick::Lowest);
        let lowest = nodes.first().copied();
        match pick {
            Pick::Node(node) => Ok(node),
            Pick::Lowest => lowest.ok_or_else(|| ShardError::foreign("nothing was offered")),
            Pick::Error(code) => Err(ShardError::new(code, "the scenario's balancer says so")),
        }
    }

    fn cancel(&self, _node: NodeId, _nq: i64) {}

    fn report_cost(&self, _node: NodeId, _cost: Cost, _now: MonoTime) {}
}
