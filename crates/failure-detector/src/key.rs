//! What reports are about.

use std::{cmp::Ordering, fmt};

use pointsman_ids::{NodeKey, NodeName};

/// A node of one cluster, or a bare name for reporters that do not know the cluster. The two forms are different
/// keys: a bare name stands for the nodes of that name in every cluster.
///
/// Keys order by the bytes of their written form (`east/n1`, `n1`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A node of one cluster.
    Node(NodeKey),
    /// The nodes of this name in every cluster.
    Bare(NodeName),
}

impl Key {
    /// The two keys under which a node may stand: its own and its bare name.
    pub fn both(node: &NodeKey) -> [Self; 2] {
        [Self::Node(node.clone()), Self::Bare(node.node.clone())]
    }

    fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        let (cluster, slash, node) = match self {
            Self::Node(key) => (key.cluster.as_str(), "/", key.node.as_str()),
            Self::Bare(node) => ("", "", node.as_str()),
        };
        cluster.bytes().chain(slash.bytes()).chain(node.bytes())
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(key) => key.fmt(f),
            Self::Bare(node) => node.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_by_their_written_form() {
        let node = |cluster: &str, node: &str| {
            Key::Node(NodeKey { cluster: cluster.parse().unwrap(), node: node.parse().unwrap() })
        };
        let mut keys = [node("b", "n1"), Key::Bare("c".parse().unwrap()), node("b-1", "n1"), node("a", "n2")];
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["a/n2", "b-1/n1", "b/n1", "c"]);
    }
}
