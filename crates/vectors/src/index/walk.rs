//! A walk from row to row through one layer, always on from the nearest.

use std::{cmp::Reverse, collections::BinaryHeap, hint::black_box};

use super::graph::Layer;
use crate::{Neighbour, RowSet, Vectors, distance::Measure, neighbours::Nearest};

/// Numbers of a vector that are fetched from memory together.
const LINE: usize = 64 / size_of::<f32>();

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

    /// The `most` nearest rows of `accept` that a walk from `entries` comes by. It ends where nothing nearer than all of them is
    /// left to go on from. `None`: it would have had to look at more than `budget` rows.
    pub(crate) fn walk(
        &mut self,
        layer: &Layer,
        measure: &Measure<'_>,
        entries: &[u32],
        most: usize,
        accept: Option<&RowSet>,
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
                if way.distance <= found.bound() {
                    self.frontier.push(Reverse(way));
                    if accept.is_none_or(|set| set.contains(row)) {
                        found.offer(Neighbour { distance, row });
                    }
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
