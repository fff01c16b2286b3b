//! Whom one attempt asks for what: the figures and the coverage report of its answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_engine::{CollectionScan, PlannedQuery};
use pointsman_ids::{
    ClusterName, CollectionName, Error, ErrorCode, NodeKey, SegmentName, UnavailableCause,
    feed::CollectionEntry,
};
use pointsman_routing::RoutingView;
use pointsman_scatter::{Coverage, LeftOut, UnavailableSegment};

use super::{
    router::{self, AttemptRouter},
    tries::Tries,
};
use crate::answer::{Answer, CoverageBody};

/// The routing of a query: what is asked of whom, as far as it has come.
#[derive(Debug)]
pub(super) struct Picture {
    scans: Arc<Vec<CollectionScan>>,
    total_rows: u64,
    /// Age of the routing of each cluster whose coordinator is away.
    ages: BTreeMap<ClusterName, Duration>,
    /// Clusters that the collections span and of which nothing is known.
    not_connected: BTreeSet<ClusterName>,
    left_out: BTreeMap<CollectionName, router::LeftOut>,
    pools: BTreeSet<i32>,
}

impl Picture {
    /// The picture of a plan that `router` routes. `ages` are those of the routing of clusters whose coordinator is away.
    pub(super) fn new(
        planned: &PlannedQuery,
        router: &AttemptRouter,
        ages: BTreeMap<ClusterName, Duration>,
    ) -> Self {
        let scans = planned.scans();
        let router::Noted { nodes, left_out, .. } = router.noted();
        let parts = scans.iter().flat_map(|scan| &scan.parts);
        let pools = parts.filter_map(|part| nodes.get(&part.node)).map(|node| node.pool.0).collect();
        let collections = scans.iter().map(|scan| &*scan.collection);
        let not_connected = collections.flat_map(|entry| not_connected(router.view(), entry)).collect();
        Self { total_rows: planned.total_rows(), ages, not_connected, left_out, pools, scans }
    }

    /// Nodes that are asked.
    pub(super) fn nodes(&self) -> BTreeSet<&NodeKey> {
        self.scans.iter().flat_map(|scan| &scan.parts).map(|part| &part.node).collect()
    }

    /// What is missing without a segment that tells of it: clusters that are not connected, and parts of others that cannot
    /// be chosen and of which no segment is known yet.
    pub(super) fn missing_clusters(&self) -> Vec<Error> {
        let tells = |collection: &CollectionName| {
            self.scans.iter().any(|scan| scan.collection.name == *collection && !scan.unavailable.is_empty())
        };
        let untold = self.left_out.iter().filter(|(collection, _)| !tells(collection));
        let refused = untold.flat_map(|(collection, left_out)| {
            let text =
                move |cluster: &ClusterName| format!("collection '{collection}' in cluster '{cluster}'");
            left_out.refused.iter().map(move |(cluster, error)| error.clone().context(text(cluster)))
        });
        let names: Vec<&str> = self.not_connected.iter().map(ClusterName::as_str).collect();
        let not_connected = (!names.is_empty()).then(|| {
            let text = format!("{} clusters not connected: [{}]", names.len(), names.join(", "));
            Error::new(ErrorCode::ClusterNotConnected, text)
        });
        refused.chain(not_connected).collect()
    }

    /// Segments are missing, or clusters that may hold some.
    pub(super) fn is_partial(&self) -> bool {
        self.lacks_segments() || !self.missing_clusters().is_empty()
    }

    fn lacks_segments(&self) -> bool {
        self.scans.iter().any(|scan| !scan.unavailable.is_empty())
    }

    /// Some segments are missing, and there is nobody to ask.
    pub(super) fn is_nobody_to_ask(&self) -> bool {
        self.lacks_segments() && self.nodes().is_empty()
    }

    /// Causes for which segments are missing, each once.
    pub(super) fn causes(&self) -> BTreeSet<UnavailableCause> {
        self.scans.iter().flat_map(|scan| &scan.unavailable).map(|missing| missing.cause).collect()
    }

    /// Nodes that failed in this query and left segments without anybody else.
    pub(super) fn used_up(&self, failed: &BTreeSet<NodeKey>) -> BTreeSet<&NodeKey> {
        let missing = self.scans.iter().flat_map(|scan| &scan.unavailable);
        let used_up = missing.filter(|missing| missing.cause == UnavailableCause::RetriesUsedUp);
        used_up.flat_map(|missing| &missing.nodes).filter(|node| failed.contains(node)).collect()
    }

