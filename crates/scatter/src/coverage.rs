//! What an answer rests on.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use pointsman_ids::{ClusterName, CollectionName, NodeKey, SegmentName, UnavailableCause};

/// How many unavailable segments a report lists at most, and how many fail-open ones.
pub const MAX_LISTED: usize = 10;

/// Why a segment of a collection did not have to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftOut {
    /// Its statistics say that it has no row for the query.
    Pruned,
    /// Catalog and routing are two snapshots, and the routing does not know it.
    Unknown,
    /// It is being loaded for the first time.
    New,
    /// It was optional, and its node had nothing else to do.
    OptionalSkipped,
}

impl LeftOut {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Pruned, Self::Unknown, Self::New, Self::OptionalSkipped];

    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pruned => "pruned",
            Self::Unknown => "unknown",
            Self::New => "new",
            Self::OptionalSkipped => "optional_skipped",
        }
    }
}

/// A segment that nobody answered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnavailableSegment {
    /// Its collection.
    pub collection: CollectionName,
    /// Its name.
    pub segment: SegmentName,
    /// Why.
    pub cause: UnavailableCause,
    /// The nodes concerned.
    pub nodes: Vec<NodeKey>,
}

/// What an answer rests on. Segments that were left out are neither asked nor answered nor unavailable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Segments that the query had to have: [`Self::segments_answered`] and [`Self::segments_unavailable`] together.
    segments_asked: u64,
    segments_answered: u64,
    segments_unavailable: u64,
    /// Segments for which an excluded node was asked because nothing healthy held them, answered or not.
    pub segments_fail_open: u64,
    /// Segments that did not have to be asked for, by reason.
    left_out: BTreeMap<LeftOut, u64>,
    /// Distinct nodes of the final routing.
    pub nodes_asked: u64,
    /// Those of them that answered completely.
    pub nodes_answered: u64,
    /// Nodes that failed under the query, made good by others or not.
    pub nodes_failed: u64,
    /// Age of the routing of each cluster whose coordinator is away.
    pub routing_age: BTreeMap<ClusterName, Duration>,
    /// Clusters that the query was meant for and of which no snapshot has ever come.
    pub not_connected: BTreeSet<ClusterName>,
    unavailable: Vec<UnavailableSegment>,
    fail_open: Vec<(CollectionName, SegmentName)>,
}

impl Coverage {
    /// Counts segments that were answered.
    pub fn add_answered(&mut self, segments: u64) {
        self.segments_asked += segments;
        self.segments_answered += segments;
    }

    /// Counts a segment that nobody answered for. The first [`MAX_LISTED`] are listed; `describe` is called for
    /// those alone.
    pub fn add_unavailable(&mut self, describe: impl FnOnce() -> UnavailableSegment) {
        self.segments_asked += 1;
        self.segments_unavailable += 1;
        if self.unavailable.len() < MAX_LISTED {
            self.unavailable.push(describe());
        }
    }

    /// Counts a segment for which an excluded node was asked because nothing healthy held it; it is counted as answered
    /// or unavailable besides. The first [`MAX_LISTED`] are listed; `describe` is called for those alone.
    pub fn add_fail_open(&mut self, describe: impl FnOnce() -> (CollectionName, SegmentName)) {
        self.segments_fail_open += 1;
        if self.fail_open.len() < MAX_LISTED {
            self.fail_open.push(describe());
        }
    }

    /// Counts segments that did not have to be asked for.
    pub fn add_left_out(&mut self, reason: LeftOut, segments: u64) {
        *self.left_out.entry(reason).or_default() += segments;
    }

    /// Segments that the query had to have.
    pub fn segments_asked(&self) -> u64 {
        self.segments_asked
    }

    /// Segments that are in the answer.
    pub fn segments_answered(&self) -> u64 {
        self.segments_answered
    }

    /// Segments that are missing in the answer.
    pub fn segments_unavailable(&self) -> u64 {
        self.segments_unavailable
    }

    /// Segments that did not have to be asked for, for this reason.
    pub fn left_out(&self, reason: LeftOut) -> u64 {
        self.left_out.get(&reason).copied().unwrap_or_default()
    }

    /// The first unavailable segments, at most [`MAX_LISTED`].
    pub fn unavailable(&self) -> &[UnavailableSegment] {
        &self.unavailable
    }

    /// The first segments that were added as fail-open, at most [`MAX_LISTED`].
    pub fn fail_open(&self) -> &[(CollectionName, SegmentName)] {
        &self.fail_open
    }

