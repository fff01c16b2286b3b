//! The candidates of every segment of one collection.

use pointsman_ids::{
    CollectionName, GroupNumber,
    catalog::SelectorKind,
    feed::{CollectionEntry, SegmentEntry},
};

use crate::{NodeIndex, Nodes};

/// A node that should serve a segment and has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeIndex,
    /// The resource group of the replica that the copy belongs to, which is not always the node's.
    pub group: GroupNumber,
}

/// The candidates of every segment of a collection, by node name. Segments go by their position in
/// [`CollectionEntry::segments`]. Segments of a current target are old in the words of the routing rules: one that
/// nobody has is unavailable, not new.
#[derive(Clone, Debug)]
pub struct States {
    collection: CollectionName,
    selector: SelectorKind,
    /// Candidates of all segments, one segment after the other.
    candidates: Vec<Candidate>,
    /// Where the candidates of each segment end.
    ends: Vec<u32>,
    /// Segments that no node should serve, ascending. They are not of this world, but they are worth a word.
    unassigned: Vec<u32>,
}

impl States {
    /// The states of a collection whose copies lie on `nodes`.
    pub fn new(entry: &CollectionEntry, nodes: &Nodes) -> Self {
        let mut states = Self {
            collection: entry.name.clone(),
            selector: entry.selector,
            candidates: Vec::with_capacity(entry.segments.iter().map(|segment| segment.copies.len()).sum()),
            ends: Vec::with_capacity(entry.segments.len()),
            unassigned: Vec::new(),
        };
        for (at, segment) in (0u32..).zip(&entry.segments) {
            let start = states.candidates.len();
            states.candidates.extend(candidates(entry, segment, nodes));
            // By name; a node that holds a segment for two replicas counts once, for the older one.
            states.candidates[start..].sort_by_key(|candidate| candidate.node);
            let mut kept = start;
            for next in start..states.candidates.len() {
                if kept == start || states.candidates[kept - 1].node != states.candidates[next].node {
                    states.candidates[kept] = states.candidates[next];
                    kept += 1;
                }
            }
            states.candidates.truncate(kept);
            states.ends.push(u32::try_from(kept).unwrap_or(u32::MAX));
            if !segment.copies.iter().any(|copy| copy.assigned.is_some_and(|state| state.serves())) {
                states.unassigned.push(at);
            }
        }
        states
    }

    /// The collection's name.
    pub fn collection(&self) -> &CollectionName {
        &self.collection
    }

    /// How the collection wants its replicas chosen.
    pub fn selector(&self) -> SelectorKind {
        self.selector
    }

    /// Number of segments.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no segment.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Candidates of a segment, by node name; `None`: there is no such segment.
    pub fn candidates(&self, segment: u32) -> Option<&[Candidate]> {
        let at = segment as usize;
        let end = *self.ends.get(at)? as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        self.candidates.get(start..end)
    }

    pub(crate) fn is_unassigned(&self, segment: u32) -> bool {
        self.unassigned.binary_search(&segment).is_ok()
    }
}

fn candidates<'a>(
    entry: &'a CollectionEntry,
    segment: &'a SegmentEntry,
    nodes: &'a Nodes,
) -> impl Iterator<Item = Candidate> + 'a {
    segment.copies.iter().filter_map(|copy| {
        let serves = copy.assigned.is_some_and(|state| state.serves());
        let loaded = copy.observed.is_some_and(|state| state.serves());
        let node = nodes.by_id(copy.node).filter(|_| serves && loaded)?;
        let replica = entry.replicas.get(copy.replica as usize);
        Some(Candidate { node, group: replica.map_or(GroupNumber::NONE, |replica| replica.group) })
    })
}
