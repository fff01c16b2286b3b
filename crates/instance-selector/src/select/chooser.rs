//! One of the usable candidates, segment after segment.

use std::cmp::Ordering;

use crate::Candidate;

/// Takes one of a segment's usable candidates, in the order of the request.
pub(super) trait Chooser: Copy {
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
#[derive(Clone, Copy)]
pub(super) struct Balanced(Turn);

impl Balanced {
    pub(super) fn new(turn: u64) -> Self {
        Self(Turn::new(turn))
    }
}

impl Chooser for Balanced {
    #[inline]
    fn choose(&mut self, usable: &[Candidate]) -> usize {
        let taken = self.0.of(usable.len());
        self.0 = self.0.next();
        taken
    }

    fn rule(&self) -> Rule {
        Rule::Turn(self.0.number)
    }
}

/// Always the same of a segment's candidates.
#[derive(Clone, Copy)]
pub(super) struct Fixed(Turn);

impl Fixed {
    pub(super) fn new(hash: u64) -> Self {
        Self(Turn::new(hash))
    }
}

impl Chooser for Fixed {
    #[inline]
    fn choose(&mut self, usable: &[Candidate]) -> usize {
        self.0.of(usable.len())
    }

    fn rule(&self) -> Rule {
        Rule::Fixed(self.0.number)
    }
}

/// The replica group selectors with one group: one index into each segment's candidates.
#[derive(Clone, Copy)]
pub(super) struct OneReplica(Turn);

impl OneReplica {
    pub(super) fn new(turn: u64) -> Self {
        Self(Turn::new(turn))
    }
}

impl Chooser for OneReplica {
    #[inline]
    fn choose(&mut self, usable: &[Candidate]) -> usize {
        self.0.of(usable.len())
    }

    fn rule(&self) -> Rule {
        Rule::Replica(self.0.number)
    }
}

/// The replica group selectors: one index into each segment's candidates, or a few in turn.
#[derive(Clone, Copy)]
pub(super) struct ReplicaGroups {
    start: Turn,
    fixed: bool,
    /// The start and `o` of the routing rules behind it.
    turn: Turn,
    /// `G` of the routing rules; at least 1.
    groups: u64,
}

impl ReplicaGroups {
    pub(super) fn new(turn: u64, groups: u64) -> Self {
        let turn = Turn::new(turn);
        Self { start: turn, fixed: false, turn, groups }
    }

    pub(super) fn fixed(hash: u64, groups: u64) -> Self {
        Self { fixed: true, ..Self::new(hash, groups) }
    }
}

impl Chooser for ReplicaGroups {
    #[inline]
    fn choose(&mut self, usable: &[Candidate]) -> usize {
        let taken = self.turn.of(usable.len());
        self.groups = self.groups.min(usable.len() as u64);
        let offset = self.turn.number - self.start.number + 1;
        self.turn = match offset.cmp(&self.groups) {
            Ordering::Less => self.turn.next(),
            Ordering::Equal => self.start,
            // Only where a short list has just narrowed the groups.
            Ordering::Greater => Turn::new(self.start.number + offset % self.groups.max(1)),
        };
        taken
    }

    fn rule(&self) -> Rule {
        let index = self.turn.number;
        if self.fixed { Rule::Fixed(index) } else { Rule::Replica(index) }
    }
}

/// A number that is taken modulo the length of lists, mostly short ones: for these without a division.
#[derive(Clone, Copy)]
struct Turn {
    number: u64,
    /// The number modulo 3.
    third: usize,
}

impl Turn {
    fn new(number: u64) -> Self {
        Self { number, third: (number % 3) as usize }
    }

    #[inline]
    fn next(self) -> Self {
        Self { number: self.number + 1, third: if self.third == 2 { 0 } else { self.third + 1 } }
    }

    /// The number modulo `count`; 0 for an empty list.
    #[inline]
    fn of(self, count: usize) -> usize {
        if count == 3 {
            self.third
        } else if count < 3 {
            self.number as usize & count.saturating_sub(1)
        } else {
            // Below the length of a list, so it fits.
            (self.number % count as u64) as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Turn;

    #[test]
    fn turns_are_taken_modulo_the_length_of_the_list() {
        let mut turn = Turn::new(1_999_999_993);
        for number in 1_999_999_993u64..2_000_000_020 {
            for count in 1..9 {
                assert_eq!(turn.of(count) as u64, number % count as u64);
            }
            assert_eq!(turn.of(0), 0);
            turn = turn.next();
        }
    }
}
