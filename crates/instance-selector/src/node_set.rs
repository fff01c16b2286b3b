//! A set of nodes.

use std::fmt;

use crate::NodeIndex;

/// A set of nodes, one bit for each; asking costs one look.
#[derive(Clone, Default)]
pub struct NodeSet {
    words: Vec<u64>,
}

impl NodeSet {
    /// The set without anybody.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Adds a node.
    pub fn insert(&mut self, node: NodeIndex) {
        if self.words.len() <= word(node) {
            self.words.resize(word(node) + 1, 0);
        }
        self.words[word(node)] |= bit(node);
    }

    /// Takes a node out.
    pub fn remove(&mut self, node: NodeIndex) {
        if let Some(word) = self.words.get_mut(word(node)) {
            *word &= !bit(node);
        }
    }

    /// Whether the node is in the set.
    #[inline]
    pub fn contains(&self, node: NodeIndex) -> bool {
        self.bits().contains(node)
    }

    /// The set as a value for tight loops.
    pub(crate) fn bits(&self) -> Bits<'_> {
        Bits(&self.words)
    }

    /// Whether nobody is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Number of nodes in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether every node of this set is in `other` too.
    pub fn is_subset(&self, other: &Self) -> bool {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(others).all(|(word, other)| word & !other == 0)
    }

    /// The nodes of this set that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        Self { words: self.words.iter().zip(others).map(|(word, other)| word & !other).collect() }
    }

    /// The nodes, by place, ascending.
    pub fn iter(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        (0..).take(self.words.len() * 64).map(NodeIndex).filter(|node| self.contains(*node))
    }
}

/// A set of nodes that stays in registers while a loop asks it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'a>(&'a [u64]);

impl Bits<'_> {
    /// Whether the node is in the set.
    #[inline]
    pub(crate) fn contains(self, node: NodeIndex) -> bool {
        self.0.get(word(node)).is_some_and(|word| word & bit(node) != 0)
    }
}

fn word(node: NodeIndex) -> usize {
    node.0 as usize / 64
}

fn bit(node: NodeIndex) -> u64 {
    1 << (node.0 % 64)
}

impl FromIterator<NodeIndex> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIndex>>(nodes: I) -> Self {
        let mut set = Self::new();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &Self) -> bool {
        self.is_subset(other) && other.is_subset(self)
    }
}

impl Eq for NodeSet {}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|node| node.0)).finish()
    }
}
