//! Tries of parts: what is routed again, what counts, and when the whole attempt starts over.

use std::collections::BTreeSet;

use pointsman_engine::Part;
use pointsman_ids::{
    CollectionId, ErrorCode, FeedVersion, GroupNumber, Incarnation, NodeKey, SegmentId,
    catalog::RoutingOptions,
    feed::{LoadState, SegmentEntry},
};
use pointsman_routing::{RoutedNode, RoutedPart};
use pointsman_scatter::Limits;
use url::Url;

use super::*;

const NOW: Duration = Duration::from_secs(1);

fn key(node: u16) -> NodeKey {
    NodeKey { cluster: "local".parse().unwrap(), node: format!("n{node}").parse().unwrap() }
}

fn url(node: u16) -> Url {
    Url::parse(&format!("http://127.0.0.1:{node}")).unwrap()
}

fn collection() -> Arc<CollectionEntry> {
    let segment = |at: u64| {
        Arc::new(SegmentEntry {
            promoted: true,
            id: SegmentId(at),
            name: format!("s{at}").parse().unwrap(),
            partition: 0,
            shard: 0,
            rows: 1,
            bytes: 1,
            created_at: 1,
            statistics: Arc::default(),
            copies: vec![],
        })
    };
    Arc::new(CollectionEntry {
        name: "t".parse().unwrap(),
        id: CollectionId(1),
        version: FeedVersion(1),
        routing: RoutingOptions::default(),
        query_timeout: None,
        key: None,
        vector_indexes: vec![],
        clusters: vec![],
        columns: vec![],
        partitions: vec!["default".parse().unwrap()],
        shards: vec!["shard-0".parse().unwrap()],
        load: LoadState::Serving,
        finished_groups: vec![],
        replicas: vec![],
        segments: (0..4).map(segment).collect(),
        leaders: vec![],
    })
}

/// Gives every segment to the first node that is left.
#[derive(Debug, Default)]
struct First {
    nodes: Vec<u16>,
    full: BTreeSet<u16>,
}

impl Choose for First {
    fn choose(
        &self,
        collection: &CollectionEntry,
        segments: &[u32],
        without: &BTreeSet<NodeKey>,
    ) -> Result<RoutingTable> {
        let node = self.nodes.iter().find(|node| !without.contains(&key(**node)));
        let part = node.map(|node| RoutedPart {
            node: Arc::new(RoutedNode {
                key: key(*node),
                url: url(*node),
                incarnation: Incarnation(1),
                pool: GroupNumber::NONE,
            }),
            segments: segments.to_vec(),
            optional: vec![],
        });
        let missing = |at: &u32| pointsman_routing::Unavailable {
            segment: *at,
            name: "s".parse().unwrap(),
            cause: UnavailableCause::AllExcluded,
            nodes: vec![],
            emptied_by: None,
        };
        Ok(RoutingTable {
            collection: Arc::new(collection.clone()),
            unavailable: if part.is_some() { vec![] } else { segments.iter().map(missing).collect() },
            parts: part.into_iter().collect(),
            fail_open: vec![],
            new: vec![],
            optional_skipped: vec![],
            unknown: 0,
            missing: vec![],
            refused: vec![],
            fail_open_gates: vec![],
        })
    }

    fn begin(&self, node: &NodeKey) -> Result<()> {
        if self.full.iter().any(|full| key(*full) == *node) {
            return Err(Error::new(ErrorCode::ServiceTooManyRequests, "full"));
        }
        Ok(())
    }
}

/// Segments 0 and 1 on node 1, 2 and 3 on node 2.
fn scan() -> CollectionScan {
    let part =
        |node: u16, segments: [u32; 2]| Part { node: key(node), url: url(node), segments: segments.into() };
    CollectionScan {
        collection: collection(),
        pruned: 0,
        asked: vec![0, 1, 2, 3],
        parts: vec![part(1, [0, 1]), part(2, [2, 3])],
        unavailable: vec![],
        fail_open: vec![],
    }
}

