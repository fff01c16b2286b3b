//! One of the usable candidates, segment after segment.

use crate::Candidate;

/// Takes one of a segment's usable candidates, in the order of the request.
pub(super) trait Chooser {
    /// Which of the candidates; there is at least one.
    fn choose(&mut self, usable: &[Candidate]) -> usize;

    /// The rule by which the next choice will be made.
    fn rule(&self) -> Rule;
}

/// The rule that made a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `balanced`: the usable candidates in turn; the turn's number is taken modulo how many there are.
    Turn(u64),
    /// The fixed replica of the collection: this number modulo how many usable candidates there are.
    Fixed(u64),
    /// The replica groups: this number modulo how many usable candidates there are.
    Replica(u64),
    /// Adaptive selection: the first by pool, statistics, score and name.
    Ranking,
    /// The first complete replica group of a placement partition; in it the last listed node that can take the segment.
    ReplicaGroup {
        /// The placement partition's number.
        partition: u32,
        /// The place of the group in the partition's list.
        group: u32,
    },
}

/// `balanced`: every segment takes the next of its candidates.
pub(super) struct Balanced {
    next: u64,
}

impl Balanced {
    pub(super) fn new(turn: u64) -> Self {
        Self { next: turn }
    }
}

impl Chooser for Balanced {
    #[inline]
    fn choose(&mut self, usable: &[Candidate]) -> usize {
        let taken = modulo(self.next, usable.len());
        self.next += 1;
        taken
    }

    fn rule(&self) -> Rule {
        Rule::Turn(self.next)
    }
}

/// Always the same of a segment's candidates.
pub(super) struct Fixed(pub(super) u64);

impl Chooser for Fixed {
    #[inline]
    fn choose(&mut self, usable: &[Candidate]) -> usize {
        modulo(self.0, usable.len())
    }

    fn rule(&self) -> Rule {
        Rule::Fixed(self.0)
    }
}

/// The replica group selectors: one index into each segment's candidates, or a few in turn.
pub(super) struct ReplicaGroups {
    start: u64,
    fixed: bool,
    /// `o` of the routing rules.
    offset: u64,
    /// `G` of the routing rules; at least 1.
    groups: u64,
}

impl ReplicaGroups {
    pub(super) fn new(turn: u64, groups: u64) -> Self {
        Self { start: turn, fixed: false, offset: 0, groups }
    }

    pub(super) fn fixed(hash: u64, groups: u64) -> Self {
        Self { start: hash, fixed: true, offset: 0, groups }
    }
}

impl Chooser for ReplicaGroups {
    #[inline]
    fn choose(&mut self, usable: &[Candidate]) -> usize {
        let taken = modulo(self.start + self.offset, usable.len());
        self.groups = self.groups.min(usable.len() as u64);
        self.offset += 1;
        if self.offset >= self.groups {
            // Also where a short list has just narrowed the groups.
            self.offset = self.offset.checked_rem(self.groups).unwrap_or(0);
        }
        taken
    }

    fn rule(&self) -> Rule {
        let index = self.start + self.offset;
        if self.fixed { Rule::Fixed(index) } else { Rule::Replica(index) }
    }
}

/// `number mod count`; 0 for an empty list. The usual numbers of replicas go without a division.
#[inline]
fn modulo(number: u64, count: usize) -> usize {
    let rest = match count {
        0 | 1 => 0,
        2 => number % 2,
        3 => number % 3,
        _ => number % count as u64,
    };
    // Below the length of a list, so it fits.
    rest as usize
}
