//! Whom one attempt asks for what: the figures and the coverage report of its answer.

use std::{collections::BTreeSet, time::Duration};

use pointsman_engine::{CollectionScan, PlannedQuery};
use pointsman_ids::{ClusterName, Error, ErrorCode, NodeKey, NodeName, UnavailableCause};
use pointsman_routing::RoutingView;
use pointsman_scatter::{Coverage, LeftOut, UnavailableSegment};

use crate::answer::{Answer, CoverageBody};

/// The final routing of a query.
#[derive(Debug)]
pub(super) struct Picture<'a> {
    scans: &'a [CollectionScan],
    total_rows: u64,
    cluster: ClusterName,
    /// Age of the view; `None` while the coordinator is there.
    age: Option<Duration>,
    pools: BTreeSet<i32>,
}

impl<'a> Picture<'a> {
    /// The picture of a plan that was made with `view`, which is of this age while the coordinator is away.
    pub(super) fn new(planned: &'a PlannedQuery, view: &RoutingView, age: Option<Duration>) -> Self {
        let snapshot = view.snapshot();
        let mut picture = Self {
            scans: planned.scans(),
            total_rows: planned.total_rows(),
            cluster: snapshot.cluster.clone(),
            age,
            pools: BTreeSet::new(),
        };
        let nodes = picture.nodes();
        let is_asked =
            |name: &NodeName| nodes.iter().any(|key| key.node == *name && key.cluster == snapshot.cluster);
        picture.pools =
            snapshot.nodes.iter().filter(|node| is_asked(&node.name)).map(|node| node.pool.0).collect();
        picture
    }

    /// Nodes that are asked.
    pub(super) fn nodes(&self) -> BTreeSet<&'a NodeKey> {
        self.scans.iter().flat_map(|scan| &scan.parts).map(|part| &part.node).collect()
    }

    /// Some segments are missing.
    pub(super) fn is_partial(&self) -> bool {
        self.scans.iter().any(|scan| !scan.unavailable.is_empty())
    }

    /// Some segments are missing, and there is nobody to ask.
    pub(super) fn is_nobody_to_ask(&self) -> bool {
        self.is_partial() && self.nodes().is_empty()
    }

    /// Causes for which segments are missing, each once.
    pub(super) fn causes(&self) -> BTreeSet<UnavailableCause> {
        self.scans.iter().flat_map(|scan| &scan.unavailable).map(|missing| missing.cause).collect()
    }

    /// Nodes that failed in this query and left segments without anybody else.
    pub(super) fn used_up(&self, failed: &BTreeSet<NodeKey>) -> BTreeSet<&'a NodeKey> {
        let missing = self.scans.iter().flat_map(|scan| &scan.unavailable);
        let used_up = missing.filter(|missing| missing.cause == UnavailableCause::RetriesUsedUp);
        used_up.flat_map(|missing| &missing.nodes).filter(|node| failed.contains(node)).collect()
    }

    /// Fills in the figures and the coverage of an answer for which all nodes that were asked gave their rows. The
    /// engine does not count segments with matching rows: it could be all of them.
    pub(super) fn fill_answered(&self, answer: &mut Answer, failed: &BTreeSet<NodeKey>) -> Option<Error> {
        let mut coverage = self.asked(answer, failed);
        coverage.nodes_answered = coverage.nodes_asked;
        for scan in self.scans {
            coverage.add_answered(scan.parts.iter().map(|part| part.segments.len() as u64).sum());
            coverage.segments_fail_open += scan.fail_open.len() as u64;
        }
        answer.num_servers_responded = coverage.nodes_answered;
        answer.num_segments_processed = coverage.segments_answered();
        answer.num_segments_matched = coverage.segments_answered();
        fill(answer, &coverage)
    }

    /// Fills in the figures and the coverage of an answer for which nobody was asked.
    pub(super) fn fill_refused(&self, answer: &mut Answer, failed: &BTreeSet<NodeKey>) -> Option<Error> {
        fill(answer, &self.coverage(failed))
    }

    /// Fills in the figures and the coverage of an answer without rows: what was asked is unavailable, for this cause.
    pub(super) fn fill_unanswered(
        &self,
        answer: &mut Answer,
        failed: &BTreeSet<NodeKey>,
        cause: UnavailableCause,
    ) -> Option<Error> {
        let mut coverage = self.asked(answer, failed);
        for scan in self.scans {
            for part in &scan.parts {
                let nodes = std::slice::from_ref(&part.node);
                part.segments
                    .iter()
                    .for_each(|at| coverage.add_unavailable(|| unavailable(scan, *at, cause, nodes)));
            }
        }
        fill(answer, &coverage)
    }

    /// What holds once nodes were asked, whether or not they answered.
    fn asked(&self, answer: &mut Answer, failed: &BTreeSet<NodeKey>) -> Coverage {
        let mut coverage = self.coverage(failed);
        let parts = self.scans.iter().flat_map(|scan| &scan.parts);
        coverage.nodes_asked = self.nodes().len() as u64;
        answer.num_servers_queried = coverage.nodes_asked;
        answer.num_segments_queried = parts.map(|part| part.segments.len() as u64).sum();
        answer.total_docs = self.total_rows;
        answer.pools = self.pools.iter().copied().collect();
        coverage
    }

    /// What holds before anybody is asked.
    fn coverage(&self, failed: &BTreeSet<NodeKey>) -> Coverage {
        let mut coverage = Coverage::default();
        coverage.nodes_failed = failed.len() as u64;
        coverage.routing_age.extend(self.age.map(|age| (self.cluster.clone(), age)));
        for scan in self.scans {
            let served: usize = scan.parts.iter().map(|part| part.segments.len()).sum();
            let unknown = scan.asked.len().saturating_sub(served + scan.unavailable.len());
            coverage.add_left_out(LeftOut::Pruned, scan.pruned.into());
            coverage.add_left_out(LeftOut::Unknown, unknown as u64);
            for missing in &scan.unavailable {
                coverage
                    .add_unavailable(|| unavailable(scan, missing.segment, missing.cause, &missing.nodes));
            }
        }
        coverage
    }
}

/// Puts the coverage into the answer, and returns the error that names the segments which are missing.
fn fill(answer: &mut Answer, coverage: &Coverage) -> Option<Error> {
    answer.partial_result |= coverage.is_partial();
    answer.num_segments_pruned_by_broker = coverage.left_out(LeftOut::Pruned);
    answer.coverage = CoverageBody::from(coverage);
    coverage.unavailable_message().map(|message| Error::new(ErrorCode::SegmentsUnavailable, message))
}

fn unavailable(
    scan: &CollectionScan,
    at: u32,
    cause: UnavailableCause,
    nodes: &[NodeKey],
) -> UnavailableSegment {
    let segment = &scan.collection.segments[at as usize];
    UnavailableSegment {
        collection: scan.collection.name.clone(),
        segment: segment.name.clone(),
        cause,
        nodes: nodes.to_vec(),
    }
}
