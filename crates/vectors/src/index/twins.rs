//! Rows whose vectors are equal. Only the first of them is in the graph: many equal ones would link to each other alone, and a
//! walk that came among them would not find out.

use super::mix;
use crate::Vectors;

/// Rows that are not in the graph, each with the one that stands there for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Twins {
    /// Those that stand for others, one after the other for each, ascending.
    firsts: Vec<u32>,
    /// Those that they stand for, ascending for each first.
    others: Vec<u32>,
}

impl Twins {
    /// The twins among `rows`, which are ascending. Two that are found equal are; some may be overlooked.
    pub(crate) fn find(vectors: Vectors<'_>, rows: impl Iterator<Item = u32>) -> Self {
        let mut hashed: Vec<(u64, u32)> = rows.map(|row| (hash(vectors.row(row)), row)).collect();
        hashed.sort_unstable();
        let alike = hashed.chunk_by(|a, b| a.0 == b.0).filter_map(|alike| alike.split_first());
        let pairs = alike.flat_map(|((_, first), others)| {
            let equal = others.iter().filter(|(_, other)| vectors.row(*other) == vectors.row(*first));
            equal.map(|(_, other)| (*first, *other))
        });
        let mut pairs: Vec<(u32, u32)> = pairs.collect();
        pairs.sort_unstable();
        let (firsts, others) = pairs.into_iter().unzip();
        Self { firsts, others }
    }

    /// From numbers as [`Twins::numbers`] gives them. `None`: they are not in order, or not below `count`.
    pub(crate) fn from_numbers(firsts: Vec<u32>, others: Vec<u32>, count: usize) -> Option<Self> {
        let below = firsts.iter().chain(&others).all(|row| (*row as usize) < count);
        let sorted = firsts.iter().zip(&others).is_sorted();
        (below && sorted && firsts.len() == others.len()).then_some(Self { firsts, others })
    }

    /// Those that stand for others, and as many others.
    pub(crate) fn numbers(&self) -> [&[u32]; 2] {
        [&self.firsts, &self.others]
    }

    /// Those that `first` stands for, ascending.
    pub(crate) fn of(&self, first: u32) -> &[u32] {
        if self.firsts.is_empty() {
            return &[];
        }
        let start = self.firsts.partition_point(|row| *row < first);
        let len = self.firsts[start..].partition_point(|row| *row == first);
        &self.others[start..start + len]
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        (self.firsts.capacity() + self.others.capacity()) * size_of::<u32>()
    }
}

/// The same for equal vectors; the two zeros are equal.
fn hash(vector: &[f32]) -> u64 {
    vector.iter().fold(0, |hash, value| mix(hash ^ u64::from((value + 0.0).to_bits())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_are_twins_of_the_first() {
        let numbers = [1.0, 2.0, 0.0, 1.0, 1.0, 2.0, -0.0, 1.0, 3.0, 3.0, 1.0, 2.0];
        let vectors = Vectors::new(&numbers, 2).unwrap();
        let twins = Twins::find(vectors, 0..6);
        assert_eq!([0, 1, 2, 4].map(|row| twins.of(row)), [&[2, 5][..], &[3], &[], &[]]);
        let [firsts, others] = twins.numbers().map(<[u32]>::to_vec);
        assert_eq!(Twins::from_numbers(firsts.clone(), others.clone(), 6), Some(twins));
        assert_eq!(Twins::from_numbers(firsts.clone(), others.clone(), 5), None);
        assert_eq!(Twins::from_numbers(others, firsts, 6), None);
    }
}
