//! Which segments of a collection differ between two of its entries.

use std::{collections::BTreeSet, sync::Arc};

use imbl::Vector;
use pointsman_ids::{
    NodeId, SegmentName,
    feed::{CollectionChange, CollectionEntry, ReplicaEntry, SegmentEntry},
};

use crate::inputs::Step;

/// Where a segment of this name stands, or else where it would.
pub(crate) fn position(segments: &Vector<Arc<SegmentEntry>>, name: &SegmentName) -> Result<usize, usize> {
    segments.binary_search_by(|segment| segment.name.cmp(name))
}

/// Names of the segments that differ. `change` leads from `before` to `after`.
pub(crate) fn touched(
    before: &CollectionEntry,
    after: &CollectionEntry,
    change: &CollectionChange,
) -> BTreeSet<SegmentName> {
    if have_other_groups(&before.replicas, &after.replicas) {
        return before.segments.iter().chain(&after.segments).map(|segment| segment.name.clone()).collect();
    }
    let changed = change.segments.iter().map(|segment| &segment.name);
    let moved = change.copies.iter().map(|changed| &changed.segment);
    changed.chain(moved).chain(&change.removed).cloned().collect()
}

/// Names of the segments that have a copy on one of these nodes.
pub(crate) fn naming(entry: &CollectionEntry, nodes: &BTreeSet<NodeId>) -> BTreeSet<SegmentName> {
    let names = |segment: &&Arc<SegmentEntry>| segment.copies.iter().any(|copy| nodes.contains(&copy.node));
    entry.segments.iter().filter(names).map(|segment| segment.name.clone()).collect()
}

/// Whether a copy that did not change may belong to another group than before.
fn have_other_groups(before: &[ReplicaEntry], after: &[ReplicaEntry]) -> bool {
    before.iter().zip(after).any(|(before, after)| before.group != after.group)
}

/// One segment that differs, and the step that it makes.
#[derive(Clone, Debug)]
pub(crate) struct Touch<'a> {
    pub(crate) name: SegmentName,
    pub(crate) step: Step,
    /// What is said of it now; `None`: it goes.
    pub(crate) segment: Option<&'a SegmentEntry>,
}

impl<'a> Touch<'a> {
    /// A segment comes in.
    pub(crate) fn insert(at: usize, segment: &'a SegmentEntry) -> Self {
        Self { name: segment.name.clone(), step: Step::Insert(place(at)), segment: Some(segment) }
    }

    /// A segment goes.
    pub(crate) fn remove(at: usize, segment: &SegmentEntry) -> Self {
        Self { name: segment.name.clone(), step: Step::Remove(place(at)), segment: None }
    }
}

/// The steps of the touched segments, by name. As the names ascend, what lies before one is as in `after` already: its
/// place there is its place at the moment of the step.
pub(crate) fn touches<'a>(
    before: &Vector<Arc<SegmentEntry>>,
    after: &'a Vector<Arc<SegmentEntry>>,
    touched: BTreeSet<SegmentName>,
) -> Vec<Touch<'a>> {
    let touch = |name: SegmentName| {
        let (at, segment) = match position(after, &name) {
            Ok(at) => (at, after.get(at).map(AsRef::as_ref)),
            Err(at) => (at, None),
        };
        // Most changes neither add nor remove: then it stands where it stood.
        let stands = before.get(at).is_some_and(|known| known.name == name);
        let was_there = stands || position(before, &name).is_ok();
        let step = match (was_there, segment) {
            (true, Some(_)) => Step::Set(place(at)),
            (false, Some(_)) => Step::Insert(place(at)),
            (true, None) => Step::Remove(place(at)),
            (false, None) => return None,
        };
        Some(Touch { name, step, segment })
    };
    touched.into_iter().filter_map(touch).collect()
}

/// A position as states write it. No collection has more segments than that.
pub(crate) fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
