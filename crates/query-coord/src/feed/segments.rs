//! What brokers are told of segments.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{
    NodeId, PartitionName, SegmentId, SegmentName, ShardName,
    feed::{CollectionChange, CollectionEntry, CopiesChange, CopyEntry, CopyState, SegmentEntry},
};

use crate::{CatalogSegment, Glance, Replica, Row, Seats, SegmentReport, Slot, Stores, copies_of};

/// Compares segments with how they stand in a former entry.
pub(super) struct Segments<'a> {
    stores: &'a Stores,
    former: &'a CollectionEntry,
    /// Whether segments of the next target are told as well.
    ahead: bool,
    glance: Glance,
    seats: Seats,
    replicas: usize,
    partitions: Places<PartitionName>,
    shards: Places<ShardName>,
    told: Vec<(SegmentName, Told)>,
}

enum Told {
    Gone,
    Copies(Vec<CopyEntry>),
    Entry(Arc<SegmentEntry>),
}

/// Names with their places; new ones come last.
struct Places<N> {
    names: Vec<N>,
    places: BTreeMap<N, u32>,
}

impl<N: Ord + Clone> Places<N> {
    fn new(names: &[N]) -> Self {
        let places = names.iter().cloned().zip(0..).collect();
        Self { names: names.to_vec(), places }
    }

    fn place(&mut self, name: &N) -> u32 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.clone());
        self.places.insert(name.clone(), place);
        place
    }
}

impl<'a> Segments<'a> {
    pub(super) fn new(stores: &'a Stores, former: &'a CollectionEntry, visible: &[Arc<Replica>]) -> Self {
        Self {
            stores,
            former,
            ahead: stores.serves_ahead(former.id),
            glance: Glance::of(stores),
            seats: Seats::of(stores, visible),
            replicas: visible.len(),
            partitions: Places::new(&former.partitions),
            shards: Places::new(&former.shards),
            told: Vec::new(),
        }
    }

    /// Notes what is new of a segment, if anything.
    pub(super) fn look(&mut self, id: SegmentId) {
        let Some(segment) = self.stores.segment(self.former.id, id) else { return };
        let name = &segment.segment.content.name;
        let known = self.former.segment(name).filter(|known| known.id == id);
        let told = |row: &&Row| row.is_current() || (self.ahead && row.is_wanted());
        let row = self.stores.whereabouts.row(id).filter(told);
        let told = match (known, row) {
            (None, None) => return,
            (Some(_), None) => Told::Gone,
            (Some(known), Some(row)) if known.promoted == row.is_current() => match self.copies(row) {
                copies if copies == known.copies => return,
                copies => Told::Copies(copies),
            },
            (_, Some(row)) => Told::Entry(Arc::new(self.entry(segment, row))),
        };
        self.told.push((name.clone(), told));
    }

    /// Writes down what is new, and gives the names that entries point at.
    pub(super) fn tell(mut self, change: &mut CollectionChange) -> (Vec<PartitionName>, Vec<ShardName>) {
        // One that takes the name of another comes after it, as its number does.
        self.told.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (segment, told) in self.told {
            match told {
                Told::Gone => change.removed.push(segment),
                Told::Copies(copies) => change.copies.push(CopiesChange { segment, copies }),
                Told::Entry(entry) => {
                    change.removed.pop_if(|gone| *gone == segment);
                    change.segments.push(entry);
                }
            }
        }
        (self.partitions.names, self.shards.names)
    }

    fn entry(&mut self, segment: &CatalogSegment, row: &Row) -> SegmentEntry {
        let content = &segment.segment.content;
        SegmentEntry {
            promoted: row.is_current(),
            id: segment.segment.id,
            name: content.name.clone(),
            partition: self.partitions.place(&content.partition),
            shard: self.shards.place(&segment.segment.shard),
            rows: content.rows,
            bytes: content.bytes,
            created_at: segment.segment.created_at,
            statistics: Arc::clone(&segment.statistics),
            copies: self.copies(row),
        }
    }

    /// Copies of a segment, by replica and then by node id.
    fn copies(&self, row: &Row) -> Vec<CopyEntry> {
        let mut entries = Vec::new();
        for (replica, place) in (0..self.replicas).zip(0..) {
            let slots = copies_of(&self.glance, &self.seats, replica, row, || false);
            entries.extend(
                slots.into_iter().filter_map(|slot| Some(copy(self.glance.id(slot.node())?, place, slot))),
            );
        }
        entries.sort_unstable_by_key(|copy| (copy.replica, copy.node));
        entries
    }
}

fn copy(node: NodeId, replica: u32, slot: Slot) -> CopyEntry {
    let observed = slot.report().map(|report| match report {
        SegmentReport::Held => CopyState::Online,
        SegmentReport::Fetching => CopyState::Offline,
        SegmentReport::Failed => CopyState::Error,
    });
    CopyEntry { node, replica, assigned: Some(CopyState::Online), observed }
}
