//! Balancers: which of several leaders that could all answer is asked.

mod books;
mod look_aside;
mod round_robin;
mod score;

use std::{fmt, sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeId};

use crate::{Leader, Policy, Result, Settings, ShardError};
pub use look_aside::LookAside;
pub use round_robin::{RoundRobin, WeightedRoundRobin};

/// What a node's answer told about the work that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// From the request's arrival at the node to its answer.
    pub response_time: Duration,
    /// The part of it in which the node worked on the request.
    pub service_time: Duration,
    /// Vectors or keys that waited at the node. A negative number is nonsense and counts as such.
    pub total_nq: i64,
}

/// What a balancer knows about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// Vectors or keys of requests that run there.
    pub executing: i64,
    /// In milliseconds; lower is better.
    pub score: i64,
    /// Health checks say that it cannot be reached.
    pub unavailable: bool,
    /// It was registered, and not forgotten since.
    pub known: bool,
}

/// Chooses among nodes. One balancer serves all shards and collections; the order of two requests at one instant is the
/// only thing that its choices may depend on beside their arguments and the time.
pub trait Balancer: Send + Sync + fmt::Debug {
    /// Tells of nodes that requests may go to, ascending by node.
    fn register(&self, candidates: &[&Leader]);

    /// Picks one of these, which ascend, for a request of `nq` vectors or keys. The work counts as begun.
    ///
    /// # Errors
    /// Nobody to pick. Nothing counts as begun then.
    fn pick(&self, nodes: &[NodeId], nq: i64, now: MonoTime) -> Result<NodeId>;

    /// As [`Balancer::pick`], among nodes with weights; one of weight 0 or less is never picked. A balancer that knows no
    /// weights is offered the others.
    ///
    /// # Errors
    /// As [`Balancer::pick`].
    fn pick_weighted(&self, nodes: &[(NodeId, i64)], nq: i64, now: MonoTime) -> Result<NodeId> {
        let offered: Vec<NodeId> =
            nodes.iter().filter(|(_, weight)| *weight > 0).map(|(node, _)| *node).collect();
        self.pick(&offered, nq, now)
    }

    /// Takes back work that was begun, however it ended.
    fn cancel(&self, node: NodeId, nq: i64);

    /// Tells what an answer of the node said about its work.
    fn report_cost(&self, node: NodeId, cost: Cost, now: MonoTime);

    /// Tells that a request failed on the node, or that one succeeded; only where failures are to count as cost.
    fn ended(&self, _node: NodeId, _failed: bool) {}

    /// The nodes whose health is to be checked now, each to be answered by one [`Balancer::checked`] or
    /// [`Balancer::not_checked`].
    fn start_checks(&self, _now: MonoTime) -> Vec<(NodeId, Arc<str>)> {
        Vec::new()
    }

    /// The end of a health check.
    fn checked(&self, _node: NodeId, _is_healthy: bool) {}

    /// A health check that was not made, which says nothing.
    fn not_checked(&self, _node: NodeId) {}

    /// What it knows about every node, ascending.
    fn report(&self, _now: MonoTime) -> Vec<NodeReport> {
        Vec::new()
    }
}

/// The balancer that the settings ask for.
pub fn balancer(settings: &Settings) -> Arc<dyn Balancer> {
    match settings.policy {
        Policy::LookAside => Arc::new(LookAside::new(settings)),
        Policy::RoundRobin => Arc::new(RoundRobin::default()),
    }
}

fn nobody_offered() -> ShardError {
    ShardError::new(ErrorCode::NodeNotAvailable, "no node was offered to the balancer")
}
