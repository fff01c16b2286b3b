//! What placement keeps in mind besides the rows of segments.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pointsman_ids::{CollectionId, ReplicaId, SegmentId};

use crate::{NodeIndex, Replica, Stores};

/// Sums over places, and which segments are not where they should be.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// Rows of everything that is placed on a node.
    all_rows: BTreeMap<NodeIndex, u64>,
    /// The same of one collection.
    rows: BTreeMap<(CollectionId, NodeIndex), u64>,
    replicas: BTreeMap<CollectionId, BTreeMap<ReplicaId, Unrest>>,
    /// Whether nothing was moved the last time, whatever became of its node.
    pub(super) frozen: bool,
}

/// Segments of a replica that are not where they should be.
#[derive(Clone, Debug, Default)]
struct Unrest {
    /// Those that need a place, or another one.
    seeking: BTreeSet<SegmentId>,
    /// Those that no node in service holds where they are placed.
    coming: BTreeSet<SegmentId>,
}

impl Placement {
    /// Forgets replicas that are there no more.
    pub(super) fn keep_replicas(&mut self, collection: CollectionId, replicas: &[Arc<Replica>]) {
        if replicas.is_empty() {
            self.replicas.remove(&collection);
        } else if let Some(known) = self.replicas.get_mut(&collection) {
            known.retain(|id, _| replicas.iter().any(|replica| replica.id == *id));
        }
    }

    /// Collections with segments that need a place.
    pub(super) fn seeking(&self) -> impl Iterator<Item = CollectionId> + '_ {
        let seeks = |replicas: &BTreeMap<ReplicaId, Unrest>| {
            replicas.values().any(|unrest| !unrest.seeking.is_empty())
        };
        self.replicas.iter().filter(move |(_, replicas)| seeks(replicas)).map(|(collection, _)| *collection)
    }

    /// Segments of a collection that need a place in some replica.
    pub(super) fn seeking_of(&self, collection: CollectionId) -> impl Iterator<Item = SegmentId> + '_ {
        let replicas = self.replicas.get(&collection).into_iter().flat_map(BTreeMap::values);
        replicas.flat_map(|unrest| unrest.seeking.iter().copied())
    }

    /// Segments of a replica that need a place.
    pub(super) fn seeking_in(&self, replica: &Replica) -> impl Iterator<Item = SegmentId> + '_ {
        self.unrest(replica).into_iter().flat_map(|unrest| unrest.seeking.iter().copied())
    }

    /// Segments of a replica that are on their way, or nowhere.
    pub fn coming_to(&self, replica: &Replica) -> impl Iterator<Item = SegmentId> + '_ {
        self.unrest(replica).into_iter().flat_map(|unrest| unrest.coming.iter().copied())
    }

    fn unrest(&self, replica: &Replica) -> Option<&Unrest> {
        self.replicas.get(&replica.collection)?.get(&replica.id)
    }

    /// Notes whether a segment of a replica needs a place, and whether it has still to come.
    pub(super) fn note(&mut self, replica: &Replica, segment: SegmentId, seeking: bool, coming: bool) {
        let unrest = self.replicas.entry(replica.collection).or_default().entry(replica.id).or_default();
        for (set, is_in) in [(&mut unrest.seeking, seeking), (&mut unrest.coming, coming)] {
            if is_in {
                set.insert(segment);
            } else {
                set.remove(&segment);
            }
        }
    }

    /// Rows of a collection that are placed anywhere.
    pub(super) fn rows_of(&self, collection: CollectionId) -> u64 {
        let first = (collection, NodeIndex::FIRST);
        let own = self.rows.range(first..).take_while(|((of, _), _)| *of == collection);
        own.map(|(_, rows)| *rows).fold(0, u64::saturating_add)
    }

    /// Rows of a collection, and of everything, that are placed on a node.
    pub fn rows_on(&self, collection: CollectionId, node: NodeIndex) -> (u64, u64) {
        let own = self.rows.get(&(collection, node)).copied().unwrap_or_default();
        (own, self.all_rows.get(&node).copied().unwrap_or_default())
    }
}

impl Stores {
    /// Makes a node the place of a segment, or not any more.
    pub fn put(&mut self, segment: SegmentId, node: NodeIndex, placed: bool) {
        let row = self.whereabouts.row(segment);
        let Some((collection, weight)) = row.map(|row| (row.collection(), row.weight())) else { return };
        let was = row.and_then(|row| row.slot(node)).is_some_and(|slot| slot.is_placed());
        if was == placed {
            return;
        }
        let Placement { rows, all_rows, .. } = &mut self.placement;
        for sum in [rows.entry((collection, node)).or_default(), all_rows.entry(node).or_default()] {
            *sum = if placed { sum.saturating_add(weight) } else { sum.saturating_sub(weight) };
        }
        self.whereabouts.place(node, segment, placed);
    }
}