fn tries(max_attempts: u32, groups: [Option<u32>; 4]) -> Tries {
    let limits = Limits { max_attempts, timeout: Duration::from_secs(10) };
    let tries = Tries::new(Attempts::new(limits, Duration::ZERO));
    tries.sent(&[scan()], |_| groups.to_vec(), true, NOW).unwrap();
    tries
}

fn broke(node: u16) -> QueryError {
    QueryError::Unreachable { nodes: vec![url(node)], message: "reset".into() }
}

fn failed(node: u16, segments: &[u32], error: QueryError, lacking: &[u32]) -> FailedPart {
    let (segments, lacking) = (segments.to_vec(), lacking.to_vec());
    FailedPart {
        node: url(node),
        error,
        scans: vec![FailedScan { collection: collection(), segments, lacking }],
    }
}

fn reroute(tries: &Tries, node: u16, failed: &FailedPart, router: &First) -> Option<Routed> {
    match tries.reroute(failed, &key(node), failed.error.clone().into(), router, NOW) {
        Rerouted::Parts(routed) => routed.into_iter().next(),
        Rerouted::Whole => None,
    }
}

fn parts(routed: &Routed) -> Vec<(Url, Vec<u32>)> {
    routed.parts.iter().map(|part| (part.url.clone(), part.segments.clone())).collect()
}

#[test]
fn a_failed_part_goes_round_the_nodes_that_failed() {
    let tries = tries(3, [None; 4]);
    let router = First { nodes: vec![1, 3, 4], ..First::default() };
    let routed = reroute(&tries, 1, &failed(1, &[0, 1], broke(1), &[]), &router).unwrap();
    assert_eq!(parts(&routed), [(url(3), vec![0, 1])]);
    let routed = reroute(&tries, 3, &failed(3, &[0, 1], broke(3), &[]), &router).unwrap();
    assert_eq!(parts(&routed), [(url(4), vec![0, 1])]);
    tries.all_ended();
    assert_eq!(tries.nodes().answered, BTreeSet::from([key(2), key(4)]));
    assert_eq!(tries.nodes().failed, BTreeSet::from([key(1), key(3)]));
    assert!(tries.not_made_good().is_empty() && tries.verdict().is_none());
}

