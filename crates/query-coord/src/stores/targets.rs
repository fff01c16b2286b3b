//! What loaded collections should hold.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use imbl::OrdMap;
use pointsman_ids::{CollectionId, PartitionName, SegmentId, ShardName, TargetVersion};

/// What a loaded collection should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its collection.
    pub collection: CollectionId,
    /// Always higher than any version before it.
    pub version: TargetVersion,
    /// Partitions that it lists, ascending.
    pub partitions: Vec<PartitionName>,
    /// Its shards by name, those that only its segments name among them.
    pub shards: Vec<TargetShard>,
}

/// One shard of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetShard {
    /// Its name.
    pub name: ShardName,
    /// Whether the target lists the shard itself, and not only segments of it.
    pub listed: bool,
    /// Its segments, ascending.
    pub segments: Vec<SegmentId>,
    /// For each segment the place of its partition in [`Target::partitions`].
    pub partitions: Vec<u32>,
}

/// A segment that goes into a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSegment {
    /// Its number.
    pub id: SegmentId,
    /// Its partition.
    pub partition: PartitionName,
    /// Its shard.
    pub shard: ShardName,
}

impl Target {
    /// A target of these shards, partitions and segments; a segment brings its partition along.
    pub fn new(
        collection: CollectionId,
        version: TargetVersion,
        shards: impl IntoIterator<Item = ShardName>,
        partitions: impl IntoIterator<Item = PartitionName>,
        segments: impl IntoIterator<Item = TargetSegment>,
    ) -> Self {
        let mut by_shard: BTreeMap<ShardName, (bool, Vec<(SegmentId, PartitionName)>)> =
            shards.into_iter().map(|shard| (shard, (true, Vec::new()))).collect();
        let mut names: BTreeSet<PartitionName> = partitions.into_iter().collect();
        for segment in segments {
            if !names.contains(&segment.partition) {
                names.insert(segment.partition.clone());
            }
            by_shard.entry(segment.shard).or_default().1.push((segment.id, segment.partition));
        }
        let partitions: Vec<PartitionName> = names.into_iter().collect();
        let place =
            |name: &PartitionName| partitions.binary_search(name).ok().and_then(|at| u32::try_from(at).ok());
        let shard = |(name, (listed, mut entries)): (ShardName, (bool, Vec<(SegmentId, PartitionName)>))| {
            entries.sort_unstable();
            entries.dedup_by_key(|(id, _)| *id);
            let (segments, partitions) = entries
                .into_iter()
                .map(|(id, partition)| (id, place(&partition).unwrap_or_default()))
                .unzip();
            TargetShard { name, listed, segments, partitions }
        };
        let shards = by_shard.into_iter().map(shard).collect();
        Self { collection, version, partitions, shards }
    }

    /// Whether it has no shard and no segment; that is not the same as being absent.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// The shards that it lists itself, by name.
    pub fn listed_shards(&self) -> impl Iterator<Item = &TargetShard> {
        self.shards.iter().filter(|shard| shard.listed)
    }

    /// The shard of this name.
    pub fn shard(&self, name: &str) -> Option<&TargetShard> {
        let at = self.shards.binary_search_by(|shard| shard.name.as_str().cmp(name)).ok()?;
        self.shards.get(at)
    }

    /// All segments, by shard.
    pub fn segments(&self) -> impl Iterator<Item = SegmentId> {
        self.shards.iter().flat_map(|shard| shard.segments.iter().copied())
    }

