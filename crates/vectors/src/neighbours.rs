//! The nearest seen so far.

use std::{cmp::Ordering, collections::BinaryHeap};

/// A row and how far it is from the vector asked for. Neighbours are ordered by distance, equal ones by row.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    /// As the metric says; never NaN, never a negative zero. Infinite where numbers are too large for its computation.
    pub distance: f32,
    /// The row's number.
    pub row: u32,
}

impl Ord for Neighbour {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Neighbour {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Neighbour {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Neighbour {}

/// The `most` nearest of those offered. Which they are does not depend on the order of offers.
#[derive(Clone, Debug)]
pub(crate) struct Nearest {
    heap: BinaryHeap<Neighbour>,
    most: usize,
    /// Nothing farther is taken; NaN is not either.
    bound: f32,
}

impl Nearest {
    /// `most` of `rows` offers.
    pub(crate) fn new(most: usize, rows: usize) -> Self {
        let most = most.min(rows);
        // Nothing is at most NaN.
        let bound = if most == 0 { f32::NAN } else { f32::INFINITY };
        Self { heap: BinaryHeap::with_capacity(most), most, bound }
    }

    /// Takes a neighbour if it is among the nearest, and says whether it did.
    #[inline]
    pub(crate) fn offer(&mut self, neighbour: Neighbour) -> bool {
        neighbour.distance <= self.bound && self.take(neighbour)
    }

    fn take(&mut self, neighbour: Neighbour) -> bool {
        if !self.is_full() {
            self.heap.push(neighbour);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && neighbour < *worst
        {
            *worst = neighbour;
        } else {
            return false;
        }
        if self.is_full()
            && let Some(worst) = self.heap.peek()
        {
            self.bound = worst.distance;
        }
        true
    }

    /// Whether another one is taken only in place of one.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.heap.len() == self.most
    }

    /// Nothing farther than this is taken.
    #[inline]
    pub(crate) fn bound(&self) -> f32 {
        self.bound
    }

    /// Those taken, nearest first.
    pub(crate) fn into_sorted(self) -> Vec<Neighbour> {
        self.heap.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(most: usize, offers: &[(f32, u32)]) -> Vec<u32> {
        let mut nearest = Nearest::new(most, offers.len());
        for &(distance, row) in offers {
            nearest.offer(Neighbour { distance, row });
        }
        nearest.into_sorted().iter().map(|neighbour| neighbour.row).collect()
    }

    #[test]
    fn the_nearest_stay_and_equal_ones_by_row() {
        let offers = [(2.0, 1), (1.0, 9), (1.0, 3), (f32::NAN, 0), (1.0, 4), (f32::INFINITY, 2)];
        assert_eq!(rows(3, &offers), [3, 4, 9]);
        assert_eq!(rows(2, &offers), [3, 4]);
        assert_eq!(rows(9, &offers), [3, 4, 9, 1, 2]);
        assert_eq!(rows(0, &offers), [] as [u32; 0]);
    }
}
