//! Which collections and partitions are loaded, and how far that is.

use std::{collections::BTreeMap, sync::Arc};

use imbl::OrdMap;
use pointsman_ids::{CollectionId, PartitionName};

/// The registration of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadRecord {
    /// What is loaded.
    pub collection: CollectionId,
    /// Declared number of replicas; at least 1.
    pub replicas: u32,
    /// What was asked for.
    pub kind: LoadKind,
    /// Whether it reached 100 once.
    pub status: LoadStatus,
    /// Average of its partitions when it was last written, 0 to 100.
    pub percent: u8,
    /// When it was asked for, nanoseconds since the Unix epoch.
    pub created_at: u64,
    /// When it last made progress, nanoseconds since the Unix epoch.
    pub updated_at: u64,
    /// How often a coordinator started while it was loading.
    pub recoveries: u32,
    /// Whether the user chose the number of replicas.
    pub replicas_chosen: bool,
    /// Its partitions. None is a lawful state: those of an earlier load are gone and the new ones not written yet.
    pub partitions: BTreeMap<PartitionName, PartitionLoad>,
}

impl LoadRecord {
    /// The sum of the partitions' percentages divided by their number, rounded down; `None` without a partition.
    pub fn average(&self) -> Option<u8> {
        let sum: u64 = self.partitions.values().map(|partition| u64::from(partition.percent)).sum();
        let average = sum.checked_div(self.partitions.len() as u64)?;
        Some(u8::try_from(average).unwrap_or(u8::MAX))
    }

    /// Whether segments of this partition belong to the load.
    pub fn covers(&self, partition: &PartitionName) -> bool {
        self.kind == LoadKind::Collection || self.partitions.contains_key(partition)
    }
}

/// The registration of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLoad {
    /// Whether it reached 100 once.
    pub status: LoadStatus,
    /// Progress, 0 to 100; never falls.
    pub percent: u8,
    /// When it was asked for, nanoseconds since the Unix epoch.
    pub created_at: u64,
    /// When it last made progress, nanoseconds since the Unix epoch.
    pub updated_at: u64,
}

/// What a load asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// Everything, partitions that come later too.
    Collection,
    /// The listed partitions.
    Partitions,
}

/// Whether a load has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStatus {
    /// Not yet.
    Loading,
    /// It reached 100 once. Nothing but a new load takes it back.
    Loaded,
}

/// All registrations, by collection. A clone shares everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations(OrdMap<CollectionId, Arc<LoadRecord>>);

impl Registrations {
    /// The record of a collection. Whether it is loaded is another question: see [`Self::average`].
    pub fn get(&self, collection: CollectionId) -> Option<&LoadRecord> {
        self.0.get(&collection).map(Arc::as_ref)
    }

    /// The average of its partitions. `None`: the collection is not registered, which is the one test for every answer.
    pub fn average(&self, collection: CollectionId) -> Option<u8> {
        self.get(collection)?.average()
    }

    /// Whether the collection is registered: it has a record, and that has a partition.
    pub fn is_registered(&self, collection: CollectionId) -> bool {
        self.average(collection).is_some()
    }

    /// Puts a record in the place of the former one.
    pub fn insert(&mut self, record: LoadRecord) {
        self.0.insert(record.collection, Arc::new(record));
    }

    /// Takes a record out.
    pub fn remove(&mut self, collection: CollectionId) {
        self.0.remove(&collection);
    }

    /// Collections whose records differ in another version. Costs what differs.
    pub(crate) fn changes(&self, after: &Self) -> Vec<CollectionId> {
        super::differing(&self.0, &after.0)
    }

    /// All records, by collection.
    pub fn iter(&self) -> impl Iterator<Item = &LoadRecord> {
        self.0.values().map(Arc::as_ref)
    }
}

impl FromIterator<LoadRecord> for Registrations {
    fn from_iter<T: IntoIterator<Item = LoadRecord>>(records: T) -> Self {
        Self(records.into_iter().map(|record| (record.collection, Arc::new(record))).collect())
    }
}
