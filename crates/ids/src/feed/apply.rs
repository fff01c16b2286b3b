//! Applying a delta.

use std::{collections::BTreeMap, sync::Arc};

use imbl::Vector;

use super::{CollectionChange, CollectionDelta, CollectionEntry, Delta, NodeEntry, SegmentEntry, Snapshot};
use crate::{CollectionName, Error, ErrorCode, SegmentName};

/// Single edits of a list cost more than a pass over it when they are more than one in so many.
const MERGE_FROM: usize = 16;

impl Snapshot {
    /// The snapshot after a delta. A delta that was applied before changes nothing. Costs in proportion to the delta,
    /// apart from the lists of nodes and collections; what did not change is shared.
    ///
    /// # Errors
    /// `parameter_invalid` when the delta is of another cluster, does not begin at this version, or changes something
    /// that is not here: whoever follows the feed then needs a whole snapshot.
    pub fn apply(&self, delta: &Delta) -> Result<Self, Error> {
        if delta.cluster != self.cluster {
            return Err(gap(format_args!(
                "a delta of cluster '{}' came to cluster '{}'",
                delta.cluster, self.cluster
            )));
        }
        if delta.after <= self.version {
            return Ok(self.clone());
        }
        if delta.before != self.version {
            let (before, after, here) = (delta.before, delta.after, self.version);
            return Err(gap(format_args!(
                "a delta from version {before} to {after} does not continue version {here}"
            )));
        }
        Ok(Self {
            cluster: self.cluster.clone(),
            version: delta.after,
            nodes: self.edited_nodes(delta),
            groups: delta.groups.clone().unwrap_or_else(|| self.groups.clone()),
            collections: self.edited_collections(delta)?,
            config: delta.config.clone().unwrap_or_else(|| self.config.clone()),
        })
    }

    fn edited_nodes(&self, delta: &Delta) -> Vec<NodeEntry> {
        let mut nodes = edited(&self.nodes, |node| &node.name, &delta.nodes, &delta.nodes_removed);
        for name in &delta.switched_off {
            if let Ok(at) = nodes.binary_search_by(|node| node.name.cmp(name)) {
                nodes[at].switch_off();
            }
        }
        nodes
    }

    fn edited_collections(&self, delta: &Delta) -> Result<Vec<Arc<CollectionEntry>>, Error> {
        let entry = |changed: &CollectionDelta| match changed {
            CollectionDelta::Whole(entry) => Ok(Arc::clone(entry)),
            CollectionDelta::Changed(change) => {
                let known = self.collection(change.name.as_str());
                let known = known.ok_or_else(|| {
                    gap(format_args!("a delta changes collection '{}', which is not known", change.name))
                })?;
                let changed = known.apply(change).map(Arc::new);
                changed.map_err(|error| error.context(format_args!("collection '{}'", change.name)))
            }
        };
        let entries = delta.collections.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        let name: fn(&Arc<CollectionEntry>) -> &CollectionName = |entry| &entry.name;
        Ok(edited(&self.collections, name, &entries, &delta.dropped))
    }
}

impl NodeEntry {
    /// The operator takes it out of everything that routes.
    pub(super) fn switch_off(&mut self) {
        (self.switched_on, self.enabled) = (false, false);
    }
}

impl CollectionEntry {
    /// The entry after a change. A change that was applied before changes nothing.
    ///
    /// # Errors
    /// `parameter_invalid` when it changes something that is not here, or points at something that is not.
    pub fn apply(&self, change: &CollectionChange) -> Result<Self, Error> {
        let head = change.head.as_deref();
        let mut entry = Self {
            version: change.version,
            segments: Vector::new(),
            leaders: self.leaders.clone(),
            ..head.unwrap_or(self).head()
        };
        entry.leaders.resize(entry.shards.len(), vec![]);
        for changed in &change.leaders {
            let place = usize::try_from(changed.shard).ok().and_then(|at| entry.leaders.get_mut(at));
            let place = place.ok_or_else(|| gap(format_args!("there is no shard {}", changed.shard)))?;
            place.clone_from(&changed.leaders);
        }
        entry.segments = self.edited_segments(change)?;
        // The lists that segments point into are the head's: shorter ones may leave any of them pointing nowhere.
        let astray = if entry.has_room_of(self) {
            entry.changed(change).find(|segment| !entry.has_places_of(segment))
        } else {
            entry.segments.iter().find(|segment| !entry.has_places_of(segment))
        };
        if let Some(segment) = astray {
            return Err(gap(format_args!(
                "segment '{}' points at something that is not there",
                segment.name
            )));
        }
        Ok(entry)
    }

