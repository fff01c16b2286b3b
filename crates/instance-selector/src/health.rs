//! How well the segments of a collection are replicated.

use std::collections::BTreeMap;

use crate::{NodeIndex, Nodes, States, segment::SegmentState};

/// The health of a collection's replicas with the nodes of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// The lowest share of usable nodes among those that are expected, over old segments with at least two; in percent,
    /// rounded down, 0 to 100. 100 when nothing was measured.
    pub lowest_percent: u32,
    /// Segments exactly at it; 0 when nothing was measured.
    pub segments_at_lowest: u64,
    /// Old segments that no routable node can answer for, of any replication.
    pub unavailable: u64,
    /// Unavailable segments with fail-open candidates.
    pub fail_open_eligible: u64,
}

impl States {
    /// The health of the replicas. One pass over the segments.
    pub fn health(&self, nodes: &Nodes) -> Health {
        let mut shares = Shares::default();
        let (mut unavailable, mut fail_open_eligible) = (0, 0);
        for state in self.segments.leaves().flatten().filter(|state| state.exists() && !state.is_new()) {
            let usable = self.count(state, |node| nodes.is_routable(node));
            if usable == 0 {
                unavailable += 1;
                let enabled = self.count(state, |node| nodes.is_enabled(node) && nodes.is_unhealthy(node));
                fail_open_eligible += u64::from(enabled > 0);
            }
            // Candidates of an old segment are among the nodes that should serve it, so these are the larger number.
            let expected = state.expected();
            if expected >= 2 {
                shares.add(usable, expected);
            }
        }
        let (lowest_percent, segments_at_lowest) = shares.lowest();
        Health { lowest_percent, segments_at_lowest, unavailable, fail_open_eligible }
    }

    fn count(&self, state: &SegmentState, counts: impl Fn(NodeIndex) -> bool) -> u32 {
        let out = if self.groups.are_whole() { &[] } else { self.groups.out(state.group()) };
        let counted = |node| counts(node) && !out.contains(&node);
        state.candidates().iter().map(|candidate| u32::from(counted(candidate.node()))).sum()
    }
}

/// How many segments have which share.
#[derive(Debug, Default)]
struct Shares {
    /// Of few replicas, by usable and expected: a division for each of a million segments would cost more than all else.
    few: [[u64; Self::FEW]; Self::FEW],
    many: BTreeMap<u32, u64>,
}

impl Shares {
    const FEW: usize = 8;

    fn add(&mut self, usable: u32, expected: u32) {
        match self.few.get_mut(expected as usize).and_then(|row| row.get_mut(usable as usize)) {
            Some(count) => *count += 1,
            None => *self.many.entry(percent(usable, expected)).or_default() += 1,
        }
    }

    /// The lowest share in percent and how many segments have it.
    fn lowest(mut self) -> (u32, u64) {
        for (expected, row) in (0..).zip(&self.few) {
            for (usable, count) in (0..).zip(row).filter(|(_, count)| **count > 0) {
                *self.many.entry(percent(usable, expected)).or_default() += count;
            }
        }
        self.many.into_iter().next().unwrap_or((100, 0))
    }
}

fn percent(usable: u32, expected: u32) -> u32 {
    u32::try_from(u64::from(usable) * 100 / u64::from(expected.max(1))).unwrap_or(u32::MAX).min(100)
}
