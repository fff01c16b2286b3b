//! What adaptive selection knows of the nodes.

use crate::NodeIndex;

/// What the statistics of a node mean for the ranking.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Standing {
    /// Without statistics, or on trial and with room for one more request: it is tried before others.
    #[default]
    Unmeasured,
    /// Its score; lower is better.
    Measured(f64),
    /// On trial, with as many requests under way as a trial allows: it comes after all others.
    TrialFull,
}

/// The standings of all nodes at the beginning of a request, so that one request ranks by one state.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    standings: Vec<Standing>,
}

impl Scores {
    /// These standings; nodes that are not among them are unmeasured.
    pub fn new(standings: impl IntoIterator<Item = (NodeIndex, Standing)>) -> Self {
        let mut scores = Self::default();
        for (node, standing) in standings {
            if scores.standings.len() <= node.usize() {
                scores.standings.resize(node.usize() + 1, Standing::Unmeasured);
            }
            scores.standings[node.usize()] = standing;
        }
        scores
    }

    /// The standing of a node.
    pub fn standing(&self, node: NodeIndex) -> Standing {
        self.standings.get(node.usize()).copied().unwrap_or_default()
    }
}
