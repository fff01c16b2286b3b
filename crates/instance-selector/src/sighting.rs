//! What the copies of a segment say of each node.

use pointsman_ids::{GroupNumber, feed::CopyState};

use crate::{Candidate, CopyInput, NodeIndex, Nodes};

/// A node and what is wanted of it and seen on it, for one segment.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    node: NodeIndex,
    group: GroupNumber,
    assigned: bool,
    should_serve: bool,
    observed: Option<CopyState>,
}

impl Sighting {
    fn is_loaded(&self) -> bool {
        self.should_serve && self.observed.is_some_and(CopyState::serves)
    }

    fn candidate(&self) -> Candidate {
        Candidate::new(self.node, self.group, self.is_loaded())
    }
}

/// The nodes of one segment by name, each once. Kept between segments, so that reading one allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    copies: Vec<CopyInput>,
    nodes: Vec<Sighting>,
}

impl Sightings {
    /// Reads the copies of a segment in place of what was read before.
    pub(crate) fn read(&mut self, copies: &[CopyInput], nodes: &Nodes) {
        self.copies.clear();
        self.copies.extend_from_slice(copies);
        // Stable, so that the copies of one node keep their order.
        self.copies.sort_by(|one, other| {
            let names = (nodes.name(one.node), nodes.name(other.node));
            names.0.cmp(&names.1).then(one.node.cmp(&other.node))
        });
        self.nodes.clear();
        self.nodes.extend(self.copies.chunk_by(|one, other| one.node == other.node).filter_map(merge));
    }

    /// Whether it is being loaded for the first time, as far as the states tell: so it is without any observation, too,
    /// where some node should serve it.
    pub(crate) fn are_settling(&self) -> bool {
        let mut wanted = self.nodes.iter().filter(|node| node.should_serve);
        let failed = wanted.clone().any(|node| node.observed == Some(CopyState::Error));
        !failed && wanted.any(|node| matches!(node.observed, None | Some(CopyState::Offline)))
    }

    /// Number of nodes that should serve it.
    pub(crate) fn expected(&self) -> usize {
        self.nodes.iter().filter(|node| node.should_serve).count()
    }

    /// Nodes that have loaded it.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = Candidate> {
        self.nodes.iter().filter(|node| node.is_loaded()).map(Sighting::candidate)
    }

    /// Nodes that should serve it.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = Candidate> {
        self.nodes.iter().filter(|node| node.should_serve).map(Sighting::candidate)
    }

    /// Nodes that it is assigned to, in whatever state.
    pub(crate) fn assigned(&self) -> impl Iterator<Item = Candidate> {
        self.nodes.iter().filter(|node| node.assigned).map(Sighting::candidate)
    }
}

/// The copies of one node as one: assigned if any is, seen at its best, in the group of the first copy that is loaded,
/// else of the first that should be, else of the first.
fn merge(copies: &[CopyInput]) -> Option<Sighting> {
    let standing = |copy: &CopyInput| (copy.is_loaded(), copy.should_serve(), copy.assigned.is_some());
    // The first of the best: `max_by_key` would take the last.
    let best = copies.iter().rev().max_by_key(|copy| standing(copy))?;
    let quality = |state: &CopyState| match state {
        CopyState::Online | CopyState::Consuming => 2,
        CopyState::Error => 1,
        CopyState::Offline => 0,
    };
    Some(Sighting {
        node: best.node,
        group: best.group,
        assigned: copies.iter().any(|copy| copy.assigned.is_some()),
        should_serve: copies.iter().any(CopyInput::should_serve),
        observed: copies.iter().filter_map(|copy| copy.observed).max_by_key(quality),
    })
}