    /// Whether a segment that was asked for is missing.
    pub fn is_partial(&self) -> bool {
        self.segments_unavailable > 0
    }

    /// The text of the exception for unavailable segments; `None` when there are none.
    pub fn unavailable_message(&self) -> Option<String> {
        let names: Vec<&str> = self.unavailable.iter().map(|listed| listed.segment.as_str()).collect();
        let names = names.join(", ");
        match self.segments_unavailable {
            0 => None,
            count if count as usize <= MAX_LISTED => Some(format!("{count} segments unavailable: [{names}]")),
            count => Some(format!("{count} segments unavailable, first {MAX_LISTED}: [{names}]")),
        }
    }
}

/// One line for people: `12 of 12 segments from 4 of 4 nodes, 3 pruned`.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segments_asked, segments_answered, nodes_asked, nodes_answered, .. } = self;
        write!(
            f,
            "{segments_answered} of {segments_asked} segments from {nodes_answered} of {nodes_asked} nodes"
        )?;
        let notes = [
            (self.segments_unavailable, "unavailable"),
            (self.segments_fail_open, "fail-open"),
            (self.nodes_failed, "nodes failed"),
            (self.not_connected.len() as u64, "clusters not connected"),
        ];
        let left_out = LeftOut::ALL.map(|reason| (self.left_out(reason), reason.as_str()));
        let mut notes = notes.into_iter().chain(left_out).filter(|(count, _)| *count > 0);
        notes.try_for_each(|(count, what)| write!(f, ", {count} {what}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unavailable(number: u32) -> UnavailableSegment {
        UnavailableSegment {
            collection: "t".parse().unwrap(),
            segment: format!("s{number}").parse().unwrap(),
            cause: UnavailableCause::AllExcluded,
            nodes: vec![],
        }
    }

    #[test]
    fn the_exception_lists_ten_segments_at_most() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.unavailable_message(), None);
        (0..2).for_each(|number| coverage.add_unavailable(|| unavailable(number)));
        assert_eq!(coverage.unavailable_message().unwrap(), "2 segments unavailable: [s0, s1]");
        (2..12).for_each(|number| coverage.add_unavailable(|| unavailable(number)));
        let message = coverage.unavailable_message().unwrap();
        assert_eq!(message, "12 segments unavailable, first 10: [s0, s1, s2, s3, s4, s5, s6, s7, s8, s9]");
    }

    #[test]
    fn the_line_for_people_names_what_is_not_as_usual() {
        let mut coverage =
            Coverage { nodes_asked: 4, nodes_answered: 4, nodes_failed: 1, ..Coverage::default() };
        coverage.add_answered(12);
        coverage.add_left_out(LeftOut::Pruned, 3);
        assert_eq!(coverage.to_string(), "12 of 12 segments from 4 of 4 nodes, 1 nodes failed, 3 pruned");
    }

    #[test]
    fn fail_open_segments_are_counted_and_the_first_listed() {
        let mut coverage = Coverage::default();
        coverage.add_answered(12);
        for number in 0..12 {
            coverage.add_fail_open(|| ("t".parse().unwrap(), format!("s{number}").parse().unwrap()));
        }
        assert_eq!((coverage.segments_fail_open, coverage.fail_open().len()), (12, MAX_LISTED));
        assert!(!coverage.is_partial());
        coverage.not_connected.insert("west".parse().unwrap());
        let line = "12 of 12 segments from 0 of 0 nodes, 12 fail-open, 1 clusters not connected";
        assert_eq!(coverage.to_string(), line);
    }

    proptest! {
        #[test]
        fn asked_is_answered_and_unavailable(steps in proptest::collection::vec((0..3u8, 0..100u32), 0..50)) {
            let mut coverage = Coverage::default();
            for (kind, count) in steps {
                match kind {
                    0 => coverage.add_answered(count.into()),
                    1 => coverage.add_unavailable(|| unavailable(count)),
                    _ => coverage.add_left_out(LeftOut::Pruned, count.into()),
                }
                let together = coverage.segments_answered() + coverage.segments_unavailable();
                prop_assert_eq!(coverage.segments_asked(), together);
                prop_assert!(coverage.unavailable().len() <= MAX_LISTED);
                prop_assert_eq!(coverage.is_partial(), coverage.segments_unavailable() > 0);
            }
        }
    }
}
