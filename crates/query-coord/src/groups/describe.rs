//! What a group is doing: its figures, and the nodes that it lends and borrows.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionId, NodeName};

use super::{GroupCounts, Nodes};
use crate::{Replica, ResourceGroup};

/// What a group is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its figures.
    pub counts: GroupCounts,
    /// Members that it does not accept.
    pub dirty: BTreeSet<NodeName>,
    /// Collections that have a replica in it, or that members of it still hold for another group.
    pub collections: BTreeMap<CollectionId, Borrowed>,
}

/// How a collection's replicas and a group's members overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Borrowed {
    /// Replicas that live in the group.
    pub replicas: u32,
    /// Read-only nodes of these replicas that are not members.
    pub outgoing: BTreeSet<NodeName>,
    /// Members that are read-only nodes of other groups' replicas.
    pub incoming: BTreeSet<NodeName>,
}

/// Describes a group. `replicas` are all that there are.
pub fn describe_group<'a>(
    group: &ResourceGroup,
    nodes: &Nodes,
    replicas: impl IntoIterator<Item = &'a Replica>,
) -> GroupDescription {
    let mut collections: BTreeMap<CollectionId, Borrowed> = BTreeMap::new();
    for replica in replicas {
        let is_member = |node: &&NodeName| group.members.contains(*node);
        if replica.group == group.name {
            let borrowed = collections.entry(replica.collection).or_default();
            borrowed.replicas = borrowed.replicas.saturating_add(1);
            borrowed.outgoing.extend(replica.ro_nodes.iter().filter(|node| !is_member(node)).cloned());
        } else {
            let mut lent = replica.ro_nodes.iter().filter(is_member).cloned().peekable();
            if lent.peek().is_some() {
                collections.entry(replica.collection).or_default().incoming.extend(lent);
            }
        }
    }
    GroupDescription { counts: group.counts(nodes), dirty: group.dirty(nodes), collections }
}
