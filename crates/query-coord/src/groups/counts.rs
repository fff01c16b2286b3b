//! How many nodes a group has, lacks, and has too many.

use std::collections::BTreeSet;

use pointsman_ids::{GroupName, NodeName};

use super::{GroupConfig, Nodes};
use crate::{NodeRecord, ResourceGroup};

/// The figures of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Nodes that it wants at least.
    pub requests: u32,
    /// Nodes that it takes at most.
    pub limits: u32,
    /// Members that match its filter.
    pub live: u32,
    /// Members that it does not accept.
    pub dirty: u32,
}

impl GroupCounts {
    /// The figures of a group with this configuration, and so many members of either kind.
    pub(super) fn new(config: &GroupConfig, live: usize, dirty: usize) -> Self {
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self { requests: config.requests, limits: config.limits, live: number(live), dirty: number(dirty) }
    }

    /// Nodes that are missing from what it requests.
    pub fn missing(&self) -> u32 {
        self.requests.saturating_sub(self.live)
    }

    /// Nodes that it can spare: those above its requests, and those that it does not accept.
    pub fn oversized(&self) -> u32 {
        self.live.saturating_sub(self.requests).saturating_add(self.dirty)
    }

    /// Nodes that it can still take.
    pub fn headroom(&self) -> u32 {
        self.limits.saturating_sub(self.live)
    }

    /// Nodes that have to leave: those above its limits, and those that it does not accept.
    pub fn redundant(&self) -> u32 {
        self.live.saturating_sub(self.limits).saturating_add(self.dirty)
    }
}

impl ResourceGroup {
    /// Whether a node may be a member: the default group takes every node, another one those that are known and have
    /// all labels of its filter. `None`: the node is not known.
    pub fn accepts(&self, node: Option<&NodeRecord>) -> bool {
        accepts(&self.name, &self.config, node)
    }

    /// Members that it does not accept, by name.
    pub fn dirty(&self, nodes: &Nodes) -> BTreeSet<NodeName> {
        self.members.iter().filter(|node| !self.accepts(nodes.get(*node))).cloned().collect()
    }

    /// Its figures.
    pub fn counts(&self, nodes: &Nodes) -> GroupCounts {
        let dirty = self.members.iter().filter(|node| !self.accepts(nodes.get(*node))).count();
        GroupCounts::new(&self.config, self.members.len() - dirty, dirty)
    }
}

pub(super) fn accepts(name: &GroupName, config: &GroupConfig, node: Option<&NodeRecord>) -> bool {
    if name.as_str() == GroupName::DEFAULT {
        return true;
    }
    let matches = |node: &NodeRecord| {
        config.node_filter.iter().all(|(label, value)| node.labels.get(label) == Some(value))
    };
    node.is_some_and(matches)
}
