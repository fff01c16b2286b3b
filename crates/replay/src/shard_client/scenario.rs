//! What a shard-client scenario says.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_ids::{CollectionId, ErrorCode, NodeId};
use pointsman_shard_client::{Cost, Leader, Settings, ShardListing};

use super::expect::Expectations;
use crate::frame;

/// The whole file.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) settings: Settings,
    /// The scenario's own balancer; `None`: that of the settings.
    pub(super) picks: Option<Vec<Pick>>,
    pub(super) collection: CollectionId,
    pub(super) coordinator: BTreeMap<CollectionId, Vec<CoordinatorAnswer>>,
    pub(super) nodes: BTreeMap<NodeId, Vec<NodeOutcome>>,
    pub(super) steps: Vec<Step>,
}

/// What the scripted balancer does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    Node(NodeId),
    /// The lowest of those offered.
    Lowest,
    Error(ErrorCode),
}

/// An answer of GetShardLeaders.
#[derive(Clone, Debug)]
pub(super) struct CoordinatorAnswer {
    pub(super) after: Duration,
    pub(super) told: Result<Vec<ShardListing>, ErrorCode>,
}

/// What becomes of a request on a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum NodeOutcome {
    Unreachable,
    Hang,
    Answer {
        after: Duration,
        /// With the class, if it is another than the code's.
        error: Option<(ErrorCode, Option<bool>)>,
    },
}

/// One step.
pub(super) type Step = frame::Step<Action, Expectations>;

/// What a step does.
#[derive(Debug)]
pub(super) enum Action {
    Execute(Execute),
    SelectNode(SelectNode),
    GetShard(GetShard),
    Join(String),
    Filter { leaders: Vec<Leader>, group: String },
    Locations,
    Invalidate(Vec<CollectionId>),
    Advance(Duration),
    ProbeAnswers(BTreeMap<NodeId, bool>),
    ReportCost(Vec<(NodeId, Cost)>),
    Cancel { node: NodeId, nq: i64 },
    Check,
}

/// A request on all shards, or on any.
#[derive(Debug)]
pub(super) struct Execute {
    pub(super) one_shard: bool,
    pub(super) collection: CollectionId,
    pub(super) group: Arc<str>,
    pub(super) nq: i64,
    pub(super) preferred: Option<Arc<BTreeMap<Arc<str>, NodeId>>>,
    pub(super) timeout: Option<Duration>,
    pub(super) background: Option<String>,
}

/// A choice without a request.
#[derive(Debug)]
pub(super) struct SelectNode {
    pub(super) collection: CollectionId,
    pub(super) shard: Arc<str>,
    pub(super) group: Arc<str>,
    pub(super) excluded: BTreeSet<NodeId>,
    pub(super) preferred: Option<NodeId>,
    pub(super) nq: i64,
    pub(super) timeout: Option<Duration>,
}

/// A read of the cache.
#[derive(Debug)]
pub(super) struct GetShard {
    pub(super) collection: CollectionId,
    pub(super) shard: Arc<str>,
    pub(super) with_cache: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) background: Option<String>,
}
