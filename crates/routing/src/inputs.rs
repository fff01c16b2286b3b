//! Segments of the feed in the words of the selectors.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use pointsman_ids::{
    GroupNumber, NodeId,
    feed::{CollectionEntry, CopyEntry, ReplicaEntry, SegmentEntry},
};
use pointsman_instance_selector::{CopyInput, Edit, SegmentInput};

use crate::members::Names;

/// Segments that were read, one after the other.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    names: &'a Names,
    replicas: &'a [ReplicaEntry],
    /// The wall time that ages are measured at, nanoseconds since the Unix epoch.
    wall: u64,
    copies: Vec<CopyInput>,
    segments: Vec<Input>,
    unresolved: BTreeSet<NodeId>,
}

#[derive(Debug)]
struct Input {
    promoted: bool,
    age: Duration,
    copies: Range<usize>,
}

impl<'a> Inputs<'a> {
    /// Ready to read segments of `entry`.
    pub(crate) fn new(names: &'a Names, entry: &'a CollectionEntry, wall: u64) -> Self {
        let (copies, segments) = (vec![], vec![]);
        Self { names, replicas: &entry.replicas, wall, copies, segments, unresolved: BTreeSet::new() }
    }

    pub(crate) fn add(&mut self, segment: &SegmentEntry) {
        let start = self.copies.len();
        for copy in &segment.copies {
            match self.names.place(copy.node) {
                Some(node) => self.copies.push(CopyInput {
                    node,
                    group: group(self.replicas, copy),
                    assigned: copy.assigned,
                    observed: copy.observed,
                }),
                None => drop(self.unresolved.insert(copy.node)),
            }
        }
        let age = Duration::from_nanos(self.wall.saturating_sub(segment.created_at));
        self.segments.push(Input { promoted: segment.promoted, age, copies: start..self.copies.len() });
    }

    /// What was read, in the same order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SegmentInput<'_>> {
        self.segments.iter().map(|input| SegmentInput {
            promoted: input.promoted,
            age: input.age,
            copies: &self.copies[input.copies.clone()],
        })
    }

    /// The steps as edits; each that needs a segment takes the next that was read.
    pub(crate) fn edits<'s>(&'s self, steps: &'s [Step]) -> impl Iterator<Item = Edit<'s>> {
        let mut segments = self.iter();
        steps.iter().filter_map(move |step| {
            Some(match *step {
                Step::Set(at) => Edit::Set { at, segment: segments.next()? },
                Step::Insert(at) => Edit::Insert { at, segment: segments.next()? },
                Step::Remove(at) => Edit::Remove { at },
            })
        })
    }

    /// Ids of nodes that nobody has named yet: their copies could not be read.
    pub(crate) fn into_unresolved(self) -> BTreeSet<NodeId> {
        self.unresolved
    }
}

/// One step that makes new states of former ones. Positions are those at the moment of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Set(u32),
    Insert(u32),
    Remove(u32),
}

/// The resource group of the replica that a copy belongs to.
pub(crate) fn group(replicas: &[ReplicaEntry], copy: &CopyEntry) -> GroupNumber {
    replicas.get(copy.replica as usize).map_or(GroupNumber::NONE, |replica| replica.group)
}

/// Whether the segment is part of the universe: some node should serve it, or a current target holds it.
pub(crate) fn exists(segment: &SegmentEntry) -> bool {
    segment.promoted || segment.copies.iter().any(|copy| copy.assigned.is_some_and(|state| state.serves()))
}
