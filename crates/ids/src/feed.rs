//! The routing feed: what the coordinator tells brokers, as plain values.
//!
//! One [`Snapshot`] holds everything that a broker needs to plan and route. A query takes one and uses it to its
//! end. Collections are shared between snapshots that did not change them, so that readers can keep what they
//! derived from one as long as the pointer is the same. A [`Delta`] says what changed from one to another.

mod apply;
mod between;
mod coalesce;
mod delta;
mod leader_drops;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use delta::{CollectionChange, CollectionDelta, CopiesChange, Delta, LeadersChange};
pub use leader_drops::LeaderDrops;

use imbl::Vector;

use crate::{
    ClusterName, CollectionId, CollectionName, FeedVersion, GroupName, GroupNumber, Incarnation, NodeId,
    NodeName, PartitionName, ReplicaId, SegmentId, SegmentName, ShardName,
    catalog::{Column, ColumnStatistics, RoutingOptions},
    request::VectorIndex,
};

/// All that is known of one cluster at one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The cluster that this is about.
    pub cluster: ClusterName,
    /// Grows with every change.
    pub version: FeedVersion,
    /// Every member, by name, ascending.
    pub nodes: Vec<NodeEntry>,
    /// Every resource group, by number, ascending.
    pub groups: Vec<GroupEntry>,
    /// Every collection of the catalog, by name, ascending.
    pub collections: Vec<Arc<CollectionEntry>>,
    /// The dynamic configuration of the cluster, by key.
    pub config: BTreeMap<String, String>,
}

impl Snapshot {
    /// A snapshot of a cluster of which nothing is known.
    pub fn empty(cluster: ClusterName) -> Self {
        Self {
            cluster,
            version: FeedVersion(0),
            nodes: vec![],
            groups: vec![],
            collections: vec![],
            config: BTreeMap::new(),
        }
    }

    /// The collection of this name.
    pub fn collection(&self, name: &str) -> Option<&Arc<CollectionEntry>> {
        let at = self.collections.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        self.collections.get(at)
    }
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// Its stable name.
    pub name: NodeName,
    /// The number of this name and incarnation.
    pub id: NodeId,
    /// Where its worker listens, as URL (`http://host:port`).
    pub address: String,
    /// Its process start.
    pub incarnation: Incarnation,
    /// The operator's switch. Choice by shard reads this alone.
    pub switched_on: bool,
    /// Switched on, a member, and not stopping. Choice by segment reads this. A lost node is still enabled.
    pub enabled: bool,
    /// Its lease at the coordinator ended; brokers judge for themselves.
    pub lost: bool,
    /// The number of the resource group it is a member of; [`GroupNumber::NONE`] while it waits for a place.
    pub pool: GroupNumber,
}

/// A resource group's number and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Given once, never used again.
    pub number: GroupNumber,
    /// The group's name.
    pub name: GroupName,
}

/// How far the load of a collection is, as far as routing cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadState {
    /// Nobody asked for it.
    NotLoaded,
    /// Asked for, but there is no current target yet: no routing.
    Loading {
        /// Progress in percent, 0 to 100.
        percent: u8,
    },
    /// There is a current target.
    Serving,
}

/// One collection with everything that planning and choosing need.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionEntry {
    /// Its name.
    pub name: CollectionName,
    /// Its number.
    pub id: CollectionId,
    /// The feed version that last changed it.
    pub version: FeedVersion,
    /// How nodes are chosen for its segments.
    pub routing: RoutingOptions,
    /// Deadline of its queries; `None`: the broker's own.
    pub query_timeout: Option<Duration>,
    /// The column whose values name rows.
    pub key: Option<String>,
    /// Indexes over vectors, at most one per column.
    pub vector_indexes: Vec<VectorIndex>,
    /// Clusters that it spans; empty: this one alone.
    pub clusters: Vec<ClusterName>,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Names that [`SegmentEntry::partition`] points into.
    pub partitions: Vec<PartitionName>,
    /// Names that [`SegmentEntry::shard`] points into.
    pub shards: Vec<ShardName>,
    /// How far its load is.
    pub load: LoadState,
    /// Groups in which its load has finished once.
    pub finished_groups: Vec<GroupNumber>,
    /// Query-visible replicas, in the order of their creation.
    pub replicas: Vec<ReplicaEntry>,
    /// Segments of the current target, by name, ascending; empty without one.
    pub segments: Vector<Arc<SegmentEntry>>,
    /// Per shard of the current target, in the order of `shards`: its leaders, in replica order.
    pub leaders: Vec<Vec<LeaderEntry>>,
}

/// A query-visible replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaEntry {
    /// Its number.
    pub id: ReplicaId,
    /// The group that it lives in, which is not always the group of its nodes.
    pub group: GroupNumber,
}

/// A segment of the current target.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentEntry {
    /// Its number.
    pub id: SegmentId,
    /// Its name.
    pub name: SegmentName,
    /// Index into [`CollectionEntry::partitions`].
    pub partition: u32,
    /// Index into [`CollectionEntry::shards`].
    pub shard: u32,
    /// Number of rows.
    pub rows: u64,
    /// Length of the object in bytes.
    pub bytes: u64,
    /// When it was pushed, nanoseconds since the Unix epoch.
    pub created_at: u64,
    /// Whether it belongs to a current target: then it is old from the start, and one that nobody holds is missing.
    /// One that is listed before its promotion may be new.
    pub promoted: bool,
    /// Statistics by column.
    pub statistics: Arc<BTreeMap<String, ColumnStatistics>>,
    /// Nodes that should hold it or do, by replica and then by node id.
    pub copies: Vec<CopyEntry>,
}

/// One node's copy of a segment, wanted or there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEntry {
    /// The node.
    pub node: NodeId,
    /// Index into [`CollectionEntry::replicas`].
    pub replica: u32,
    /// The coordinator's word; `None`: not assigned.
    pub assigned: Option<CopyState>,
    /// The node's word; `None`: nothing reported by this incarnation.
    pub observed: Option<CopyState>,
}

/// State of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyState {
    /// Can be queried.
    Online,
    /// Can be queried while it still grows.
    Consuming,
    /// Not yet, or not any more.
    Offline,
    /// The last try to load it failed.
    Error,
}

impl CopyState {
    /// Whether a copy in this state answers queries.
    pub fn serves(self) -> bool {
        matches!(self, Self::Online | Self::Consuming)
    }
}

/// A shard leader, as the loose list names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderEntry {
    /// The node that leads.
    pub node: NodeId,
    /// Whether it holds all of its synced view.
    pub serviceable: bool,
    /// The group of the replica that it leads.
    pub group: GroupNumber,
}
