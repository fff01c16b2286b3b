//! The rows with the smallest keys.

use std::collections::BinaryHeap;

use arrow::row::Rows;
use pointsman_ids::Result;

use super::limits::answer_fits;

/// A row by its key: as bytes that compare as keys do, empty where the collection has none, then by segment and row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Keyed {
    pub(super) key: Box<[u8]>,
    /// Place among the segments of the request, which are in the order of their numbers.
    pub(super) segment: usize,
    pub(super) row: u32,
}

/// The first `most` of those offered.
#[derive(Debug)]
pub(super) struct Smallest {
    heap: BinaryHeap<Keyed>,
    most: usize,
    /// Bytes of their keys.
    bytes: usize,
}

impl Smallest {
    pub(super) fn new(most: usize) -> Self {
        Self { heap: BinaryHeap::new(), most, bytes: 0 }
    }

    /// Offers rows of a segment, each with its key; `None`: there are no keys.
    ///
    /// # Errors
    /// `parameter_too_large` when the keys alone take more than an answer may.
    pub(super) fn offer(
        &mut self,
        segment: usize,
        rows: impl Iterator<Item = u32>,
        keys: Option<&Rows>,
    ) -> Result<()> {
        for (at, row) in rows.enumerate() {
            let key = keys.map(|keys| keys.row(at));
            let key = key.as_ref().map_or(&[][..], |key| key.data());
            if !self.beats_last(key, segment, row) {
                continue;
            }
            self.push(Keyed { key: key.into(), segment, row })?;
        }
        Ok(())
    }

    /// Takes in what another has.
    ///
    /// # Errors
    /// As [`Self::offer`].
    pub(super) fn take_in(&mut self, other: Self) -> Result<()> {
        for keyed in other.heap {
            if self.beats_last(&keyed.key, keyed.segment, keyed.row) {
                self.push(keyed)?;
            }
        }
        Ok(())
    }

    fn beats_last(&self, key: &[u8], segment: usize, row: u32) -> bool {
        self.heap.len() < self.most
            || self.heap.peek().is_some_and(|last| (key, segment, row) < (&*last.key, last.segment, last.row))
    }

    fn push(&mut self, keyed: Keyed) -> Result<()> {
        self.bytes += keyed.key.len();
        self.heap.push(keyed);
        if self.heap.len() > self.most
            && let Some(last) = self.heap.pop()
        {
            self.bytes -= last.key.len();
        }
        answer_fits(self.bytes)
    }

    pub(super) fn is_full(&self) -> bool {
        self.heap.len() >= self.most
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn into_sorted(self) -> Vec<Keyed> {
        self.heap.into_sorted_vec()
    }
}
