//! Assignment groups: segments with the same set of assigned nodes, where two replicas are never mixed.

use std::sync::Arc;

use imbl::{OrdMap, Vector};

use crate::{Candidate, NodeIndex, segment::NO_GROUP};

/// The assignment groups of a collection. A change of a segment costs as much as its group has nodes; the other
/// segments of the group are not touched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    numbers: OrdMap<Arc<[NodeIndex]>, u32>,
    groups: Vector<Arc<Group>>,
    /// Numbers of groups without segments, to be given again.
    free: Vector<u32>,
    /// Number of groups that have some node out.
    broken: usize,
}

#[derive(Clone, Debug)]
struct Group {
    /// Its nodes, by place.
    nodes: Arc<[NodeIndex]>,
    /// For each node, how many old segments of the group it has not loaded.
    lacking: Box<[u32]>,
    /// Nodes that lack some.
    out: Vec<NodeIndex>,
    /// Number of segments, old and new.
    segments: u32,
}

impl Groups {
    /// One more segment is assigned to these nodes (by place, each once). Returns the number of their group.
    pub(crate) fn join(&mut self, nodes: &[NodeIndex]) -> u32 {
        if let Some(number) = self.numbers.get(nodes).copied() {
            self.change(number, |group| group.segments += 1);
            return number;
        }
        let nodes: Arc<[NodeIndex]> = nodes.into();
        let lacking = vec![0; nodes.len()].into();
        let group = Arc::new(Group { nodes: nodes.clone(), lacking, out: Vec::new(), segments: 1 });
        let number = match self.free.pop_back() {
            Some(number) => {
                self.groups.set(number as usize, group);
                number
            }
            None => {
                self.groups.push_back(group);
                u32::try_from(self.groups.len() - 1).unwrap_or(NO_GROUP)
            }
        };
        self.numbers.insert(nodes, number);
        number
    }

    /// A segment of the group goes.
    pub(crate) fn leave(&mut self, number: u32) {
        self.change(number, |group| group.segments -= 1);
        if let Some(group) = self.groups.get(number as usize).filter(|group| group.segments == 0) {
            self.numbers.remove(&group.nodes);
            self.free.push_back(number);
        }
    }

    /// An old segment comes, which these candidates have loaded.
    pub(crate) fn add_old(&mut self, number: u32, loaded: &[Candidate]) {
        self.change(number, |group| group.recount(loaded, |lacking| *lacking += 1));
    }

    /// An old segment goes, which these candidates had loaded.
    pub(crate) fn remove_old(&mut self, number: u32, loaded: &[Candidate]) {
        self.change(number, |group| group.recount(loaded, |lacking| *lacking -= 1));
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Group)) {
        if let Some(group) = self.groups.get_mut(number as usize) {
            let group = Arc::make_mut(group);
            let was_broken = !group.out.is_empty();
            change(group);
            self.broken = self.broken + usize::from(!group.out.is_empty()) - usize::from(was_broken);
        }
    }

    /// Whether no node of any group is out.
    pub(crate) fn are_whole(&self) -> bool {
        self.broken == 0
    }

    /// The nodes that are out for a group; nobody for [`NO_GROUP`].
    pub(crate) fn out(&self, number: u32) -> &[NodeIndex] {
        self.groups.get(number as usize).map_or(&[], |group| &group.out)
    }
}

impl Group {
    fn recount(&mut self, loaded: &[Candidate], count: impl Fn(&mut u32)) {
        for (node, lacking) in self.nodes.iter().zip(&mut self.lacking) {
            if !loaded.iter().any(|candidate| candidate.node() == *node) {
                count(lacking);
            }
        }
        self.out.clear();
        let lacks = self.nodes.iter().zip(&self.lacking).filter(|(_, lacking)| **lacking > 0);
        self.out.extend(lacks.map(|(node, _)| *node));
    }
}
