//! What changed from one version of the feed to another.
//!
//! A [`Delta`] names things whole or not at all, so that applying it twice changes nothing and several in a row make
//! one. Segments go by name: they are kept in the order of their names, so a receiver finds each without an index.

use std::{collections::BTreeMap, sync::Arc};

use super::{CollectionEntry, CopyEntry, GroupEntry, LeaderDrops, LeaderEntry, NodeEntry, SegmentEntry};
use crate::{ClusterName, CollectionName, FeedVersion, NodeName, SegmentName};

/// The difference of two snapshots of one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The cluster that this is about.
    pub cluster: ClusterName,
    /// The version that it changes.
    pub before: FeedVersion,
    /// The version that it makes of it; above `before`.
    pub after: FeedVersion,
    /// Members that are new or differ, by name, ascending.
    pub nodes: Vec<NodeEntry>,
    /// Members that have gone. One that was not there is no error.
    pub nodes_removed: Vec<NodeName>,
    /// Members that the operator has switched off and of which nothing else is known for now, by name. One that was
    /// not there is no error.
    pub switched_off: Vec<NodeName>,
    /// Every resource group, by number; `None`: as before.
    pub groups: Option<Vec<GroupEntry>>,
    /// The whole dynamic configuration; `None`: as before.
    pub config: Option<BTreeMap<String, String>>,
    /// Collections that are new or differ, by name, ascending.
    pub collections: Vec<CollectionDelta>,
    /// Collections that have gone. One that was not there is no error.
    pub dropped: Vec<CollectionName>,
    /// Whose shard leaders are to be asked for again. No part of the snapshot.
    pub leader_drops: LeaderDrops,
}

/// What became of one collection.
#[derive(Clone, Debug, PartialEq)]
pub enum CollectionDelta {
    /// It takes the place of whatever is known under its name.
    Whole(Arc<CollectionEntry>),
    /// What is known under its name changes.
    Changed(CollectionChange),
}

/// A change of a collection that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionChange {
    /// Its name.
    pub name: CollectionName,
    /// [`CollectionEntry::version`] after the change.
    pub version: FeedVersion,
    /// The entry without segments and leaders, when anything of that differs; `None`: as before.
    pub head: Option<Arc<CollectionEntry>>,
    /// Segments that are new or differ in more than their copies, by name, ascending.
    pub segments: Vec<Arc<SegmentEntry>>,
    /// Segments that have gone, by name, ascending. One that was not there is no error.
    pub removed: Vec<SegmentName>,
    /// Segments of which the copies alone differ, by name, ascending.
    pub copies: Vec<CopiesChange>,
    /// Shards with other leaders, ascending; all shards when their list differs.
    pub leaders: Vec<LeadersChange>,
}

/// All copies of a segment that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiesChange {
    /// The segment.
    pub segment: SegmentName,
    /// What takes the place of its copies.
    pub copies: Vec<CopyEntry>,
}

/// All leaders of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadersChange {
    /// Index into [`CollectionEntry::shards`].
    pub shard: u32,
    /// What takes the place of its leaders.
    pub leaders: Vec<LeaderEntry>,
}

impl Delta {
    /// A delta that changes nothing but the version.
    pub fn empty(cluster: ClusterName, before: FeedVersion, after: FeedVersion) -> Self {
        Self {
            cluster,
            before,
            after,
            nodes: vec![],
            nodes_removed: vec![],
            switched_off: vec![],
            groups: None,
            config: None,
            collections: vec![],
            dropped: vec![],
            leader_drops: LeaderDrops::default(),
        }
    }
}

impl CollectionDelta {
    /// The collection's name.
    pub fn name(&self) -> &CollectionName {
        match self {
            Self::Whole(entry) => &entry.name,
            Self::Changed(change) => &change.name,
        }
    }
}

impl CollectionChange {
    /// A change of the version alone.
    pub fn empty(name: CollectionName, version: FeedVersion) -> Self {
        Self { name, version, head: None, segments: vec![], removed: vec![], copies: vec![], leaders: vec![] }
    }
}
