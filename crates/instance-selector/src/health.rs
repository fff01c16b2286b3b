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
        let routable = nodes.routable().bits();
        let whole = self.groups.are_whole();
        // Leaf by leaf: the inner loop is all that a pass over a million segments consists of.
        for leaf in self.segments.leaves() {
            for state in leaf {
                let candidates = state.candidates();
                let usable: u32 = if whole {
                    candidates.iter().map(|candidate| u32::from(routable.contains(candidate.node()))).sum()
                } else {
                    self.count(state, |node| routable.contains(node))
                };
                if usable > 0 && !state.is_new() {
                    // Candidates of an old segment are among the nodes that should serve it, so the larger number of the
                    // two is theirs.
                    shares.add(usable, state.expected());
                } else if state.exists() && !state.is_new() {
                    shares.add(0, state.expected());
                    unavailable += 1;
                    let eligible = |node| nodes.is_enabled(node) && nodes.is_unhealthy(node);
                    fail_open_eligible += u64::from(self.count(state, eligible) > 0);
                }
            }
        }
        let (lowest_percent, segments_at_lowest) = shares.lowest();
        Health { lowest_percent, segments_at_lowest, unavailable, fail_open_eligible }
    }

    fn count(&self, state: &SegmentState, counts: impl Fn(NodeIndex) -> bool) -> u32 {
        let out = self.groups.out(state.group());
        let counted = |node| counts(node) && !out.contains(&node);
        state.candidates().iter().map(|candidate| u32::from(counted(candidate.node()))).sum()
    }
}

/// How many segments have which share, of those of which at least two replicas are expected.
#[derive(Debug)]
struct Shares {
    /// Of few replicas, by expected and usable: a division for each of a million segments would cost more than all else.
    few: [u64; Self::FEW * Self::FEW],
    many: BTreeMap<u32, u64>,
}

impl Default for Shares {
    fn default() -> Self {
        Self { few: [0; Self::FEW * Self::FEW], many: BTreeMap::new() }
    }
}

impl Shares {
    const FEW: usize = 8;

    fn add(&mut self, usable: u32, expected: u32) {
        let (usable_few, expected_few) = (usable as usize, expected as usize);
        if usable_few < Self::FEW && expected_few < Self::FEW {
            self.few[expected_few * Self::FEW + usable_few] += 1;
        } else {
            *self.many.entry(percent(usable, expected)).or_default() += 1;
        }
    }

    /// The lowest share in percent and how many segments have it.
    fn lowest(mut self) -> (u32, u64) {
        for (expected, row) in (0..).zip(self.few.chunks(Self::FEW)).skip(2) {
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
