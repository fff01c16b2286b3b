//! Who of a cluster is a member, enabled, excluded and routable.

use std::sync::Arc;

use pointsman_ids::{GroupNumber, NodeName};

use crate::{NodeIndex, NodeSet, NodeTable};

/// What the cluster says of a member, as far as choice is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The cluster lets queries go to it.
    pub enabled: bool,
    /// Its resource group; [`GroupNumber::NONE`] if it is in none.
    pub pool: GroupNumber,
}

/// The nodes of a cluster at one moment, by place. Immutable: an exclusion makes new ones, which costs as much as there
/// are nodes and touches no segment.
#[derive(Clone, Debug)]
pub struct Nodes {
    table: NodeTable,
    members: Arc<Members>,
    unhealthy: NodeSet,
    routable: NodeSet,
}

#[derive(Debug)]
struct Members {
    all: NodeSet,
    enabled: NodeSet,
    /// By place; none for those who are not enabled.
    pools: Arc<[GroupNumber]>,
}

impl Nodes {
    /// The members at their places in `table`; of one that is named twice the last word counts. `is_unhealthy` tells
    /// whom the failure detector has taken out, and is asked for every name of the table.
    pub fn new(
        table: NodeTable,
        members: impl IntoIterator<Item = (NodeIndex, Membership)>,
        is_unhealthy: impl Fn(&NodeName) -> bool,
    ) -> Self {
        let (mut all, mut enabled) = (NodeSet::new(), NodeSet::new());
        let mut pools = vec![GroupNumber::NONE; table.len()];
        for (node, membership) in members {
            all.insert(node);
            let pool = if membership.enabled { membership.pool } else { GroupNumber::NONE };
            if membership.enabled {
                enabled.insert(node)
            } else {
                enabled.remove(node)
            }
            if let Some(place) = pools.get_mut(node.usize()) {
                *place = pool;
            }
        }
        let members = Arc::new(Members { all, enabled, pools: pools.into() });
        Self::excluding(table, members, is_unhealthy)
    }

    /// The same members with another verdict of the failure detector.
    #[must_use]
    pub fn with_unhealthy(&self, is_unhealthy: impl Fn(&NodeName) -> bool) -> Self {
        Self::excluding(self.table.clone(), self.members.clone(), is_unhealthy)
    }

    fn excluding(table: NodeTable, members: Arc<Members>, is_unhealthy: impl Fn(&NodeName) -> bool) -> Self {
        let ill = table.iter().filter(|(_, name)| is_unhealthy(name));
        let unhealthy: NodeSet = ill.map(|(node, _)| node).collect();
        let routable = members.enabled.without(&unhealthy);
        Self { table, members, unhealthy, routable }
    }

    /// The names by place.
    pub fn table(&self) -> &NodeTable {
        &self.table
    }

    /// The name at a place; `None`: the table was younger than the place.
    pub fn name(&self, node: NodeIndex) -> Option<&NodeName> {
        self.table.name(node)
    }

    /// Number of places, members or not.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no place.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether the node is a member of the cluster.
    pub fn is_member(&self, node: NodeIndex) -> bool {
        self.members.all.contains(node)
    }

    /// Whether the cluster lets queries go to the node.
    pub fn is_enabled(&self, node: NodeIndex) -> bool {
        self.members.enabled.contains(node)
    }

    /// Whether the failure detector has taken the node out, member or not.
    pub fn is_unhealthy(&self, node: NodeIndex) -> bool {
        self.unhealthy.contains(node)
    }

    /// Whether the node is enabled and not excluded.
    pub fn is_routable(&self, node: NodeIndex) -> bool {
        self.routable.contains(node)
    }

    /// The members.
    pub fn members(&self) -> &NodeSet {
        &self.members.all
    }

    /// Enabled members.
    pub fn enabled(&self) -> &NodeSet {
        &self.members.enabled
    }

    /// Enabled members that are not excluded.
    pub fn routable(&self) -> &NodeSet {
        &self.routable
    }

    /// Nodes that the failure detector has taken out.
    pub fn unhealthy(&self) -> &NodeSet {
        &self.unhealthy
    }

    /// The pool of an enabled node; [`GroupNumber::NONE`] for others.
    pub fn pool(&self, node: NodeIndex) -> GroupNumber {
        self.members.pools.get(node.usize()).copied().unwrap_or(GroupNumber::NONE)
    }

    pub(crate) fn pools(&self) -> &Arc<[GroupNumber]> {
        &self.members.pools
    }
}
