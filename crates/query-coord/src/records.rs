//! The durable records that decisions read.

use std::collections::BTreeSet;

use pointsman_ids::{
    CollectionId, GroupName, GroupNumber, Incarnation, NodeId, NodeName, ReplicaId, SegmentId, TargetVersion,
};

/// A named pool of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceGroup {
    /// Given once, never used again.
    pub number: GroupNumber,
    /// Its name.
    pub name: GroupName,
    /// Nodes that it wants at least.
    pub requests: u32,
    /// Nodes that it takes at most; not below `requests`.
    pub limits: u32,
    /// Its members. A node is a member of at most one group.
    pub members: BTreeSet<NodeName>,
}

/// A node that the cluster has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its stable name.
    pub name: NodeName,
    /// Its newest process start.
    pub incarnation: Incarnation,
    /// The number of this name and incarnation.
    pub id: NodeId,
    /// The operator's switch.
    pub switched_on: bool,
}

/// The registration of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadRecord {
    /// What is loaded.
    pub collection: CollectionId,
    /// Declared number of replicas; at least 1.
    pub replicas: u32,
    /// Whether it reached 100 once.
    pub status: LoadStatus,
    /// Progress, 0 to 100; never falls.
    pub percent: u8,
    /// When it was asked for, nanoseconds since the Unix epoch.
    pub created_at: u64,
    /// When it last made progress, nanoseconds since the Unix epoch.
    pub updated_at: u64,
}

/// Whether a load has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStatus {
    /// Not yet.
    Loading,
    /// It reached 100 once. Nothing but a new load takes it back.
    Loaded,
}

/// One full copy of a loaded collection, living in one resource group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its number.
    pub id: ReplicaId,
    /// What it is a copy of.
    pub collection: CollectionId,
    /// The group it lives in.
    pub group: GroupName,
    /// Nodes that take new work.
    pub nodes: BTreeSet<NodeName>,
    /// Nodes that still hold data and are being drained; disjoint from `nodes`.
    pub ro_nodes: BTreeSet<NodeName>,
    /// Whether queries may use it.
    pub query_visible: bool,
    /// It was serviceable at least once.
    pub finished: bool,
}

impl Replica {
    /// Whether `node` holds or takes data of this replica.
    pub fn contains(&self, node: &str) -> bool {
        self.nodes.contains(node) || self.ro_nodes.contains(node)
    }
}

/// What a loaded collection should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its collection.
    pub collection: CollectionId,
    /// Always higher than any version before it.
    pub version: TargetVersion,
    /// Its segments, ascending.
    pub segments: Vec<SegmentId>,
}
