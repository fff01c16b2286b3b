//! What changed since decisions were made last, so that each costs what changed and not what there is.
//!
//! Stores are persistent maps: two versions share what did not change, and their difference is found without looking at
//! the rest. Rows of segments note themselves that they changed.

mod seen;

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionId, NodeName, SegmentId};

pub use self::seen::Seen;
use crate::Stores;

/// What changed of one collection. All of it but the segments counts as changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether every segment of its targets has to be looked at.
    pub all: bool,
    /// Segments that have to be looked at.
    pub segments: BTreeSet<SegmentId>,
}

/// What changed, by collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    collections: BTreeMap<CollectionId, Change>,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.collections.is_empty()
    }

    /// What changed of a collection; `None`: nothing.
    pub fn of(&self, collection: CollectionId) -> Option<&Change> {
        self.collections.get(&collection)
    }

    /// Collections of which something changed, with what.
    pub fn iter(&self) -> impl Iterator<Item = (CollectionId, &Change)> {
        self.collections.iter().map(|(id, change)| (*id, change))
    }

    /// Something of the collection changed that is no segment.
    pub fn note(&mut self, collection: CollectionId) -> &mut Change {
        self.collections.entry(collection).or_default()
    }

    /// Everything of the collection has to be looked at.
    pub fn note_all(&mut self, collection: CollectionId) {
        self.note(collection).all = true;
    }

    /// A segment changed.
    pub fn note_segment(&mut self, collection: CollectionId, segment: SegmentId) {
        self.note(collection).segments.insert(segment);
    }

    /// Adds what changed besides.
    pub fn extend(&mut self, other: &Self) {
        for (collection, change) in &other.collections {
            let own = self.note(*collection);
            own.all |= change.all;
            if own.segments.is_empty() {
                own.segments.clone_from(&change.segments);
            } else {
                own.segments.extend(&change.segments);
            }
        }
    }
}

impl Stores {
    /// What changed since this was asked for last. Brings the rows of segments up to date with targets.
    pub fn changes(&mut self) -> Changes {
        let mut seen = std::mem::take(&mut self.seen);
        let changes = seen.look(self);
        self.seen = seen;
        changes
    }

    /// Others may try now what failed, of one collection or of all.
    fn touch_failures(&mut self, of: Option<CollectionId>) {
        for segment in self.failures.keys() {
            let row = self.whereabouts.row(*segment);
            if of.is_none() || row.is_some_and(|row| of == Some(row.collection())) {
                self.whereabouts.touch(*segment);
            }
        }
    }

    /// Notes whatever has to do with a node, of one collection or of all.
    fn note_node(&self, node: &NodeName, of: Option<CollectionId>, changes: &mut Changes) {
        let Some(index) = self.whereabouts.index(node.as_str()) else { return };
        for segment in self.whereabouts.on(index) {
            let Some(row) = self.whereabouts.row(segment) else { continue };
            if row.is_described() && of.is_none_or(|of| of == row.collection()) {
                let change = changes.note(row.collection());
                // Where everything is looked at, what targets list is looked at anyway.
                if !(change.all && row.is_wanted()) {
                    change.segments.insert(segment);
                }
            }
        }
    }
}
