//! A walk from row to row through one layer, always on from the nearest.

use std::{cmp::Reverse, collections::BinaryHeap, hint::black_box};

use super::{graph::Layer, twins::Twins};
use crate::{Neighbour, RowSet, Vectors, distance::Measure, neighbours::Nearest};

/// Numbers of a vector that are fetched from memory together.
const LINE: usize = 64 / size_of::<f32>();

/// Which rows may be found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted<'a> {
    /// These alone; `None`: all.
    pub(crate) accept: Option<&'a RowSet>,
    /// With those that they stand for.
    pub(crate) twins: Option<&'a Twins>,
}

impl Wanted<'_> {
    /// Offers a row that a walk came by, and those that it stands for.
    fn offer(&self, found: &mut Nearest, distance: f32, row: u32) {
        let twins = self.twins.map_or(&[][..], |twins| twins.of(row));
        for row in [row].iter().chain(twins).copied() {
            // They are ascending: of equally near ones no later is taken.
            if self.accept.is_none_or(|set| set.contains(row)) && !found.offer(Neighbour { distance, row }) {
                break;
            }
        }
    }
}

/// Memory of a walk, for the next one to use again.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    vectors: Vectors<'a>,
    /// A bit per row.
    visited: Vec<u64>,
    frontier: BinaryHeap<Reverse<Neighbour>>,
    fresh: Vec<u32>,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(vectors: Vectors<'a>) -> Self {
        let visited = vec![0; vectors.rows().div_ceil(64)];
        Self { vectors, visited, frontier: BinaryHeap::new(), fresh: Vec::new() }
    }

    /// The `most` nearest wanted rows that a walk from `entries` comes by. It ends where nothing nearer than all of them is left
    /// to go on from, so among many that are equally near it does not go on for long. `None`: it would have had to look at more than `budget` rows.
    pub(crate) fn walk(
        &mut self,
        layer: &Layer,
        measure: &Measure<'_>,
        entries: &[u32],
        most: usize,
        wanted: Wanted<'_>,
        budget: usize,
    ) -> Option<Nearest> {
        self.visited.fill(0);
        self.frontier.clear();
        let mut found = Nearest::new(most, self.vectors.rows());
        let mut left = budget;
        let mut links = entries;
        loop {
            self.visit(links);
            left = left.checked_sub(self.fresh.len())?;
            for &row in &self.fresh {
                let distance = measure.to(self.vectors.row(row));
                // Where nothing can be said of a row, its links may still lead on.
                let way =
                    Neighbour { distance: if distance.is_nan() { f32::INFINITY } else { distance }, row };
                if !found.is_full() || way.distance < found.bound() {
                    self.frontier.push(Reverse(way));
                    wanted.offer(&mut found, distance, row);
                }
            }
            match self.frontier.pop() {
                Some(Reverse(next)) if next.distance <= found.bound() => links = layer.links_of(next.row),
                _ => return Some(found),
            }
        }
    }

    /// Makes `fresh` those of `rows` that were not visited, and has their numbers come from memory side by side.
    fn visit(&mut self, rows: &[u32]) {
        self.fresh.clear();
        for &row in rows {
            if let Some(word) = self.visited.get_mut(row as usize / 64) {
                let bit = 1 << (row % 64);
                if *word & bit == 0 {
                    *word |= bit;
                    self.fresh.push(row);
                }
            }
        }
        let lines = self.fresh.iter().flat_map(|&row| self.vectors.row(row).iter().step_by(LINE));
        black_box(lines.fold(0, |all, value| all ^ value.to_bits()));
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::request::Metric;

    use super::*;

    /// Rows on a line, each linked to both beside it.
    fn line(rows: u32) -> Layer {
        let mut layer = Layer::new(None, rows as usize, 2);
        for row in 0..rows {
            let beside: Vec<u32> =
                row.checked_sub(1).into_iter().chain([row + 1]).filter(|to| *to < rows).collect();
            layer.set(row, &beside);
        }
        layer
    }

    #[test]
    fn a_walk_goes_on_from_the_nearest_and_ends_with_its_budget() {
        let numbers: Vec<f32> = (0..100_u8).map(f32::from).collect();
        let vectors = Vectors::new(&numbers, 1).unwrap();
        let measure = Measure::new(Metric::L2, &[60.2]);
        let mut walker = Walker::new(vectors);
        let mut found = |most, accept: Option<&RowSet>, budget| {
            let found =
                walker.walk(&line(100), &measure, &[50], most, Wanted { accept, twins: None }, budget)?;
            Some(found.into_sorted().iter().map(|found| found.row).collect::<Vec<_>>())
        };
        assert_eq!(found(3, None, 100), Some(vec![60, 61, 59]));
        assert_eq!(found(1, None, 20), Some(vec![60]));
        let far = RowSet::new(100, |row| row < 2);
        assert_eq!(found(2, Some(&far), 100), Some(vec![1, 0]), "the way to them leads through others");
        assert_eq!(found(2, Some(&far), 70), None);
    }

    #[test]
    fn among_equally_near_rows_a_walk_ends_when_it_has_found_enough() {
        let vectors = Vectors::new(&[1.0; 100], 1).unwrap();
        let measure = Measure::new(Metric::L2, &[0.0]);
        let found = Walker::new(vectors).walk(&line(100), &measure, &[50], 3, Wanted::default(), 5);
        assert_eq!(found.map(|found| found.into_sorted().len()), Some(3));
    }
}
