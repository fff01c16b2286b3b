//! The outcome of a selection.

use pointsman_ids::UnavailableCause;

use crate::NodeIndex;

/// Who answers for what. Every requested segment is in exactly one part, or unavailable, or unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Chosen segments, by node and then in the order of the request.
    segments: Vec<u32>,
    /// The nodes, ascending, with the end of their segments in `segments`.
    ends: Vec<(NodeIndex, u32)>,
    /// Segments that nobody can answer for, in the order of the request.
    pub unavailable: Vec<(u32, UnavailableCause)>,
    /// How many requested segments the states do not know: catalog and routing are two snapshots, and one may lag.
    pub unknown: u32,
}

impl Selection {
    /// Groups picks by node.
    pub(crate) fn group(
        picks: &[(u32, NodeIndex)],
        nodes: usize,
        unavailable: Vec<(u32, UnavailableCause)>,
        unknown: u32,
    ) -> Self {
        let mut next = vec![0u32; nodes + 1];
        for (_, node) in picks {
            next[node.0 as usize + 1] += 1;
        }
        for at in 1..next.len() {
            next[at] += next[at - 1];
        }
        let ends = (0..nodes)
            .filter(|at| next[*at] < next[at + 1])
            .map(|at| (NodeIndex::at(at), next[at + 1]))
            .collect();
        let mut segments = vec![0; picks.len()];
        for (segment, node) in picks {
            let place = &mut next[node.0 as usize];
            segments[*place as usize] = *segment;
            *place += 1;
        }
        Self { segments, ends, unavailable, unknown }
    }

    /// The nodes, ascending, each with its segments in the order of the request. No part is empty.
    pub fn parts(&self) -> impl Iterator<Item = (NodeIndex, &[u32])> {
        let mut start = 0;
        self.ends.iter().map(move |(node, end)| {
            let part = &self.segments[start..*end as usize];
            start = *end as usize;
            (*node, part)
        })
    }

    /// Number of segments that a node answers for.
    pub fn served(&self) -> usize {
        self.segments.len()
    }

    /// Whether nobody has to be asked.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}
