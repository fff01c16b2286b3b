//! The segments of a request, each once.

use std::{borrow::Cow, collections::BTreeSet};

use crate::{NodeIndex, Segments};

/// The segments of a request, in its order.
#[derive(Debug)]
pub(crate) enum Requested<'a> {
    /// So many, all that there are.
    All(u32),
    /// These.
    These {
        /// The segments, each once.
        list: Cow<'a, [u32]>,
        /// Whether they stand in the order of the states.
        ascends: bool,
    },
}

impl<'a> Requested<'a> {
    /// The segments of a request to so many segments.
    pub(super) fn new(segments: Segments<'a>, count: usize) -> Self {
        match segments {
            Segments::All => Self::All(NodeIndex::at(count).0),
            Segments::These(list) => {
                let ascends = ascends(list);
                let list = if ascends { Cow::Borrowed(list) } else { Cow::Owned(first_places(list, count)) };
                Self::These { list, ascends }
            }
        }
    }

    /// Whether they were asked for by name; else those that do not exist were not meant.
    pub(super) fn is_named(&self) -> bool {
        matches!(self, Self::These { .. })
    }

    /// Number of segments.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(count) => *count as usize,
            Self::These { list, .. } => list.len(),
        }
    }
}

/// Whether every segment comes after the one before.
fn ascends(list: &[u32]) -> bool {
    // To the end in any case: without a way out it takes many at a time.
    list.windows(2).fold(true, |ascends, pair| ascends & (pair[0] < pair[1]))
}

/// The list without what was named before.
fn first_places(list: &[u32], count: usize) -> Vec<u32> {
    // One bit per segment; positions beyond the end, which may be anything, in a set of their own.
    let mut seen = vec![0u64; count.div_ceil(64)];
    let mut beyond = BTreeSet::new();
    let is_first = |at: &u32| match seen.get_mut(*at as usize / 64) {
        Some(word) => {
            let bit = 1 << (at % 64);
            let first = *word & bit == 0;
            *word |= bit;
            first
        }
        None => beyond.insert(*at),
    };
    list.iter().copied().filter(is_first).collect()
}
