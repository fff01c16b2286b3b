//! The coverage report as it stands in an answer.

use std::collections::BTreeMap;

use pointsman_ids::{CollectionName, SegmentName};
use pointsman_scatter::{Coverage, LeftOut, UnavailableSegment};
use serde::Serialize;

/// Which segments and nodes an answer stands for. Asked = answered + unavailable always holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CoverageBody {
    segments_asked: u64,
    segments_answered: u64,
    segments_unavailable: u64,
    /// Segments for which an excluded node was asked, for want of others, answered or not.
    segments_fail_open: u64,
    /// Segments that did not have to be asked for, by reason.
    left_out: BTreeMap<&'static str, u64>,
    nodes_asked: u64,
    nodes_answered: u64,
    /// Nodes that failed under this query, whether or not a retry made it good.
    nodes_failed: u64,
    /// Age of the routing view in milliseconds, by cluster whose coordinator is away.
    routing_age: BTreeMap<String, u64>,
    /// The first ten at most.
    unavailable: Vec<UnavailableBody>,
    /// The first ten of those that count as fail-open, at most.
    fail_open: Vec<SegmentBody>,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct SegmentBody {
    collection: String,
    segment: String,
}

/// One segment that nobody answered for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct UnavailableBody {
    collection: String,
    segment: String,
    cause: &'static str,
    /// The nodes concerned, as `cluster/node`.
    nodes: Vec<String>,
}

impl From<&Coverage> for CoverageBody {
    fn from(coverage: &Coverage) -> Self {
        let age = |(cluster, age): (&pointsman_ids::ClusterName, &std::time::Duration)| {
            (cluster.to_string(), crate::millis(*age))
        };
        Self {
            segments_asked: coverage.segments_asked(),
            segments_answered: coverage.segments_answered(),
            segments_unavailable: coverage.segments_unavailable(),
            segments_fail_open: coverage.segments_fail_open,
            left_out: LeftOut::ALL.map(|reason| (reason.as_str(), coverage.left_out(reason))).into(),
            nodes_asked: coverage.nodes_asked,
            nodes_answered: coverage.nodes_answered,
            nodes_failed: coverage.nodes_failed,
            routing_age: coverage.routing_age.iter().map(age).collect(),
            unavailable: coverage.unavailable().iter().map(UnavailableBody::from).collect(),
            fail_open: coverage.fail_open().iter().map(SegmentBody::from).collect(),
        }
    }
}

impl Default for CoverageBody {
    /// The report of an answer that asked nobody.
    fn default() -> Self {
        Self::from(&Coverage::default())
    }
}

impl From<&(CollectionName, SegmentName)> for SegmentBody {
    fn from((collection, segment): &(CollectionName, SegmentName)) -> Self {
        Self { collection: collection.to_string(), segment: segment.to_string() }
    }
}

impl From<&UnavailableSegment> for UnavailableBody {
    fn from(unavailable: &UnavailableSegment) -> Self {
        Self {
            collection: unavailable.collection.to_string(),
            segment: unavailable.segment.to_string(),
            cause: unavailable.cause.as_str(),
            nodes: unavailable.nodes.iter().map(ToString::to_string).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pointsman_ids::{NodeKey, UnavailableCause};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_report_is_written_in_snake_case() {
        let mut coverage = Coverage::default();
        (coverage.nodes_asked, coverage.nodes_answered, coverage.nodes_failed) = (2, 2, 1);
        coverage.add_answered(3);
        coverage.add_left_out(LeftOut::Pruned, 4);
        coverage.routing_age.insert("local".parse().unwrap(), Duration::from_millis(1500));
        coverage.add_unavailable(|| UnavailableSegment {
            collection: "t".parse().unwrap(),
            segment: "s1".parse().unwrap(),
            cause: UnavailableCause::RetriesUsedUp,
            nodes: vec![NodeKey { cluster: "local".parse().unwrap(), node: "n1".parse().unwrap() }],
        });
        coverage.add_fail_open(|| ("t".parse().unwrap(), "s0".parse().unwrap()));
        let expected = json!({
            "segments_asked": 4, "segments_answered": 3, "segments_unavailable": 1, "segments_fail_open": 1,
            "left_out": {"pruned": 4, "unknown": 0, "new": 0, "optional_skipped": 0},
            "nodes_asked": 2, "nodes_answered": 2, "nodes_failed": 1,
            "routing_age": {"local": 1500},
            "unavailable": [
                {"collection": "t", "segment": "s1", "cause": "retries_used_up", "nodes": ["local/n1"]},
            ],
            "fail_open": [{"collection": "t", "segment": "s0"}],
        });
        assert_eq!(serde_json::to_value(CoverageBody::from(&coverage)).unwrap(), expected);
    }
}
