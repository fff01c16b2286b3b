//! Adaptive selection: the best-ranked candidate.

use std::cmp::Ordering;

use pointsman_ids::GroupNumber;

use super::{
    Scope,
    chooser::{Chooser, Rule},
};
use crate::{Candidate, NodeIndex, Scores, Standing};

/// Takes the first usable candidate in the order of pool, statistics, score and name. Lower is better. A node whose
/// trial is full comes after all others.
#[derive(Clone, Copy)]
pub(super) struct Ranked<'a>(pub(super) &'a [Rank]);

/// What a node is ranked by, but for its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank {
    trial_full: bool,
    /// Place of its pool among the preferred ones; the others share the place behind the last.
    pool: usize,
    measured: bool,
    score: f64,
}

/// The ranks of all nodes, by place.
pub(super) fn ranks(scope: &Scope<'_>, scores: &Scores) -> Vec<Rank> {
    let preferred = scope.request.preferred_pools;
    let place =
        |pool: GroupNumber| preferred.iter().position(|named| *named == pool.0).unwrap_or(preferred.len());
    let rank = |node| {
        let standing = scores.standing(node);
        let score = if let Standing::Measured(score) = standing { score } else { 0.0 };
        Rank {
            trial_full: standing == Standing::TrialFull,
            pool: place(scope.states.pool(node)),
            measured: matches!(standing, Standing::Measured(_)),
            score,
        }
    };
    (0..).map(NodeIndex).take(scope.states.listed.len()).map(rank).collect()
}

impl Rank {
    fn order(&self, other: &Self) -> Ordering {
        (self.trial_full, self.pool, self.measured)
            .cmp(&(other.trial_full, other.pool, other.measured))
            .then(self.score.total_cmp(&other.score))
    }
}

impl Chooser for Ranked<'_> {
    fn choose(&mut self, usable: &[Candidate]) -> usize {
        let ranks = usable.iter().map(|candidate| self.0.get(candidate.node().usize()));
        // Candidates come by name, and the first of equals wins: the lower name.
        let best = ranks.enumerate().min_by(|(_, one), (_, other)| match (one, other) {
            (Some(one), Some(other)) => one.order(other),
            _ => Ordering::Equal,
        });
        best.map_or(0, |(at, _)| at)
    }

    fn rule(&self) -> Rule {
        Rule::Ranking
    }
}