    /// Number of its segments.
    pub fn segment_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.segments.len()).sum()
    }

    /// The place of a partition in [`Self::partitions`].
    pub fn partition(&self, name: &str) -> Option<u32> {
        let at = self.partitions.binary_search_by(|partition| partition.as_str().cmp(name)).ok()?;
        u32::try_from(at).ok()
    }

    /// Whether it lists at least one shard.
    pub fn has_shard(&self) -> bool {
        self.listed_shards().next().is_some()
    }

    /// Whether it has at least one shard and lists the partition (`None`: any partition).
    pub fn covers(&self, partition: Option<&str>) -> bool {
        let lists = match partition {
            Some(partition) => self.partition(partition).is_some(),
            None => !self.partitions.is_empty(),
        };
        self.has_shard() && lists
    }

    /// Whether it equals another but for the version.
    pub fn same_content(&self, other: &Self) -> bool {
        self.partitions == other.partitions && self.shards == other.shards
    }
}

impl TargetShard {
    /// Segments of one partition, by its place in [`Target::partitions`].
    pub fn segments_in(&self, partition: u32) -> impl Iterator<Item = SegmentId> {
        let both = self.segments.iter().zip(&self.partitions);
        both.filter(move |(_, of)| **of == partition).map(|(id, _)| *id)
    }

    /// Whether it has the segment.
    pub fn contains(&self, segment: SegmentId) -> bool {
        self.segments.binary_search(&segment).is_ok()
    }
}

/// Which target a reader looks at: an ordered list of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The current one.
    Current,
    /// The next one.
    Next,
    /// The current one, else the next.
    CurrentFirst,
    /// The next one, else the current.
    NextFirst,
}

/// Current and next targets, by collection. A clone shares everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    current: OrdMap<CollectionId, Arc<Target>>,
    next: OrdMap<CollectionId, Arc<Target>>,
}

impl Targets {
    /// What is served.
    pub fn current(&self, collection: CollectionId) -> Option<&Arc<Target>> {
        self.current.get(&collection)
    }

    /// What is being loaded to be served next.
    pub fn next(&self, collection: CollectionId) -> Option<&Arc<Target>> {
        self.next.get(&collection)
    }

    /// The first candidate of a scope that exists, be it empty.
    pub fn first(&self, collection: CollectionId, scope: Scope) -> Option<&Arc<Target>> {
        self.candidates(collection, scope).next()
    }

    /// All candidates of a scope that exist, in order.
    pub fn candidates(&self, collection: CollectionId, scope: Scope) -> impl Iterator<Item = &Arc<Target>> {
        let (current, next) = (self.current(collection), self.next(collection));
        let order = match scope {
            Scope::Current => [current, None],
            Scope::Next => [next, None],
            Scope::CurrentFirst => [current, next],
            Scope::NextFirst => [next, current],
        };
        order.into_iter().flatten()
    }

    /// Makes a target the current one.
    pub fn set_current(&mut self, target: Target) {
        self.current.insert(target.collection, Arc::new(target));
    }

    /// Makes a target the next one.
    pub fn set_next(&mut self, target: Target) {
        self.next.insert(target.collection, Arc::new(target));
    }

    /// Takes the next target away.
    pub fn remove_next(&mut self, collection: CollectionId) {
        self.next.remove(&collection);
    }

    /// Takes both targets away.
    pub fn remove(&mut self, collection: CollectionId) {
        self.current.remove(&collection);
        self.next.remove(&collection);
    }

    /// Makes the next target the current one and takes it from next. Absent or empty: nothing.
    pub fn promote(&mut self, collection: CollectionId) {
        if self.next(collection).is_some_and(|next| !next.is_empty())
            && let Some(next) = self.next.remove(&collection)
        {
            self.current.insert(collection, next);
        }
    }

    /// Collections whose targets differ in another version. Costs what differs.
    pub(crate) fn changes(&self, after: &Self) -> Vec<CollectionId> {
        let mut changed = super::differing(&self.current, &after.current);
        changed.extend(super::differing(&self.next, &after.next));
        changed
    }

    /// All current targets, by collection.
    pub fn all_current(&self) -> impl Iterator<Item = &Arc<Target>> {
        self.current.values()
    }

    /// All next targets, by collection.
    pub fn all_next(&self) -> impl Iterator<Item = &Arc<Target>> {
        self.next.values()
    }
}