    /// Fills in the figures and the coverage of an answer for which nodes were asked: what they answered counts, the
    /// rest is unavailable. The engine does not count segments with matching rows: it could be all of them.
    pub(super) fn fill_asked(&self, answer: &mut Answer, tries: &Tries) -> Option<Error> {
        let mut coverage = self.left_out();
        tries.cover(&mut coverage);
        // Nodes that failed in an attempt before this one, and whose segments nobody has taken over.
        let (asked, attempts) = (tries.nodes().asked, tries.attempts());
        let before = self.used_up(attempts.failed_nodes()).into_iter().filter(|node| !asked.contains(node));
        coverage.nodes_asked += before.count() as u64;
        let parts = self.scans.iter().flat_map(|scan| &scan.parts);
        answer.num_servers_queried = coverage.nodes_asked;
        answer.num_servers_responded = coverage.nodes_answered;
        answer.num_segments_queried = parts.map(|part| part.segments.len() as u64).sum();
        answer.num_segments_processed = coverage.segments_answered();
        answer.num_segments_matched = coverage.segments_answered();
        answer.total_docs = self.total_rows;
        answer.pools = self.pools.iter().copied().collect();
        self.fill(answer, &coverage)
    }

    /// Fills in the figures and the coverage of an answer for which nobody was asked, though some could have been.
    pub(super) fn fill_refused(&self, answer: &mut Answer, tries: &Tries) -> Option<Error> {
        let mut coverage = self.left_out();
        coverage.nodes_failed = tries.attempts().failed_nodes().len() as u64;
        for scan in &*self.scans {
            for missing in &scan.unavailable {
                coverage
                    .add_unavailable(|| unavailable(scan, missing.segment, missing.cause, &missing.nodes));
                if tries.was_tried_open(&scan.collection, missing.segment) {
                    coverage.add_fail_open(|| name(scan, missing.segment));
                }
            }
        }
        self.fill(answer, &coverage)
    }

    /// What does not have to be asked for.
    fn left_out(&self) -> Coverage {
        let mut coverage = Coverage::default();
        coverage.routing_age.clone_from(&self.ages);
        coverage.not_connected.clone_from(&self.not_connected);
        for scan in &*self.scans {
            let (new, optional) = self.left_out_of(scan);
            let served: usize = scan.parts.iter().map(|part| part.segments.len()).sum();
            let known = served + scan.unavailable.len() + new + optional;
            coverage.add_left_out(LeftOut::Pruned, scan.pruned.into());
            coverage.add_left_out(LeftOut::New, new as u64);
            coverage.add_left_out(LeftOut::OptionalSkipped, optional as u64);
            coverage.add_left_out(LeftOut::Unknown, scan.asked.len().saturating_sub(known) as u64);
        }
        coverage
    }

    /// How many segments of a scan were left out as new and as optional. What somebody answers for after all, or nobody
    /// any more, is not among them.
    fn left_out_of(&self, scan: &CollectionScan) -> (usize, usize) {
        let Some(left_out) = self.left_out.get(&scan.collection.name) else { return (0, 0) };
        let served = scan.parts.iter().flat_map(|part| part.segments.iter().copied());
        let seen: BTreeSet<u32> =
            served.chain(scan.unavailable.iter().map(|missing| missing.segment)).collect();
        (left_out.new.difference(&seen).count(), left_out.optional.difference(&seen).count())
    }

    /// Puts the coverage into the answer, and returns the error that names the segments which are missing.
    fn fill(&self, answer: &mut Answer, coverage: &Coverage) -> Option<Error> {
        answer.partial_result |= coverage.is_partial() || self.is_partial();
        answer.num_segments_pruned_by_broker = coverage.left_out(LeftOut::Pruned);
        answer.coverage = CoverageBody::from(coverage);
        coverage.unavailable_message().map(|message| Error::new(ErrorCode::SegmentsUnavailable, message))
    }
}

/// The coverage where routing refused all that was asked for, and the causes.
pub(super) fn unroutable(
    refused: BTreeMap<CollectionName, Vec<pointsman_routing::Unavailable>>,
    ages: BTreeMap<ClusterName, Duration>,
) -> (Coverage, BTreeSet<UnavailableCause>) {
    let mut coverage = Coverage::default();
    coverage.routing_age = ages;
    let mut causes = BTreeSet::new();
    for (collection, missing) in refused {
        for missing in missing {
            causes.insert(missing.cause);
            coverage.add_unavailable(|| UnavailableSegment {
                collection: collection.clone(),
                segment: missing.name,
                cause: missing.cause,
                nodes: missing.nodes,
            });
        }
    }
    (coverage, causes)
}

/// The clusters that a collection spans and of which nothing is known.
fn not_connected(view: &RoutingView, entry: &CollectionEntry) -> Vec<ClusterName> {
    let is_known =
        |name: &ClusterName| view.clusters().any(|(known, snapshot)| known == name && snapshot.is_some());
    entry.clusters.iter().filter(|name| !is_known(name)).cloned().collect()
}

fn unavailable(
    scan: &CollectionScan,
    at: u32,
    cause: UnavailableCause,
    nodes: &[NodeKey],
) -> UnavailableSegment {
    let (collection, segment) = name(scan, at);
    UnavailableSegment { collection, segment, cause, nodes: nodes.to_vec() }
}

fn name(scan: &CollectionScan, at: u32) -> (CollectionName, SegmentName) {
    (scan.collection.name.clone(), scan.collection.segments[at as usize].name.clone())
}
