//! The seam between planning and routing.

use std::{fmt::Debug, sync::Arc};

use pointsman_ids::{NodeKey, Result, UnavailableCause, feed::CollectionEntry};
use url::Url;

use crate::failure::QueryError;

/// Chooses nodes for segments. One router serves one attempt of one query: it holds one snapshot, so that all scans
/// of the query see the same routing, and it leaves out the nodes that failed in earlier attempts.
pub trait Router: Send + Sync + Debug {
    /// Chooses a node for each of the segments, which are positions in [`CollectionEntry::segments`] of the snapshot
    /// that the query was planned against, ascending. Called once per scan in a plan; scans of one collection get the
    /// same choice for the same segment.
    ///
    /// # Errors
    /// `collection_not_loaded` or `collection_not_fully_loaded` when there is no routing; `parameter_invalid` when
    /// the request's options make no sense; `resource_group_not_found`.
    fn route(&self, collection: &CollectionEntry, segments: &[u32]) -> Result<Routed>;

    /// Nodes that upper stages of a plan may run on: the routable ones of the query's scope, without those that
    /// failed in it. Never empty, unless nothing is routable; then upper stages run in the broker.
    fn stage_nodes(&self) -> Vec<(NodeKey, Url)>;

    /// A part failed while the query ran, because of its node: where do its segments go? Called at most once for a
    /// segment at a place. A node that failed is out for the rest of the query, the parts of it that still run
    /// excepted; one that lacks segments is out for these. Never blocks; other parts wait. Unless implemented, the
    /// whole query fails.
    fn reroute(&self, _failed: &FailedPart) -> Rerouted {
        Rerouted::Whole
    }

    /// Whatever runs on a worker has ended, the last of it well. Said of queries whose parts can be routed again, while
    /// other workers may still run; never blocks.
    fn answered(&self, _node: &Url) {}
}

/// A part of a running query that gave no rows which count.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedPart {
    /// The worker of its node.
    pub node: Url,
    /// How it failed.
    pub error: QueryError,
    /// What it was asked for and is still to be answered, by name of the collection; never empty.
    pub scans: Vec<FailedScan>,
}

/// What a failed part was asked for of one collection.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedScan {
    /// The collection.
    pub collection: Arc<CollectionEntry>,
    /// Positions of the segments, ascending.
    pub segments: Vec<u32>,
    /// Those of them that the node said it does not hold, ascending; none when it failed otherwise. All of them when
    /// it could not be understood which.
    pub lacking: Vec<u32>,
}

/// What becomes of a failed part.
#[derive(Clone, Debug, PartialEq)]
pub enum Rerouted {
    /// These nodes take it over, scan by scan, in the order of [`FailedPart::scans`]. Every segment is in a part or
    /// unavailable; else it counts as [`Self::Whole`].
    Parts(Vec<Routed>),
    /// It cannot be made good alone: the query fails with the part's error.
    Whole,
}

/// The routing table of one scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routed {
    /// Who answers for what, by node, ascending. No part is empty and no segment stands twice.
    pub parts: Vec<Part>,
    /// Segments that nobody can answer for.
    pub unavailable: Vec<Unavailable>,
    /// Segments of `parts` that go to an excluded node because nothing healthy holds them.
    pub fail_open: Vec<u32>,
}

/// One node's share of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The node.
    pub node: NodeKey,
    /// Where its worker listens.
    pub url: Url,
    /// Positions of its segments, ascending.
    pub segments: Vec<u32>,
}

/// A segment that nobody can answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Its position.
    pub segment: u32,
    /// Why.
    pub cause: UnavailableCause,
    /// The nodes concerned, ascending.
    pub nodes: Vec<NodeKey>,
}
