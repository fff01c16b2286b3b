//! A routing scenario as values: every name is known and every number in range.

use std::{collections::BTreeMap, time::Duration};

use pointsman_failure_detector::{Key, Settings as DetectorSettings};
use pointsman_ids::{
    ClusterName, CollectionName, GroupNumber, NodeKey, NodeName, SegmentName, catalog::RoutingOptions,
    feed::CopyState,
};
use pointsman_instance_selector::AdaptiveKind;
use pointsman_routing::{RouteRequest, Wanted};

use super::{expect::Expectations, names::Names};
use crate::frame;

/// The whole file.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) broker: Broker,
    /// Where the broker's settings stand, for errors that only the real crates find.
    pub(super) broker_line: u64,
    pub(super) names: Names,
    /// Remote clusters that are down until a step starts them.
    pub(super) down: Vec<ClusterName>,
    pub(super) steps: Vec<Step>,
}

/// The broker's settings.
#[derive(Clone, Debug)]
pub(super) struct Broker {
    pub(super) fail_open: bool,
    pub(super) fail_open_multi_stage: bool,
    pub(super) fail_open_strict: bool,
    pub(super) detector: DetectorSettings,
    pub(super) new_segment_window: Duration,
    pub(super) adaptive: AdaptiveKind,
}

/// One step.
pub(super) type Step = frame::Step<Action, Expectations>;

/// What a step does.
#[derive(Debug)]
pub(super) enum Action {
    Nodes(Vec<NodeChange>),
    SetEnabled(Vec<(Member, bool)>),
    Collection(CollectionStep),
    MarkUnhealthy(Key),
    MarkHealthy(Key),
    Advance { by: Duration, probes: BTreeMap<Key, Answer> },
    SetConfig(Vec<(String, Option<String>)>),
    StartCluster(ClusterName),
    Observe(Vec<(Member, Option<Observation>)>),
    Select(SelectStep),
    RetryLookup(Key),
    Check,
}

/// A change of the membership.
#[derive(Clone, Debug)]
pub(super) enum NodeChange {
    /// What is `None` stays as it is, or takes the default of a newcomer.
    Upsert {
        node: NodeKey,
        pool: Option<GroupNumber>,
        enabled: Option<bool>,
    },
    Remove(Member),
}

/// A member of some cluster, by the names under which a file may speak of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Of(NodeKey),
    /// The local cluster's node, else that of the first listed cluster that has it.
    Plain(NodeName),
}

/// A step about one cluster's part of a collection.
#[derive(Debug)]
pub(super) struct CollectionStep {
    pub(super) cluster: ClusterName,
    pub(super) name: CollectionName,
    pub(super) change: CollectionChange,
}

/// What becomes of the part.
#[derive(Debug)]
pub(super) enum CollectionChange {
    Create {
        routing: RoutingOptions,
        segments: Vec<Segment>,
    },
    /// `None`: the replica groups stay as they are.
    Assign {
        replica_groups: Option<ReplicaGroups>,
        segments: Vec<Segment>,
    },
    Drop,
}

/// Placement partition to its replica groups, in order.
pub(super) type ReplicaGroups = BTreeMap<u32, Vec<Vec<NodeName>>>;

/// A segment with its states. Nodes stand in the order of the file, each once.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) name: SegmentName,
    pub(super) assigned: Vec<(NodeName, CopyState)>,
    pub(super) observed: Vec<(NodeName, CopyState)>,
    /// How long ago it was created, where its collection is created.
    pub(super) age: Duration,
}

/// What a probe answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Healthy,
    Unhealthy,
    Unknown,
    Error,
}

/// Statistics of a node; `None` stays as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub(super) in_flight: Option<u64>,
    pub(super) latency: Option<Duration>,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct SelectStep {
    pub(super) collection: CollectionName,
    /// `None`: all of the collection.
    pub(super) segments: Option<Vec<SegmentName>>,
    pub(super) request_id: u64,
    pub(super) multi_stage: bool,
    pub(super) sampler: Option<String>,
    /// May be too few; that is for the selector to refuse.
    pub(super) num_replica_groups: i64,
    pub(super) fixed_replica: Option<bool>,
    pub(super) preferred_pools: Vec<i32>,
}

impl SelectStep {
    /// The request in the words of routing.
    pub(super) fn request(&self) -> RouteRequest<'_> {
        RouteRequest {
            segments: self.segments.as_deref().map_or(Wanted::All, Wanted::Names),
            multi_stage: self.multi_stage,
            sampler: self.sampler.as_deref(),
            fixed_replica: self.fixed_replica,
            num_replica_groups: self.num_replica_groups,
            preferred_pools: &self.preferred_pools,
            ..RouteRequest::all(self.collection.as_str(), self.request_id)
        }
    }
}
