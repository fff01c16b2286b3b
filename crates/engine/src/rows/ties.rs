//! Which of the nearest vectors of all segments win.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::Result;
use pointsman_vectors::Neighbour;

use super::{
    answer::{Source, Winner, watched},
    key::KeyColumn,
    pause,
    search::{Nearest, Search},
    segment::Segment,
};

/// Distances beyond which a row cannot win any more, while segments are still being searched.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Per vector: the smallest distances so far, at most as many as rows are asked for.
    best: Vec<Vec<f32>>,
    k: usize,
}

impl Bounds {
    pub(super) fn new(queries: usize, k: usize) -> Self {
        Self { best: vec![vec![]; queries], k }
    }

    /// Takes the distances of a segment in, and cuts off what is too far.
    pub(super) fn cut(&mut self, nearest: &mut Nearest) {
        for (best, found) in self.best.iter_mut().zip(&mut nearest.found) {
            best.extend(found.iter().map(|near| near.distance));
            best.sort_by(f32::total_cmp);
            best.truncate(self.k);
            if let Some(bound) = best.get(self.k - 1) {
                found.truncate(found.partition_point(|near| near.distance <= *bound));
                found.shrink_to_fit();
            }
        }
    }
}

/// Rows of a vector that are equally far, of which the first by key win.
struct Tie {
    query: usize,
    /// How many win.
    most: usize,
    /// By segment and row.
    rows: Vec<(usize, u32)>,
}

/// The rows that win, by segment: for each vector the nearest ones, of equal ones those first by key, then by segment and
/// row.
pub(super) async fn winners(
    search: &Search,
    key: Option<&KeyColumn>,
    segments: &[Arc<Segment>],
    nearest: &[Nearest],
    source: &Source,
) -> Result<Vec<Vec<Winner>>> {
    let mut winners: Vec<Vec<Winner>> = vec![vec![]; segments.len()];
    let mut ties = vec![];
    for query in 0..search.queries()?.rows() {
        let mut all: Vec<(usize, Neighbour)> = (nearest.iter().enumerate())
            .flat_map(|(at, nearest)| nearest.found[query].iter().map(move |near| (at, *near)))
            .collect();
        // Without keys, equal ones are in their order already.
        all.sort_by(|a, b| {
            a.1.distance.total_cmp(&b.1.distance).then(a.0.cmp(&b.0)).then(a.1.row.cmp(&b.1.row))
        });
        let last = all.get(search.k - 1).map(|(_, near)| near.distance);
        let is_tied = last.is_some() && all.get(search.k).map(|(_, near)| near.distance) == last;
        if let (Some(key), Some(distance), true) = (key, last, is_tied) {
            let nearer = all.partition_point(|(_, near)| near.distance < distance);
            let most = search.k - nearer;
            let mut rows = vec![];
            for (at, (segment, nearest)) in segments.iter().zip(nearest).enumerate() {
                rows.extend(
                    equal(search, key, segment, nearest, source, query, distance, most)
                        .await?
                        .into_iter()
                        .map(|row| (at, row)),
                );
            }
            ties.push((distance, Tie { query, most, rows }));
            all.truncate(nearer);
        }
        all.truncate(search.k);
        for (at, near) in all {
            winners[at].push(winner(query, near)?);
        }
        pause().await;
    }
    let Some(key) = key else { return Ok(winners) };
    let keys = keys(key, segments, &ties, source).await?;
    for (distance, mut tie) in ties {
        tie.rows.sort_by_cached_key(|(at, row)| (keys[*at].get(row), *at, *row));
        for (at, row) in tie.rows.into_iter().take(tie.most) {
            winners[at].push(winner(tie.query, Neighbour { distance, row })?);
        }
        pause().await;
    }
    Ok(winners)
}

/// The rows of a segment that are as far as `distance`; where there may be more than were found, the first ones by key.
#[expect(clippy::too_many_arguments, reason = "one step of the loop above")]
async fn equal(
    search: &Search,
    key: &KeyColumn,
    segment: &Segment,
    nearest: &Nearest,
    source: &Source,
    query: usize,
    distance: f32,
    most: usize,
) -> Result<Vec<u32>> {
    let found = &nearest.found[query];
    let is_cut = found.len() > search.k && found.last().is_some_and(|last| last.distance == distance);
    if is_cut && !nearest.indexed {
        let nearest = search.as_near(segment, source, query, distance, key, most).await;
        return watched(segment.id, source, nearest);
    }
    Ok(found.iter().filter(|near| near.distance == distance).map(|near| near.row).collect())
}

fn winner(query: usize, near: Neighbour) -> Result<Winner> {
    let place = u32::try_from(query).map_err(super::broken)?;
    Ok(Winner { place, distance: near.distance, row: near.row })
}

/// Keys of all rows in ties, by segment.
async fn keys(
    key: &KeyColumn,
    segments: &[Arc<Segment>],
    ties: &[(f32, Tie)],
    source: &Source,
) -> Result<Vec<BTreeMap<u32, Box<[u8]>>>> {
    let mut keys = vec![];
    for (at, segment) in segments.iter().enumerate() {
        let own = ties.iter().flat_map(|(_, tie)| tie.rows.iter());
        let mut rows: Vec<u32> = own.filter(|(segment, _)| *segment == at).map(|(_, row)| *row).collect();
        rows.sort_unstable();
        rows.dedup();
        keys.push(watched(segment.id, source, key.of_rows(segment, &rows).await)?);
    }
    Ok(keys)
}
