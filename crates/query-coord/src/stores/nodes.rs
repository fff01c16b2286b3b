//! Nodes that decisions can count on.

use std::sync::Arc;

use imbl::OrdMap;
use pointsman_ids::{NodeId, NodeName};

use crate::LeaderReport;

/// A node that is known: present, also while it stops, and not disabled by the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNode {
    /// Number of its name and incarnation.
    pub id: NodeId,
    /// Where its worker listens.
    pub address: String,
    /// Whether it is stopping.
    pub stopping: bool,
}

/// All known nodes, by name. A clone shares everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNodes(OrdMap<NodeName, Arc<KnownNode>>);

impl KnownNodes {
    /// The node of this name, if it is known.
    pub fn get(&self, name: &str) -> Option<&KnownNode> {
        self.0.get(name).map(Arc::as_ref)
    }

    /// The node that a leader is reported on, if that very incarnation is known.
    pub fn of(&self, leader: &LeaderReport) -> Option<&KnownNode> {
        self.get(leader.node.as_str()).filter(|node| node.id == leader.node_id)
    }

    /// Whether the node is known.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

impl FromIterator<(NodeName, KnownNode)> for KnownNodes {
    fn from_iter<T: IntoIterator<Item = (NodeName, KnownNode)>>(nodes: T) -> Self {
        Self(nodes.into_iter().map(|(name, node)| (name, Arc::new(node))).collect())
    }
}
