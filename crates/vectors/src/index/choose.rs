//! Which of the near rows a row links to.

use pointsman_ids::request::Metric;

use crate::{Neighbour, Vectors, distance::Measure};

/// Of `candidates`, nearest first, at most `most` to link to: those that are nearer to the row itself than to any chosen
/// before, so that links lead into every direction (algorithm 4 of the paper), then the nearest of the others.
pub(crate) fn choose(
    vectors: Vectors<'_>,
    metric: Metric,
    candidates: &[Neighbour],
    most: usize,
) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::with_capacity(most);
    let mut others = Vec::new();
    for candidate in candidates {
        if chosen.len() == most {
            break;
        }
        let measure = Measure::new(metric, vectors.row(candidate.row));
        if chosen.iter().all(|&row| candidate.distance < measure.to(vectors.row(row))) {
            chosen.push(candidate.row);
        } else {
            others.push(candidate.row);
        }
    }
    let room = most - chosen.len();
    chosen.extend(others.into_iter().take(room));
    chosen
}
