//! Finding the delta of two snapshots.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use imbl::Vector;

use super::{
    CollectionChange, CollectionDelta, CollectionEntry, CopiesChange, Delta, LeadersChange, SegmentEntry,
    Snapshot,
};

impl Delta {
    /// What makes `after` of `before`, two snapshots of one cluster. Collections and segments that both share are not
    /// looked into; others cost a pass over their segments.
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let known: BTreeMap<_, _> = before.collections.iter().map(|entry| (&entry.name, entry)).collect();
        let changed = |entry: &Arc<CollectionEntry>| match known.get(&entry.name) {
            Some(known) if Arc::ptr_eq(known, entry) => None,
            Some(known) if known.id == entry.id => {
                let change = CollectionChange::between(known, entry);
                let nothing = CollectionChange::empty(known.name.clone(), known.version);
                (change != nothing).then_some(CollectionDelta::Changed(change))
            }
            _ => Some(CollectionDelta::Whole(Arc::clone(entry))),
        };
        let stays = |entry: &&Arc<CollectionEntry>| after.collection(entry.name.as_str()).is_some();
        Self {
            collections: after.collections.iter().filter_map(changed).collect(),
            dropped: before.collections.iter().filter(|c| !stays(c)).map(|c| c.name.clone()).collect(),
            ..Self::besides_collections(before, after)
        }
    }

    /// The same without collections, for those who know what became of these.
    pub fn besides_collections(before: &Snapshot, after: &Snapshot) -> Self {
        let (nodes, nodes_removed) = changes(&before.nodes, &after.nodes, |node| &node.name);
        Self {
            nodes,
            nodes_removed,
            groups: (before.groups != after.groups).then(|| after.groups.clone()),
            config: (before.config != after.config).then(|| after.config.clone()),
            ..Self::empty(after.cluster.clone(), before.version, after.version)
        }
    }
}

impl CollectionChange {
    /// What makes `after` of `before`, two entries of one collection.
    pub fn between(before: &CollectionEntry, after: &CollectionEntry) -> Self {
        let mut change = Self::empty(after.name.clone(), after.version);
        let head = CollectionEntry { version: before.version, ..after.head() };
        if head != before.head() {
            change.head = Some(Arc::new(after.head()));
        }
        let other_shards = before.shards != after.shards;
        let led = (0..).zip(&after.leaders).filter(|(shard, leaders): &(u32, _)| {
            let known = usize::try_from(*shard).ok().and_then(|shard| before.leaders.get(shard));
            other_shards || known != Some(leaders)
        });
        change.leaders =
            led.map(|(shard, leaders)| LeadersChange { shard, leaders: leaders.clone() }).collect();
        if !before.segments.ptr_eq(&after.segments) {
            change.compare_segments(&before.segments, &after.segments);
        }
        change
    }

    fn compare_segments(&mut self, before: &Vector<Arc<SegmentEntry>>, after: &Vector<Arc<SegmentEntry>>) {
        let (mut before, mut after) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let order = match (before.peek(), after.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(known), Some(new)) => known.name.cmp(&new.name),
            };
            let known = if order.is_le() { before.next() } else { None };
            let new = if order.is_ge() { after.next() } else { None };
            match (known, new) {
                (Some(known), Some(new)) => self.compare(known, new),
                (Some(known), None) => self.removed.push(known.name.clone()),
                (None, Some(new)) => self.segments.push(Arc::clone(new)),
                (None, None) => return,
            }
        }
    }

    fn compare(&mut self, known: &Arc<SegmentEntry>, new: &Arc<SegmentEntry>) {
        if Arc::ptr_eq(known, new) {
            return;
        }
        if !known.same_but_copies(new) {
            self.segments.push(Arc::clone(new));
        } else if known.copies != new.copies {
            self.copies.push(CopiesChange { segment: new.name.clone(), copies: new.copies.clone() });
        }
    }
}

impl SegmentEntry {
    /// Whether two entries differ in their copies alone, or not at all.
    pub fn same_but_copies(&self, other: &Self) -> bool {
        let fixed = |entry: &Self| {
            let places = (entry.partition, entry.shard, entry.promoted);
            (entry.id, places, entry.rows, entry.bytes, entry.created_at)
        };
        fixed(self) == fixed(other)
            && self.name == other.name
            && (Arc::ptr_eq(&self.statistics, &other.statistics) || self.statistics == other.statistics)
    }
}

/// What of a list ordered by name is new or differs, and the names of what has gone.
fn changes<T: Clone + PartialEq, N: Ord + Clone>(
    before: &[T],
    after: &[T],
    name: fn(&T) -> &N,
) -> (Vec<T>, Vec<N>) {
    let find = |list: &[T], wanted: &T| list.binary_search_by(|known| name(known).cmp(name(wanted)));
    let same = |new: &&T| find(before, new).is_ok_and(|at| before[at] == **new);
    let upserted = after.iter().filter(|new| !same(new)).cloned().collect();
    let gone = before.iter().filter(|known| find(after, known).is_err());
    (upserted, gone.map(|known| name(known).clone()).collect())
}