#[test]
fn a_segment_without_tries_left_is_unavailable_with_the_nodes_that_failed() {
    let tries = tries(2, [None; 4]);
    let router = First { nodes: vec![1, 3, 4], ..First::default() };
    reroute(&tries, 1, &failed(1, &[0, 1], broke(1), &[]), &router).unwrap();
    let routed = reroute(&tries, 3, &failed(3, &[0, 1], broke(3), &[]), &router).unwrap();
    assert!(routed.parts.is_empty());
    let missing = &routed.unavailable;
    assert_eq!(missing.iter().map(|missing| missing.segment).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(missing[0].cause, UnavailableCause::RetriesUsedUp);
    assert_eq!(missing[0].nodes, [key(1), key(3)]);
    tries.all_ended();
    let mut coverage = Coverage::default();
    tries.cover(&mut coverage);
    assert_eq!((coverage.segments_answered(), coverage.segments_unavailable()), (2, 2));
    assert_eq!((coverage.nodes_asked, coverage.nodes_answered, coverage.nodes_failed), (2, 1, 2));
    assert_eq!(tries.not_made_good().keys().collect::<Vec<_>>(), [&key(3)]);
}

#[test]
fn segments_that_nobody_else_has_are_unavailable() {
    let tries = tries(3, [None; 4]);
    let routed = reroute(&tries, 1, &failed(1, &[0, 1], broke(1), &[]), &First::default()).unwrap();
    assert_eq!((routed.parts.len(), routed.unavailable.len()), (0, 2));
    assert_eq!(routed.unavailable[0].cause, UnavailableCause::RetriesUsedUp);
    assert_eq!(routed.unavailable[0].nodes, [key(1)]);
}

#[test]
fn a_node_is_out_for_what_it_lacks_alone() {
    let tries = tries(3, [None; 4]);
    let router = First { nodes: vec![1, 3], ..First::default() };
    let lacks = QueryError::NotLoaded { node: Some(url(1)), segments: vec![] };
    let routed = reroute(&tries, 1, &failed(1, &[0, 1], lacks, &[1]), &router).unwrap();
    let parts: BTreeSet<_> = parts(&routed).into_iter().collect();
    assert_eq!(parts, BTreeSet::from([(url(1), vec![0]), (url(3), vec![1])]));
    tries.all_ended();
    assert_eq!(tries.nodes().failed, BTreeSet::new());
}

#[test]
fn a_node_without_a_place_is_gone_round() {
    let tries = tries(3, [None; 4]);
    let router = First { nodes: vec![1, 3, 4], full: BTreeSet::from([3]) };
    let routed = reroute(&tries, 1, &failed(1, &[0, 1], broke(1), &[]), &router).unwrap();
    assert_eq!(parts(&routed), [(url(4), vec![0, 1])]);
    assert!(routed.unavailable.is_empty());
}

#[test]
fn a_group_moves_whole_or_the_query_starts_over() {
    let router = First { nodes: vec![1, 3], ..First::default() };
    let together = tries(3, [Some(0), Some(0), Some(1), Some(1)]);
    let routed = reroute(&together, 1, &failed(1, &[0, 1], broke(1), &[]), &router).unwrap();
    assert_eq!(parts(&routed), [(url(3), vec![0, 1])]);
    let torn = tries(3, [Some(0), Some(1), Some(1), Some(0)]);
    assert_eq!(reroute(&torn, 1, &failed(1, &[0, 1], broke(1), &[]), &router), None);
    assert_eq!(torn.verdict(), Some(Decision::Again));
    assert_eq!(torn.verdict(), None, "it is told once");
    assert_eq!(torn.attempts().number(), 2);
    assert!(torn.attempts().failed_nodes().contains(&key(1)));
}

#[test]
fn what_a_segment_was_asked_for_counts_in_later_attempts() {
    let tries = tries(2, [None; 4]);
    let router = First { nodes: vec![1, 3], ..First::default() };
    reroute(&tries, 1, &failed(1, &[0, 1], broke(1), &[]), &router).unwrap();
    let reset = Error::new(ErrorCode::NodeNotAvailable, "reset");
    assert!(
        matches!(tries.broke(vec![key(2)], &reset, NOW), Decision::GiveUp(_)),
        "0 and 1 had their two tries"
    );
    let mut coverage = Coverage::default();
    tries.cover(&mut coverage);
    assert_eq!((coverage.segments_answered(), coverage.segments_unavailable()), (0, 4));
}

#[test]
fn all_nodes_of_a_broken_attempt_are_out() {
    let tries = tries(3, [None; 4]);
    let reset = Error::new(ErrorCode::NodeNotAvailable, "reset");
    assert_eq!(tries.broke(vec![key(2), key(9)], &reset, NOW), Decision::Again);
    assert_eq!(*tries.attempts().failed_nodes(), BTreeSet::from([key(2), key(9)]));
    tries.sent(&[scan()], |_| vec![None; 4], true, NOW).unwrap();
    tries.all_ended();
    assert_eq!(tries.nodes().answered.len(), 2);
}

#[test]
fn when_the_time_is_up_the_running_nodes_are_silent() {
    let tries = tries(3, [None; 4]);
    let silence = tries.time_is_up(&[scan()], &BTreeSet::from([key(2)]));
    assert_eq!((silence.nodes, silence.rows_count), (BTreeSet::from([key(2)]), true));
    let mut coverage = Coverage::default();
    tries.cover(&mut coverage);
    assert_eq!((coverage.segments_answered(), coverage.segments_unavailable()), (2, 2));
    assert_eq!(coverage.unavailable()[0].cause, UnavailableCause::NodeSilent);
}
