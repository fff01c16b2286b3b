//! The durable records that decisions read.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{GroupName, GroupNumber, Incarnation, NodeId, NodeName};

use crate::GroupConfig;

/// A named pool of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceGroup {
    /// Given once, never used again.
    pub number: GroupNumber,
    /// Its name.
    pub name: GroupName,
    /// What it wants and takes.
    pub config: GroupConfig,
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
    /// What it said of itself when it started last; filters of groups read it.
    pub labels: BTreeMap<String, String>,
}
