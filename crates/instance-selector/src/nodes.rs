//! The nodes of a cluster, as selectors see them.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{NodeId, NodeName, feed::NodeEntry};

/// A place in [`Nodes`]. Places ascend by node name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    pub(crate) fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn usize(self) -> usize {
        self.0 as usize
    }
}

/// The members of a cluster by name, who of them is enabled and who is routable.
#[derive(Clone, Debug)]
pub struct Nodes {
    table: Arc<Table>,
    routable: NodeSet,
}

#[derive(Debug)]
struct Table {
    entries: Vec<NodeEntry>,
    by_id: BTreeMap<NodeId, NodeIndex>,
    enabled: NodeSet,
}

impl Nodes {
    /// The nodes of a snapshot; `excluded` tells whom the failure detector has taken out.
    pub fn new(entries: &[NodeEntry], excluded: impl Fn(&NodeName) -> bool) -> Self {
        let mut entries = entries.to_vec();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let by_id = entries.iter().enumerate().map(|(at, entry)| (entry.id, NodeIndex::at(at))).collect();
        let enabled = NodeSet::of(entries.len(), |at| entries[at].enabled);
        let table = Arc::new(Table { entries, by_id, enabled });
        let routable = NodeSet::empty(0);
        Self { table, routable }.with_excluded(excluded)
    }

    /// The same nodes with other exclusions. Costs as much as there are nodes.
    #[must_use]
    pub fn with_excluded(&self, excluded: impl Fn(&NodeName) -> bool) -> Self {
        let entries = &self.table.entries;
        let routable = NodeSet::of(entries.len(), |at| entries[at].enabled && !excluded(&entries[at].name));
        Self { table: self.table.clone(), routable }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.table.entries.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.table.entries.is_empty()
    }

    /// What the feed says of a node. The index must come from these nodes or from states that were built with them.
    pub fn entry(&self, node: NodeIndex) -> &NodeEntry {
        &self.table.entries[node.usize()]
    }

    /// Members by name.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIndex, &NodeEntry)> {
        self.table.entries.iter().enumerate().map(|(at, entry)| (NodeIndex::at(at), entry))
    }

    /// The place of a node id.
    pub fn by_id(&self, id: NodeId) -> Option<NodeIndex> {
        self.table.by_id.get(&id).copied()
    }

    /// The place of a name.
    pub fn by_name(&self, name: &NodeName) -> Option<NodeIndex> {
        self.table.entries.binary_search_by(|entry| entry.name.cmp(name)).ok().map(NodeIndex::at)
    }

    /// Whether the cluster lets queries go to the node.
    pub fn is_enabled(&self, node: NodeIndex) -> bool {
        self.table.enabled.contains(node)
    }

    /// Whether the node is enabled and not excluded.
    pub fn is_routable(&self, node: NodeIndex) -> bool {
        self.routable.contains(node)
    }

    /// Enabled nodes that are not excluded.
    pub fn routable(&self) -> &NodeSet {
        &self.routable
    }

    /// Whether states that were built with `other` can be used with these: the same processes at the same places.
    pub fn same_places(&self, other: &Self) -> bool {
        let ids = |nodes: &Self| nodes.table.entries.iter().map(|entry| entry.id).collect::<Vec<_>>();
        Arc::ptr_eq(&self.table, &other.table) || ids(self) == ids(other)
    }
}

/// A set of nodes: one bit for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    words: Vec<u64>,
}

impl NodeSet {
    /// A set for `nodes` nodes, without any.
    pub fn empty(nodes: usize) -> Self {
        Self { words: vec![0; nodes.div_ceil(64)] }
    }

    fn of(nodes: usize, member: impl Fn(usize) -> bool) -> Self {
        let mut set = Self::empty(nodes);
        (0..nodes).filter(|at| member(*at)).for_each(|at| set.insert(NodeIndex::at(at)));
        set
    }

    /// Adds a node that the set has room for.
    pub fn insert(&mut self, node: NodeIndex) {
        if let Some(word) = self.words.get_mut(node.usize() / 64) {
            *word |= 1 << (node.0 % 64);
        }
    }

    /// Whether the node is in the set.
    pub fn contains(&self, node: NodeIndex) -> bool {
        self.words.get(node.usize() / 64).is_some_and(|word| word >> (node.0 % 64) & 1 == 1)
    }

    /// Whether nobody is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        (0..self.words.len() * 64).map(NodeIndex::at).filter(|node| self.contains(*node))
    }
}
