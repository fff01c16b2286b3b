//! One after the other.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::RwLock;
use pointsman_clock::MonoTime;
use pointsman_ids::NodeId;

use super::{Balancer, Cost, nobody_offered};
use crate::{Leader, Result};

/// Picks in turn and keeps no books.
#[derive(Debug, Default)]
pub struct RoundRobin {
    turns: AtomicU64,
}

impl RoundRobin {
    /// The first turn is 1.
    fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

impl Balancer for RoundRobin {
    fn register(&self, _candidates: &[&Leader]) {}

    fn pick(&self, nodes: &[NodeId], _nq: i64, _now: MonoTime) -> Result<NodeId> {
        if nodes.is_empty() {
            return Err(nobody_offered());
        }
        let slot = self.turn() % nodes.len() as u64;
        nodes
            .iter()
            .copied()
            .zip(0..)
            .find(|(_, at)| *at == slot)
            .map(|(node, _)| node)
            .ok_or_else(nobody_offered)
    }

    /// In turn too: of every round a node gets as many turns as its weight says.
    fn pick_weighted(&self, nodes: &[(NodeId, i64)], _nq: i64, _now: MonoTime) -> Result<NodeId> {
        let weights =
            || nodes.iter().filter_map(|(node, weight)| Some((*node, u64::try_from(*weight).ok()?)));
        let sum = weights().fold(0_u64, |sum, (_, weight)| sum.saturating_add(weight));
        if sum == 0 {
            return Err(nobody_offered());
        }
        let mut slot = self.turn() % sum;
        for (node, weight) in weights() {
            match slot.checked_sub(weight) {
                Some(beyond) => slot = beyond,
                None => return Ok(node),
            }
        }
        Err(nobody_offered())
    }

    fn cancel(&self, _node: NodeId, _nq: i64) {}

    fn report_cost(&self, _node: NodeId, _cost: Cost, _now: MonoTime) {}
}

/// Picks in turn by weights that an operator gives to nodes; a node without one has the weight 1.
#[derive(Debug, Default)]
pub struct WeightedRoundRobin {
    turns: RoundRobin,
    weights: RwLock<Arc<[(NodeId, i64)]>>,
}

impl WeightedRoundRobin {
    /// Replaces the weights. One of 0 or less takes its node out.
    pub fn set_weights(&self, weights: impl IntoIterator<Item = (NodeId, i64)>) {
        let mut weights: Vec<_> = weights.into_iter().collect();
        weights.sort_by_key(|(node, _)| *node);
        weights.dedup_by_key(|(node, _)| *node);
        *self.weights.write() = weights.into();
    }
}

impl Balancer for WeightedRoundRobin {
    fn register(&self, _candidates: &[&Leader]) {}

    fn pick(&self, nodes: &[NodeId], nq: i64, now: MonoTime) -> Result<NodeId> {
        let weights = self.weights.read().clone();
        let weight = |node: &NodeId| {
            let at = weights.binary_search_by_key(node, |(known, _)| *known).ok();
            at.and_then(|at| weights.get(at)).map_or(1, |(_, weight)| *weight)
        };
        let weighted: Vec<_> = nodes.iter().map(|node| (*node, weight(node))).collect();
        self.turns.pick_weighted(&weighted, nq, now)
    }

    fn pick_weighted(&self, nodes: &[(NodeId, i64)], nq: i64, now: MonoTime) -> Result<NodeId> {
        self.turns.pick_weighted(nodes, nq, now)
    }

    fn cancel(&self, _node: NodeId, _nq: i64) {}

    fn report_cost(&self, _node: NodeId, _cost: Cost, _now: MonoTime) {}
}
