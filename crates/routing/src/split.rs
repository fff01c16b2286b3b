//! The segments of a request, split by cluster.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use pointsman_ids::{SegmentName, feed::CollectionEntry};

use crate::{
    Wanted,
    spanning::Spanning,
    touched::{place, position},
};

/// The segments that are asked of one cluster, by its own positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requested<'a> {
    /// All that it has.
    All,
    /// These, in the order of the request.
    These(Cow<'a, [u32]>),
}

/// What is asked of each part.
#[derive(Debug)]
pub(crate) struct Split<'a> {
    pub(crate) parts: Vec<Requested<'a>>,
    /// How many requested segments no part has.
    pub(crate) unknown: u64,
}

impl<'a> Split<'a> {
    /// `entries` are those of the parts of `spanning`, in the same order.
    pub(crate) fn new(wanted: Wanted<'a>, spanning: &Spanning, entries: &[&Arc<CollectionEntry>]) -> Self {
        match wanted {
            Wanted::All => Self { parts: vec![Requested::All; spanning.parts.len()], unknown: 0 },
            Wanted::Positions(positions) => by_position(positions, spanning),
            Wanted::Names(names) => by_name(names, entries),
        }
    }
}

fn by_position<'a>(positions: &'a [u32], spanning: &Spanning) -> Split<'a> {
    if let [only] = spanning.parts[..]
        && positions.iter().all(|position| *position < only.len)
    {
        return Split { parts: vec![Requested::These(positions.into())], unknown: 0 };
    }
    let end = spanning.parts.last().map_or(0, |last| last.start + last.len);
    let own = |part: &crate::spanning::Span| {
        Requested::These(positions.iter().filter_map(|position| part.own(*position)).collect())
    };
    let beyond: BTreeSet<_> = positions.iter().filter(|position| **position >= end).collect();
    Split { parts: spanning.parts.iter().map(own).collect(), unknown: beyond.len() as u64 }
}

fn by_name(names: &[SegmentName], entries: &[&Arc<CollectionEntry>]) -> Split<'static> {
    let mut parts = vec![vec![]; entries.len()];
    let mut unknown = BTreeSet::new();
    for name in names {
        let mut is_known = false;
        for (part, entry) in parts.iter_mut().zip(entries) {
            if let Ok(at) = position(&entry.segments, name) {
                part.push(place(at));
                is_known = true;
            }
        }
        if !is_known {
            unknown.insert(name);
        }
    }
    Split {
        parts: parts.into_iter().map(|part| Requested::These(part.into())).collect(),
        unknown: unknown.len() as u64,
    }
}