    /// The segments of this entry that a change put in or gave other copies.
    fn changed<'a>(&'a self, change: &'a CollectionChange) -> impl Iterator<Item = &'a Arc<SegmentEntry>> {
        let names = change.segments.iter().map(|segment| &segment.name);
        let names = names.chain(change.copies.iter().map(|changed| &changed.segment));
        names.filter_map(|name| self.segments.get(position(&self.segments, name).ok()?))
    }

    /// The segment of this name.
    pub fn segment(&self, name: &SegmentName) -> Option<&Arc<SegmentEntry>> {
        self.segments.get(position(&self.segments, name).ok()?)
    }

    /// The entry without its segments and leaders.
    pub fn head(&self) -> Self {
        Self {
            name: self.name.clone(),
            id: self.id,
            version: self.version,
            routing: self.routing.clone(),
            query_timeout: self.query_timeout,
            key: self.key.clone(),
            vector_indexes: self.vector_indexes.clone(),
            clusters: self.clusters.clone(),
            columns: self.columns.clone(),
            partitions: self.partitions.clone(),
            shards: self.shards.clone(),
            load: self.load.clone(),
            finished_groups: self.finished_groups.clone(),
            replicas: self.replicas.clone(),
            segments: Vector::new(),
            leaders: vec![],
        }
    }

    /// Whether everything that the segment points at is in the lists of this entry.
    pub fn has_places_of(&self, segment: &SegmentEntry) -> bool {
        let points = |index: u32, len: usize| usize::try_from(index).is_ok_and(|index| index < len);
        points(segment.partition, self.partitions.len())
            && points(segment.shard, self.shards.len())
            && segment.copies.iter().all(|copy| points(copy.replica, self.replicas.len()))
    }

    /// Whether every place in the lists of another entry is also one in those of this entry.
    fn has_room_of(&self, other: &Self) -> bool {
        self.partitions.len() >= other.partitions.len()
            && self.shards.len() >= other.shards.len()
            && self.replicas.len() >= other.replicas.len()
    }

    fn edited_segments(&self, change: &CollectionChange) -> Result<Vector<Arc<SegmentEntry>>, Error> {
        let mut segments = self.segments.clone();
        for changed in &change.copies {
            let at = position(&segments, &changed.segment).ok().and_then(|at| segments.get_mut(at));
            let known = at.ok_or_else(|| {
                gap(format_args!("the copies of segment '{}' change, which is not known", changed.segment))
            })?;
            *known = Arc::new(SegmentEntry { copies: changed.copies.clone(), ..SegmentEntry::clone(known) });
        }
        if segments.is_empty() {
            return Ok(change.segments.iter().cloned().collect());
        }
        if (change.segments.len() + change.removed.len()) * MERGE_FROM > segments.len() {
            return Ok(merged(&segments, change));
        }
        for name in &change.removed {
            if let Ok(at) = position(&segments, name) {
                segments.remove(at);
            }
        }
        for segment in &change.segments {
            match position(&segments, &segment.name) {
                Ok(at) => drop(segments.set(at, Arc::clone(segment))),
                Err(at) => segments.insert(at, Arc::clone(segment)),
            }
        }
        Ok(segments)
    }
}

/// Where a segment stands, or else where it would.
fn position(segments: &Vector<Arc<SegmentEntry>>, name: &SegmentName) -> Result<usize, usize> {
    segments.binary_search_by(|segment| segment.name.cmp(name))
}

/// One pass over all segments.
fn merged(segments: &Vector<Arc<SegmentEntry>>, change: &CollectionChange) -> Vector<Arc<SegmentEntry>> {
    let mut by_name: BTreeMap<&SegmentName, &Arc<SegmentEntry>> =
        segments.iter().map(|segment| (&segment.name, segment)).collect();
    for name in &change.removed {
        by_name.remove(name);
    }
    by_name.extend(change.segments.iter().map(|segment| (&segment.name, segment)));
    by_name.into_values().cloned().collect()
}

/// A list ordered by name, with some taken out and some put in.
fn edited<T: Clone, N: Ord>(list: &[T], name: fn(&T) -> &N, upserted: &[T], removed: &[N]) -> Vec<T> {
    let mut edited = list.to_vec();
    for gone in removed {
        if let Ok(at) = edited.binary_search_by(|known| name(known).cmp(gone)) {
            edited.remove(at);
        }
    }
    for new in upserted {
        match edited.binary_search_by(|known| name(known).cmp(name(new))) {
            Ok(at) => edited[at] = new.clone(),
            Err(at) => edited.insert(at, new.clone()),
        }
    }
    edited
}

fn gap(what: std::fmt::Arguments<'_>) -> Error {
    Error::new(ErrorCode::ParameterInvalid, what.to_string())
}
