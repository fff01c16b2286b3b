//! What is asked of routing, and what it answers.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_ids::{
    ClusterName, Error, GroupName, NodeKey, SegmentName, UnavailableCause, feed::CollectionEntry,
};
use pointsman_instance_selector::FailOpenGate;

use crate::cluster::RoutedNode;

static NOBODY: BTreeSet<NodeKey> = BTreeSet::new();

/// A request for segments of one collection.
#[derive(Clone, Copy, Debug)]
pub struct RouteRequest<'a> {
    /// The collection's name.
    pub collection: &'a str,
    /// Its segments that are wanted.
    pub segments: Wanted<'a>,
    /// Chooses among equals: requests with the same id choose alike. All scans of one query on one collection share
    /// one, retries included.
    pub request_id: u64,
    /// The query runs in several stages.
    pub multi_stage: bool,
    /// A sampler of the collection, in any letter case; an unknown name means the whole collection.
    pub sampler: Option<&'a str>,
    /// Overrides the collection's setting, either way; `None`: as the collection says.
    pub fixed_replica: Option<bool>,
    /// Over how many of a segment's replicas a request spreads, for the replica group selectors; at least 1.
    pub num_replica_groups: i64,
    /// Pools in order of preference; they steer adaptive selection only.
    pub preferred_pools: &'a [i32],
    /// Only replicas of this resource group answer; `None`: all do.
    pub resource_group: Option<&'a GroupName>,
    /// Nodes that failed in this query.
    pub without: &'a BTreeSet<NodeKey>,
}

/// The segments that a request is for, in its order; one that is named twice counts once.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// The whole collection, or what its sampler keeps.
    All,
    /// Positions in the segments of [`RoutingView::collection`](crate::RoutingView::collection).
    Positions(&'a [u32]),
    /// Names. Those that the collection does not have are unknown.
    Names(&'a [SegmentName]),
}

impl<'a> RouteRequest<'a> {
    /// A request for everything, without options.
    pub fn all(collection: &'a str, request_id: u64) -> Self {
        Self {
            collection,
            segments: Wanted::All,
            request_id,
            multi_stage: false,
            sampler: None,
            fixed_replica: None,
            num_replica_groups: 1,
            preferred_pools: &[],
            resource_group: None,
            without: &NOBODY,
        }
    }
}

/// Who answers for what. Every requested segment is in one part, as segment or as optional one, or in one of the lists
/// `unavailable`, `new` and `optional_skipped`, or counted as unknown. Segments go by position.
#[derive(Clone, Debug)]
pub struct RoutingTable {
    /// The collection whose segments the positions are of.
    pub collection: Arc<CollectionEntry>,
    /// The nodes that are asked, by cluster and name.
    pub parts: Vec<RoutedPart>,
    /// What nobody can answer for, cluster after cluster, each in the order of the request.
    pub unavailable: Vec<Unavailable>,
    /// Segments of the parts that go to an excluded node, since nothing healthy holds them.
    pub fail_open: Vec<u32>,
    /// New segments that nobody routable should serve yet.
    pub new: Vec<u32>,
    /// Optional segments whose node serves nothing else in this request.
    pub optional_skipped: Vec<u32>,
    /// How many requested segments routing does not know.
    pub unknown: u64,
    /// Clusters that the collection spans and of which there is no snapshot: what they hold is missed.
    pub missing: Vec<ClusterName>,
    /// Remote clusters whose part cannot be chosen, and why. Its requested segments are unavailable; while its first
    /// load runs it has none, so this alone tells of it.
    pub refused: Vec<(ClusterName, Error)>,
    /// How far fail-open came in each part.
    pub fail_open_gates: Vec<(ClusterName, FailOpenGate)>,
}

/// One node's share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedPart {
    /// The node.
    pub node: Arc<RoutedNode>,
    /// Segments that it answers for, in the order of the request; at least one.
    pub segments: Vec<u32>,
    /// New segments that it may skip.
    pub optional: Vec<u32>,
}

/// A segment that nobody can answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Its position.
    pub segment: u32,
    /// Its name.
    pub name: SegmentName,
    /// Why.
    pub cause: UnavailableCause,
    /// The nodes concerned, by name: those that have it, or should have it when nobody does.
    pub nodes: Vec<NodeKey>,
    /// The segment that emptied the assignment group of this one, when that is the cause.
    pub emptied_by: Option<SegmentName>,
}

impl RoutingTable {
    /// Whether nobody is asked.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The name of the segment at a position of this table.
    pub fn segment_name(&self, position: u32) -> Option<&SegmentName> {
        self.collection.segments.get(position as usize).map(|segment| &segment.name)
    }
}
