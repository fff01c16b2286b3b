//! Where segments are, where they should be, and what nodes are told of it: one compact row per segment, and per node the
//! segments that have to do with it. What a change touches costs what it touches, whatever else there is.

mod row;
mod rows;
mod targets;

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionId, NodeName, SegmentId};

pub use self::row::{NodeIndex, Row, Slot};
use self::rows::Rows;
use crate::SegmentReport;

/// Rows of all segments that a target lists or a node has to do with.
#[derive(Clone, Debug, Default)]
pub struct Whereabouts {
    names: Vec<NodeName>,
    indexes: BTreeMap<NodeName, NodeIndex>,
    rows: Rows,
    /// By node: segments with a slot of it.
    on: Vec<BTreeSet<SegmentId>>,
    /// Segments of which something changed since that was asked for last, with their collections as far as known.
    news: BTreeMap<SegmentId, Option<CollectionId>>,
    /// By collection: segments that a target listed, and none lists any more, as long as a node has to do with them.
    unwanted: BTreeMap<CollectionId, BTreeSet<SegmentId>>,
}

impl Whereabouts {
    /// The index of a node, given once and for ever.
    pub fn intern(&mut self, node: &NodeName) -> NodeIndex {
        if let Some(index) = self.indexes.get(node) {
            return *index;
        }
        let index = NodeIndex::new(self.names.len());
        self.names.push(node.clone());
        self.on.push(BTreeSet::new());
        self.indexes.insert(node.clone(), index);
        index
    }

    /// The index of a node that has one.
    pub fn index(&self, node: &str) -> Option<NodeIndex> {
        self.indexes.get(node).copied()
    }

    /// The name of a node.
    pub fn name(&self, node: NodeIndex) -> Option<&NodeName> {
        self.names.get(node.get())
    }

    /// The name of every node that has an index, by index.
    pub fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.names.iter()
    }

    /// Every index.
    pub fn indexes(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0..self.names.len()).map(NodeIndex::new)
    }

    /// The row of a segment; `None`: nobody has to do with it.
    pub fn row(&self, segment: SegmentId) -> Option<&Row> {
        self.rows.get(segment)
    }

    /// Segments that a node holds, fetches, was told to hold or is the place of, ascending.
    pub fn on(&self, node: NodeIndex) -> impl Iterator<Item = SegmentId> + '_ {
        self.on.get(node.get()).into_iter().flatten().copied()
    }

    /// What a node reports, by segment.
    pub fn reports(&self, node: NodeIndex) -> impl Iterator<Item = (SegmentId, SegmentReport)> + '_ {
        self.on(node).filter_map(move |segment| Some((segment, self.reported(node, segment)?)))
    }

    /// What a node reports of a segment.
    pub fn reported(&self, node: NodeIndex, segment: SegmentId) -> Option<SegmentReport> {
        self.row(segment)?.slot(node)?.report()
    }

    /// Takes a node's word about a segment; `None`: it has nothing of it.
    pub fn report(&mut self, node: NodeIndex, segment: SegmentId, report: Option<SegmentReport>) {
        self.change(node, segment, |slot| slot.set_report(report));
    }

    /// Says whether a node is the place of a segment.
    pub fn place(&mut self, node: NodeIndex, segment: SegmentId, placed: bool) {
        self.change(node, segment, |slot| slot.set_placed(placed));
    }

    /// Says whether a node is told to hold a segment. That is no news: nothing is decided by what was told.
    pub fn wish(&mut self, node: NodeIndex, segment: SegmentId, wished: bool) {
        self.set(node, segment, |slot| slot.set_wished(wished));
    }

    /// Forgets all that a node reported.
    pub fn clear_reports(&mut self, node: NodeIndex) {
        for segment in self.on(node).collect::<Vec<_>>() {
            self.report(node, segment, None);
        }
    }

    /// Segments that no target of a collection lists any more, and that a node has to do with, ascending.
    pub fn unwanted(&self, collection: CollectionId) -> impl Iterator<Item = SegmentId> + '_ {
        self.unwanted.get(&collection).into_iter().flatten().copied()
    }

    /// Notes that something changed about a segment that its row does not hold.
    pub fn touch(&mut self, segment: SegmentId) {
        let row = self.rows.get(segment).filter(|row| row.is_described());
        let collection = row.map(Row::collection);
        self.note(segment, collection);
    }

    /// Something changed about a segment. What it belongs to is kept in mind, also when its row has gone since.
    fn note(&mut self, segment: SegmentId, collection: Option<CollectionId>) {
        let known = self.news.entry(segment).or_default();
        *known = collection.or(*known);
    }

    /// Segments of which something changed since this was asked for last, ascending, with their collections. Those that
    /// no target ever listed are not among them.
    pub(crate) fn take_news(&mut self) -> impl Iterator<Item = (CollectionId, SegmentId)> + use<> {
        std::mem::take(&mut self.news)
            .into_iter()
            .filter_map(|(segment, collection)| Some((collection?, segment)))
    }

    fn change(&mut self, node: NodeIndex, segment: SegmentId, change: impl FnOnce(&mut Slot)) {
        if let Some(collection) = self.set(node, segment, change) {
            self.note(segment, collection);
        }
    }

    /// Changes a slot. Gives the collection, as far as it is known, when that made another one of it.
    fn set(
        &mut self,
        node: NodeIndex,
        segment: SegmentId,
        change: impl FnOnce(&mut Slot),
    ) -> Option<Option<CollectionId>> {
        let on = self.on.get_mut(node.get())?;
        let row = self.rows.row(segment);
        let before = row.slot(node).unwrap_or_else(|| Slot::new(node));
        let mut after = before;
        change(&mut after);
        let changed = after != before;
        if changed {
            row.set_slot(after);
            if after.is_empty() {
                on.remove(&segment);
            } else if before.is_empty() {
                on.insert(segment);
            }
        }
        let (collection, is_empty) = (row.is_described().then(|| row.collection()), row.is_empty());
        if is_empty {
            self.remove(segment);
        }
        changed.then_some(collection)
    }

    /// Nobody has to do with the segment any more.
    fn remove(&mut self, segment: SegmentId) {
        let Some(row) = self.rows.remove(segment) else { return };
        if let Some(unwanted) = self.unwanted.get_mut(&row.collection()) {
            unwanted.remove(&segment);
            if unwanted.is_empty() {
                self.unwanted.remove(&row.collection());
            }
        }
    }
}
