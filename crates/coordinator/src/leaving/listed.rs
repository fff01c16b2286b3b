//! Since which version of the feed brokers are told what of nodes.

use std::{collections::BTreeMap, mem};

use pointsman_ids::{FeedVersion, NodeId, NodeName, feed::NodeEntry};

/// Nodes that the newest version holds.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    nodes: BTreeMap<NodeName, Entry>,
}

#[derive(Debug)]
struct Entry {
    id: NodeId,
    enabled: bool,
    /// The version that first held this process.
    first: FeedVersion,
    /// The version since which it is enabled, or is not.
    turned: FeedVersion,
}

impl Listed {
    /// Takes a new version.
    pub(crate) fn update(&mut self, nodes: &[NodeEntry], version: FeedVersion) {
        let mut before = mem::take(&mut self.nodes);
        for node in nodes {
            let (id, enabled) = (node.id, node.enabled);
            let known = before.remove(&node.name).filter(|known| known.id == id);
            let first = known.as_ref().map_or(version, |known| known.first);
            let turned = known.filter(|known| known.enabled == enabled).map_or(version, |known| known.turned);
            self.nodes.insert(node.name.clone(), Entry { id, enabled, first, turned });
        }
    }

    /// The version that first held the node's process; `None`: the newest one does not.
    pub(crate) fn first(&self, node: &str) -> Option<FeedVersion> {
        self.nodes.get(node).map(|entry| entry.first)
    }

    /// Whether queries may go to the node by the newest version.
    pub(crate) fn is_enabled(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|entry| entry.enabled)
    }

    /// The version since which queries may not go to the node although it is there; `None`: they may, or it is not.
    pub(crate) fn out_since(&self, node: &str) -> Option<FeedVersion> {
        self.nodes.get(node).filter(|entry| !entry.enabled).map(|entry| entry.turned)
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::{GroupNumber, Incarnation};

    use super::*;

    fn node(id: u64, enabled: bool) -> NodeEntry {
        NodeEntry {
            name: "n1".parse().unwrap(),
            id: NodeId(id),
            address: "http://n1.example:1".into(),
            incarnation: Incarnation(id),
            switched_on: true,
            enabled,
            lost: false,
            pool: GroupNumber(0),
        }
    }

    #[test]
    fn a_process_is_held_since_its_first_version_and_out_since_it_was_turned() {
        let mut listed = Listed::default();
        let mut at = |version: u64, nodes: &[NodeEntry]| {
            listed.update(nodes, FeedVersion(version));
            let versions = [listed.first("n1"), listed.out_since("n1")];
            (versions.map(|version| version.map(|version| version.0)), listed.is_enabled("n1"))
        };
        assert_eq!(at(1, &[]), ([None, None], false));
        assert_eq!(at(2, &[node(1, true)]), ([Some(2), None], true));
        assert_eq!(at(3, &[node(1, true)]), ([Some(2), None], true));
        assert_eq!(at(4, &[node(1, false)]), ([Some(2), Some(4)], false));
        assert_eq!(at(5, &[node(1, false)]), ([Some(2), Some(4)], false));
        assert_eq!(at(6, &[node(1, true)]), ([Some(2), None], true));
        assert_eq!(at(7, &[node(2, false)]), ([Some(7), Some(7)], false), "another process");
        assert_eq!(at(8, &[]), ([None, None], false));
    }
}
