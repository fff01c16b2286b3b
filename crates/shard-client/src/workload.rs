//! What is asked of a collection, and of one shard of it. The way from the one to the other is one function, so that a
//! scope reaches every path or none.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use pointsman_clock::MonoTime;
use pointsman_ids::{CollectionId, NodeId};

use crate::{Cost, Leader, Result, ShardError};

/// The request that runs on the leader of a shard, over connections of type `C`.
pub trait Request<C>: Send + Sync {
    /// What a shard answers.
    type Answer: Send;

    /// Asks the node. The future is dropped when the caller goes away or has no more time.
    ///
    /// # Errors
    /// What the node said. The class `input` ends the request, a retriable error lets another leader try, and every other
    /// keeps the node away from the shard for a while.
    fn run<'a>(&'a self, connection: C, visit: &'a Visit) -> BoxFuture<'a, Result<Reply<Self::Answer>>>;

    /// Hears of every visit that came to an end, those to nodes without a connection too, with its error and how long it
    /// took, so that its owner can count them by [`Visit::leader_group`]. One that was dropped did not come to an end.
    fn ended(&self, _visit: &Visit, _error: Option<&ShardError>, _took: Duration) {}
}

/// Where a request runs.
#[derive(Clone, Debug)]
pub struct Visit {
    /// The collection.
    pub collection: CollectionId,
    /// The shard.
    pub shard: Arc<str>,
    /// The node that was chosen.
    pub node: NodeId,
    /// Where it listens.
    pub address: Arc<str>,
    /// Resource group of the replica that the node leads; `""`: not known.
    pub leader_group: Arc<str>,
    /// Vectors or keys.
    pub nq: i64,
    /// The scope; `""` without one.
    pub resource_group: Arc<str>,
    /// When the caller's time is over, on the clock of the client's runtime.
    pub deadline: Option<MonoTime>,
}

/// A node's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<A> {
    /// For the caller.
    pub answer: A,
    /// For the balancer; `None`: the node did not say.
    pub cost: Option<Cost>,
}

impl<A> From<A> for Reply<A> {
    fn from(answer: A) -> Self {
        Self { answer, cost: None }
    }
}

/// The answer of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered<A> {
    /// The shard.
    pub shard: Arc<str>,
    /// Who answered.
    pub node: NodeId,
    /// Whether a group was preferred, and the node leads a replica of another or an unknown one.
    pub fell_back: bool,
    /// What it said.
    pub answer: A,
}

/// A request to a collection.
#[derive(Debug)]
pub struct CollectionWorkload<R> {
    /// Database of the collection; for logs only.
    pub database: Arc<str>,
    /// Name of the collection; for logs and errors only.
    pub name: Arc<str>,
    /// The collection. The number alone decides.
    pub collection: CollectionId,
    /// Vectors or keys, for the balancer's books.
    pub nq: i64,
    /// What to execute.
    pub request: Arc<R>,
    /// The scope: only leaders of replicas in this group are asked. `""`: no scope.
    pub resource_group: Arc<str>,
    /// The nodes that would best be asked, by shard.
    pub preferred: Option<Arc<BTreeMap<Arc<str>, NodeId>>>,
    /// Leaders of replicas in this group are asked first, then anybody in the scope. `""`: all are alike. A leader whose
    /// group is not known is in none. A preferred node comes before.
    pub preferred_group: Arc<str>,
}

impl<R> CollectionWorkload<R> {
    /// The same request to one shard.
    pub fn for_shard(&self, shard: &Arc<str>, preferred: Option<NodeId>) -> ShardWorkload<R> {
        ShardWorkload {
            database: self.database.clone(),
            name: self.name.clone(),
            collection: self.collection,
            shard: shard.clone(),
            nq: self.nq,
            request: self.request.clone(),
            preferred,
            resource_group: self.resource_group.clone(),
            preferred_group: self.preferred_group.clone(),
        }
    }
}

/// A request to one shard. Only [`CollectionWorkload::for_shard`] makes one.
#[derive(Debug)]
pub struct ShardWorkload<R> {
    pub(crate) database: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) collection: CollectionId,
    pub(crate) shard: Arc<str>,
    pub(crate) nq: i64,
    pub(crate) request: Arc<R>,
    pub(crate) preferred: Option<NodeId>,
    pub(crate) resource_group: Arc<str>,
    pub(crate) preferred_group: Arc<str>,
}

impl<R> ShardWorkload<R> {
    /// The shard.
    pub fn shard(&self) -> &Arc<str> {
        &self.shard
    }

    /// Whether a group is preferred and this leader is not in it.
    pub(crate) fn falls_back(&self, leader: &Leader) -> bool {
        !leader.is_in(&self.preferred_group)
    }

    pub(crate) fn visit(&self, leader: &Leader, deadline: Option<MonoTime>) -> Visit {
        Visit {
            collection: self.collection,
            shard: self.shard.clone(),
            node: leader.node,
            address: leader.address.clone(),
            leader_group: leader.resource_group.clone(),
            nq: self.nq,
            resource_group: self.resource_group.clone(),
            deadline,
        }
    }
}
