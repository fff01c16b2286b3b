//! The node with the least work, as its last answers tell.

use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeId};
use smallvec::SmallVec;

use super::{
    Balancer, Cost, NodeReport,
    books::{Books, Rules},
    nobody_offered,
};
use crate::{Leader, Result, Settings, ShardError};

/// Takes nodes in turn, and at every so many choices compares their work. Nodes that fail health checks are stepped over.
#[derive(Debug)]
pub struct LookAside {
    compare_every: u64,
    tolerance: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// One turn for all shards and collections.
    index: u64,
    books: Books,
}

impl LookAside {
    /// With the settings of workload, costs and health checks.
    pub fn new(settings: &Settings) -> Self {
        let books = Books::new(Rules::from(settings));
        Self {
            compare_every: u64::try_from(settings.check_workload_every).unwrap_or(1).max(1),
            tolerance: settings.workload_tolerance,
            state: Mutex::new(State { index: 0, books }),
        }
    }

    /// Without a division, so that equal scores are even, zeros included.
    fn is_even(&self, lowest: i64, highest: i64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a share of a score needs no more digits")]
        let (lowest, highest) = (lowest as f64, highest as f64);
        highest - lowest <= self.tolerance * lowest.abs()
    }
}

impl Balancer for LookAside {
    fn register(&self, candidates: &[&Leader]) {
        let mut state = self.state.lock();
        candidates.iter().for_each(|leader| state.books.register(leader));
    }

    fn pick(&self, nodes: &[NodeId], nq: i64, now: MonoTime) -> Result<NodeId> {
        let State { index, books } = &mut *self.state.lock();
        let start = usize::try_from(*index % (nodes.len() as u64).max(1)).unwrap_or_default();
        let (before, after) = nodes.split_at_checked(start).ok_or_else(nobody_offered)?;
        let mut reachable = after.iter().chain(before).copied().filter(|node| !books.is_unavailable(*node));
        let first = reachable.next().ok_or_else(nobody_reachable)?;
        let mut picked = first;
        if *index % self.compare_every == 0 {
            let scored: SmallVec<[(i64, NodeId); 8]> =
                std::iter::once(first).chain(reachable).map(|node| (books.score(node, now), node)).collect();
            let scores = || scored.iter().map(|(score, _)| *score);
            let (lowest, highest) = (scores().min().unwrap_or_default(), scores().max().unwrap_or_default());
            picked = scored.iter().find(|(score, _)| *score == lowest).map_or(first, |(_, node)| *node);
            if self.is_even(lowest, highest) {
                *index = index.wrapping_add(1);
            }
        } else {
            *index = index.wrapping_add(1);
        }
        books.begin(picked, nq);
        Ok(picked)
    }

    fn cancel(&self, node: NodeId, nq: i64) {
        self.state.lock().books.end(node, nq);
    }

    fn report_cost(&self, node: NodeId, cost: Cost, now: MonoTime) {
        self.state.lock().books.report_cost(node, cost, now);
    }

    fn ended(&self, node: NodeId, failed: bool) {
        self.state.lock().books.ended(node, failed);
    }

    fn start_checks(&self, now: MonoTime) -> Vec<(NodeId, Arc<str>)> {
        self.state.lock().books.start_checks(now)
    }

    fn checked(&self, node: NodeId, is_healthy: bool) {
        self.state.lock().books.checked(node, is_healthy);
    }

    fn not_checked(&self, node: NodeId) {
        self.state.lock().books.not_checked(node);
    }

    fn report(&self, now: MonoTime) -> Vec<NodeReport> {
        self.state.lock().books.report(now)
    }
}

fn nobody_reachable() -> ShardError {
    ShardError::new(ErrorCode::ServiceUnavailable, "none of the shard's leaders can be reached")
}
