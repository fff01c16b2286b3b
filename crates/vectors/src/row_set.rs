//! Which rows may answer.

use std::ops::Range;

/// A set of rows out of a known number, one bit each. Made once per filter, used for every vector asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSet {
    words: Vec<u64>,
    rows: usize,
    len: usize,
}

impl RowSet {
    /// Those of the first `rows` rows that `accept` accepts.
    pub fn new(rows: usize, mut accept: impl FnMut(usize) -> bool) -> Self {
        let word = |start: usize| {
            (start..rows.min(start + 64)).fold(0, |word, row| word | u64::from(accept(row)) << (row - start))
        };
        let words: Vec<u64> = (0..rows).step_by(64).map(word).collect();
        let len = words.iter().map(|word| word.count_ones() as usize).sum();
        Self { words, rows, len }
    }

    /// Rows that there are, in the set or not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows in the set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row is in the set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a row is in the set; one that does not exist is not.
    pub fn contains(&self, row: u32) -> bool {
        self.words.get(row as usize / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Rows of the set within a range, ascending.
    pub(crate) fn within(&self, range: Range<u32>) -> impl Iterator<Item = u32> {
        let words = range.start / 64..range.end.div_ceil(64);
        words.flat_map(move |at| {
            let start = at * 64;
            let mut word = self.words.get(at as usize).copied().unwrap_or(0);
            word &= u64::MAX << range.start.saturating_sub(start).min(63);
            if range.end - start < 64 {
                word &= (1 << (range.end - start)) - 1;
            }
            std::iter::from_fn(move || {
                (word != 0).then(|| {
                    let row = start + word.trailing_zeros();
                    word &= word - 1;
                    row
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_accepted() {
        for rows in [0, 1, 63, 64, 65, 200] {
            let set = RowSet::new(rows, |row| row % 3 == 0);
            assert_eq!(set.len(), rows.div_ceil(3));
            assert_eq!(set.is_empty(), rows == 0);
            for row in 0..300_u32 {
                assert_eq!(set.contains(row), row % 3 == 0 && (row as usize) < rows, "{row} of {rows}");
            }
        }
    }

    #[test]
    fn a_range_is_cut_at_both_ends() {
        let set = RowSet::new(200, |row| row % 3 == 0);
        for start in [0, 1, 3, 63, 64, 65, 128, 199, 200] {
            for end in
                (start..=200).step_by(7).chain([64, 128, 192, 200].into_iter().filter(|end| *end >= start))
            {
                let expected: Vec<u32> = (start..end).filter(|row| row % 3 == 0).collect();
                assert_eq!(set.within(start..end).collect::<Vec<_>>(), expected, "{start}..{end}");
            }
        }
    }
}
