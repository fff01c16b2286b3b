//! Places of node names.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::NodeName;

/// The place of a node's name in a [`NodeTable`]. Places come in the order in which names were first heard, not in the
/// order of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    pub(crate) fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    #[inline]
    pub(crate) fn usize(self) -> usize {
        self.0 as usize
    }
}

/// Gives every node name of a cluster a place, members and others alike. It only grows, so a place keeps its name for
/// ever; a clone shares what is there. One table holds fewer than 2^31 names.
#[derive(Clone, Debug, Default)]
pub struct NodeTable {
    shared: Arc<Interned>,
}

#[derive(Clone, Debug, Default)]
struct Interned {
    names: Vec<NodeName>,
    places: BTreeMap<NodeName, NodeIndex>,
}

impl NodeTable {
    /// The place of a name; a new one if it has none. A new name copies the table if a clone of it lives.
    pub fn intern(&mut self, name: &NodeName) -> NodeIndex {
        if let Some(place) = self.find(name) {
            return place;
        }
        let interned = Arc::make_mut(&mut self.shared);
        let place = NodeIndex::at(interned.names.len());
        interned.names.push(name.clone());
        interned.places.insert(name.clone(), place);
        place
    }

    /// The place of a name; `None`: never heard of.
    pub fn find(&self, name: &NodeName) -> Option<NodeIndex> {
        self.shared.places.get(name).copied()
    }

    /// The name at a place; `None`: the place was given by a later version of the table.
    pub fn name(&self, node: NodeIndex) -> Option<&NodeName> {
        self.shared.names.get(node.usize())
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.shared.names.len()
    }

    /// Whether no name was heard yet.
    pub fn is_empty(&self) -> bool {
        self.shared.names.is_empty()
    }

    /// All names, by place.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIndex, &NodeName)> {
        (0..).map(NodeIndex).zip(&self.shared.names)
    }
}
