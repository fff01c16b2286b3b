//! Exact search: every vector is looked at.

use std::ops::Range;

use pointsman_ids::request::Metric;

use crate::{
    Error, Neighbour, RowSet, Vectors,
    distance::{Measure, MeasuredWork},
    neighbours::Nearest,
};

/// Bytes of vectors that stay near the processor while every query looks at them.
const BLOCK: usize = 64 * 1024;

/// The `k` vectors nearest to `query`, nearest first, equally near ones by row; of `accept` alone if it is given. Fewer when
/// there are not so many. Those without a distance, since a number is NaN, never answer.
///
/// # Errors
/// [`Error::Dims`], [`Error::Rows`]: the query or the set do not fit to the vectors.
///
/// ```
/// use pointsman_ids::request::Metric;
/// use pointsman_vectors::{RowSet, Vectors, nearest};
///
/// let numbers = [0.0, 0.0, 3.0, 4.0, 1.0, 0.0];
/// let vectors = Vectors::new(&numbers, 2)?;
/// let found = nearest(vectors, Metric::L2, &[0.0, 0.0], 2, None)?;
/// assert_eq!(found.iter().map(|found| (found.row, found.distance)).collect::<Vec<_>>(), [(0, 0.0), (2, 1.0)]);
///
/// let odd = RowSet::new(vectors.rows(), |row| row % 2 == 1);
/// let found = nearest(vectors, Metric::L2, &[0.0, 0.0], 2, Some(&odd))?;
/// assert_eq!(found.iter().map(|found| (found.row, found.distance)).collect::<Vec<_>>(), [(1, 25.0)]);
/// # Ok::<(), pointsman_vectors::Error>(())
/// ```
pub fn nearest(
    vectors: Vectors<'_>,
    metric: Metric,
    query: &[f32],
    k: usize,
    accept: Option<&RowSet>,
) -> Result<Vec<Neighbour>, Error> {
    check(vectors, query.len(), accept)?;
    let measure = Measure::new(metric, query);
    let mut nearest = Nearest::new(k, count(vectors, accept));
    scan(vectors, 0..vectors.rows() as u32, accept, &measure, &mut nearest);
    Ok(nearest.into_sorted())
}

/// The same for several queries, in their order, with one pass over memory. It cannot be stopped on its way: give it few at
/// a time, such as 16, more of which save little.
///
/// # Errors
/// As [`nearest`].
pub fn nearest_to_each(
    vectors: Vectors<'_>,
    metric: Metric,
    queries: Vectors<'_>,
    k: usize,
    accept: Option<&RowSet>,
) -> Result<Vec<Vec<Neighbour>>, Error> {
    check(vectors, queries.dims(), accept)?;
    let measures: Vec<_> = queries.iter().map(|query| Measure::new(metric, query)).collect();
    let mut nearest = vec![Nearest::new(k, count(vectors, accept)); measures.len()];
    let rows = vectors.rows() as u32;
    let block = (BLOCK / (vectors.dims() * size_of::<f32>())).max(1);
    for start in (0..rows).step_by(block) {
        let block = start..rows.min(start.saturating_add(block as u32));
        for (measure, nearest) in measures.iter().zip(&mut nearest) {
            scan(vectors, block.clone(), accept, measure, nearest);
        }
    }
    Ok(nearest.into_iter().map(Nearest::into_sorted).collect())
}

/// Whether a query and a set fit to vectors.
pub(crate) fn check(vectors: Vectors<'_>, dims: usize, accept: Option<&RowSet>) -> Result<(), Error> {
    if dims != vectors.dims() {
        return Err(Error::Dims { expected: vectors.dims(), found: dims });
    }
    match accept {
        Some(set) if set.rows() != vectors.rows() => {
            Err(Error::Rows { expected: vectors.rows(), found: set.rows() })
        }
        _ => Ok(()),
    }
}

/// Rows that may answer.
pub(crate) fn count(vectors: Vectors<'_>, accept: Option<&RowSet>) -> usize {
    accept.map_or(vectors.rows(), RowSet::len)
}

fn scan(
    vectors: Vectors<'_>,
    rows: Range<u32>,
    accept: Option<&RowSet>,
    measure: &Measure<'_>,
    nearest: &mut Nearest,
) {
    measure.with(Scan { vectors, rows, accept, nearest });
}

struct Scan<'a> {
    vectors: Vectors<'a>,
    rows: Range<u32>,
    accept: Option<&'a RowSet>,
    nearest: &'a mut Nearest,
}

impl MeasuredWork<()> for Scan<'_> {
    #[inline]
    fn run(self, distance: impl Fn(&[f32]) -> f32) {
        let Self { vectors, rows, accept, nearest } = self;
        if let Some(set) = accept {
            for row in set.within(rows) {
                nearest.offer(Neighbour { distance: distance(vectors.row(row)), row });
            }
        } else {
            let skipped = rows.start as usize * vectors.dims();
            for (row, vector) in rows.zip(vectors.values()[skipped..].chunks_exact(vectors.dims())) {
                nearest.offer(Neighbour { distance: distance(vector), row });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_queries_are_answered_as_each_alone_across_blocks() {
        let number = |at: usize| (at.wrapping_mul(2_654_435_761) % 1_000) as f32 / 500.0 - 1.0;
        let dims = 100;
        let numbers: Vec<f32> = (0..1_000 * dims).map(number).collect();
        let queries: Vec<f32> = (7..7 + 5 * dims).map(number).collect();
        let (vectors, queries) =
            (Vectors::new(&numbers, dims).unwrap(), Vectors::new(&queries, dims).unwrap());
        assert!(numbers.len() * size_of::<f32>() > 5 * BLOCK);
        let third = RowSet::new(1_000, |row| row % 3 == 1);
        for metric in Metric::ALL {
            for accept in [None, Some(&third)] {
                let alone = queries.iter().map(|query| nearest(vectors, metric, query, 20, accept).unwrap());
                let together = nearest_to_each(vectors, metric, queries, 20, accept).unwrap();
                assert_eq!(together, alone.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let vectors = Vectors::new(&[0.0; 6], 3).unwrap();
        let dims = Err(Error::Dims { expected: 3, found: 2 });
        assert_eq!(nearest(vectors, Metric::L2, &[0.0; 2], 1, None), dims);
        let set = RowSet::new(3, |_| true);
        let rows = Err(Error::Rows { expected: 2, found: 3 });
        assert_eq!(nearest(vectors, Metric::L2, &[0.0; 3], 1, Some(&set)), rows);
    }
}
