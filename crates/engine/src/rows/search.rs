//! The nearest vectors of one segment.

use std::sync::Arc;

use arrow::datatypes::Field;
use pointsman_ids::{
    Result,
    request::{Metric, VectorIndex},
};
use pointsman_vectors::{Index, Neighbour, RowSet, Vectors, nearest, nearest_to_each};

use super::{
    accept::accepted,
    answer::Source,
    filter::Filter,
    index,
    key::KeyColumn,
    memory::Kept,
    pause,
    segment::{Scan, Segment},
    smallest::Smallest,
    vectors::{Decoded, alone, lists},
};

/// Vectors that are compared in one pass over memory; more save little.
const TOGETHER: usize = 16;
/// Numbers that are compared before others get their turn: about a millisecond.
const NUMBERS: usize = 4 << 20;

/// A search, checked.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// The column, as the collection has it.
    pub(super) column: Field,
    pub(super) dims: usize,
    /// Vectors to compare with, one after the other.
    pub(super) queries: Arc<[f32]>,
    pub(super) metric: Metric,
    pub(super) k: usize,
    pub(super) filter: Option<Filter>,
    /// The index that may answer, with how many candidates.
    pub(super) index: Option<(VectorIndex, usize)>,
}

/// What a segment has for each vector of a search: nearest first, equal ones by row. One more than asked for, so that it
/// shows whether others are as near as the last.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    pub(super) found: Vec<Vec<Neighbour>>,
    /// Whether an index answered, which does not know all that are as near as the last.
    pub(super) indexed: bool,
    /// Rows that were read.
    pub(super) rows: u64,
}

/// Where vectors come from.
enum Held {
    Memory(Arc<Kept<Decoded>>),
    /// Read as they are compared: memory has no room for them.
    File,
}

impl Search {
    pub(super) fn queries(&self) -> Result<Vectors<'_>> {
        Vectors::new(&self.queries, self.dims).map_err(super::broken)
    }

    /// The nearest of a segment.
    pub(super) async fn nearest(&self, segment: &Segment, source: &Source) -> Result<Nearest> {
        let (accept, read) = accepted(segment, self.filter.as_ref()).await?;
        let mut answer = Nearest { found: vec![vec![]; self.queries()?.rows()], indexed: false, rows: read };
        if accept.as_ref().is_some_and(RowSet::is_empty) {
            return Ok(answer);
        }
        let held = self.held(segment, source).await?;
        if let (Held::Memory(vectors), Some((wanted, candidates))) = (&held, &self.index)
            && let Some(index) = index::kept(segment, wanted, vectors, source).await?
        {
            let accept = both(vectors.present(), accept.as_ref());
            answer.found = self.through(&index, vectors, *candidates, accept.as_deref()).await?;
            answer.indexed = true;
            answer.rows += answer.found.iter().map(|found| found.len() as u64).sum::<u64>();
            return Ok(answer);
        }
        answer.rows = u64::from(segment.rows());
        let queries: Vec<Vectors<'_>> = (self.queries.chunks(TOGETHER * self.dims))
            .map(|numbers| Vectors::new(numbers, self.dims).map_err(super::broken))
            .collect::<Result<_>>()?;
        let together = self.queries()?.rows().min(TOGETHER);
        let mut chunks = Chunks::new(segment, self, &held, accept.as_ref(), together);
        while let Some(chunk) = chunks.next()? {
            for (group, found) in queries.iter().zip(answer.found.chunks_mut(TOGETHER)) {
                let accept = chunk.accept.as_ref();
                let near = nearest_to_each(chunk.vectors, self.metric, *group, self.k + 1, accept);
                for (found, near) in found.iter_mut().zip(near.map_err(super::broken)?) {
                    merge(found, near, chunk.first, self.k + 1);
                }
                pause().await;
            }
        }
        Ok(answer)
    }

    /// Of all rows of a segment that are exactly so far from one of the vectors, those with the smallest keys.
    pub(super) async fn as_near(
        &self,
        segment: &Segment,
        source: &Source,
        query: usize,
        distance: f32,
        key: &KeyColumn,
        most: usize,
    ) -> Result<Vec<u32>> {
        let (accept, _) = accepted(segment, self.filter.as_ref()).await?;
        let held = self.held(segment, source).await?;
        let vector = self.queries()?.row(u32::try_from(query).map_err(super::broken)?);
        let mut smallest = Smallest::new(most);
        let mut chunks = Chunks::new(segment, self, &held, accept.as_ref(), 1);
        while let Some(chunk) = chunks.next()? {
            let all = chunk.vectors.rows();
            let near = nearest(chunk.vectors, self.metric, vector, all, chunk.accept.as_ref());
            // Equally near ones are in the order of rows.
            let rows: Vec<u32> = (near.map_err(super::broken)?.iter())
                .filter(|near| near.distance == distance)
                .map(|near| chunk.first + near.row)
                .collect();
            pause().await;
            key.offer(segment, &rows, &mut smallest).await?;
        }
        Ok(smallest.into_sorted().into_iter().map(|keyed| keyed.row).collect())
    }

    async fn held(&self, segment: &Segment, source: &Source) -> Result<Held> {
        let kept = Decoded::kept(segment, &self.column, self.dims, &source.memory).await?;
        Ok(kept.map_or(Held::File, Held::Memory))
    }

    async fn through(
        &self,
        index: &Index,
        decoded: &Decoded,
        candidates: usize,
        accept: Option<&RowSet>,
    ) -> Result<Vec<Vec<Neighbour>>> {
        let vectors = decoded.vectors()?;
        let mut found = vec![];
        for query in self.queries()?.iter() {
            let candidates = candidates.max(self.k + 1);
            let near = index.search(vectors, query, self.k + 1, candidates, accept);
            found.push(near.map_err(super::broken)?);
            pause().await;
        }
        Ok(found)
    }
}

/// The vectors of a segment, a piece at a time that is soon compared.
struct Chunks<'a> {
    from: From<'a>,
    dims: usize,
    accept: Option<&'a RowSet>,
    /// What the last piece was read into.
    read: Option<Decoded>,
}

enum From<'a> {
    Memory { decoded: &'a Decoded, first: u32, rows: usize },
    File(Scan<'a>),
}

/// Vectors that lie together.
struct Chunk<'a> {
    vectors: Vectors<'a>,
    /// Number of the first row.
    first: u32,
    /// Rows of the chunk that may answer; `None`: all.
    accept: Option<RowSet>,
}

impl<'a> Chunks<'a> {
    /// Pieces that so many vectors are compared with `together`.
    fn new(
        segment: &'a Segment,
        search: &Search,
        held: &'a Held,
        accept: Option<&'a RowSet>,
        together: usize,
    ) -> Self {
        let dims = search.dims;
        let from = match held {
            Held::Memory(decoded) => {
                From::Memory { decoded, first: 0, rows: (NUMBERS / (dims * together.max(1))).max(1) }
            }
            Held::File => {
                let groups: Vec<usize> = (0..segment.groups().len()).collect();
                From::File(segment.scan(&alone(&search.column), &groups))
            }
        };
        Self { from, dims, accept, read: None }
    }

    fn next(&mut self) -> Result<Option<Chunk<'_>>> {
        match &mut self.from {
            From::Memory { decoded, first, rows } => {
                let (start, vectors) = (*first, decoded.vectors()?);
                let left = vectors.values().get(start as usize * self.dims..).unwrap_or_default();
                let values = &left[..left.len().min(*rows * self.dims)];
                if values.is_empty() {
                    return Ok(None);
                }
                let chunk = Chunk::new(values, self.dims, start, decoded.present(), start, self.accept)?;
                *first += u32::try_from(chunk.vectors.rows()).map_err(super::broken)?;
                Ok(Some(chunk))
            }
            From::File(scan) => {
                let Some((first, batch)) = scan.next()? else { return Ok(None) };
                let decoded = self.read.insert(Decoded::of(lists(batch.column(0))?)?);
                let values = decoded.vectors()?.values();
                Chunk::new(values, self.dims, first, decoded.present(), 0, self.accept).map(Some)
            }
        }
    }
}

impl<'a> Chunk<'a> {
    /// `first` is the place of the first row in `accept`, `start` that in `present`.
    fn new(
        values: &'a [f32],
        dims: usize,
        first: u32,
        present: Option<&RowSet>,
        start: u32,
        accept: Option<&RowSet>,
    ) -> Result<Self> {
        let vectors = Vectors::new(values, dims).map_err(super::broken)?;
        let may = |set: Option<&RowSet>, start: u32, row: usize| {
            set.is_none_or(|set| u32::try_from(row).is_ok_and(|row| set.contains(start + row)))
        };
        let accept = (present.is_some() || accept.is_some())
            .then(|| RowSet::new(vectors.rows(), |row| may(present, start, row) && may(accept, first, row)));
        Ok(Self { vectors, first, accept })
    }
}

/// Rows that are in both sets.
fn both<'a>(a: Option<&'a RowSet>, b: Option<&'a RowSet>) -> Option<std::borrow::Cow<'a, RowSet>> {
    use std::borrow::Cow;
    match (a, b) {
        (Some(a), Some(b)) => {
            let in_both = |row: usize| u32::try_from(row).is_ok_and(|row| a.contains(row) && b.contains(row));
            Some(Cow::Owned(RowSet::new(a.rows(), in_both)))
        }
        (one, other) => one.or(other).map(Cow::Borrowed),
    }
}

/// Takes neighbours in whose rows count from `first`, and keeps the `most` nearest.
fn merge(into: &mut Vec<Neighbour>, mut more: Vec<Neighbour>, first: u32, most: usize) {
    more.iter_mut().for_each(|near| near.row += first);
    // Rows come in their order, so what is as far as the last does not displace it.
    if into.len() == most
        && let (Some(last), Some(nearest)) = (into.last(), more.first())
        && last <= nearest
    {
        return;
    }
    let (mut a, mut b) = (std::mem::take(into).into_iter().peekable(), more.into_iter().peekable());
    while into.len() < most {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x <= y => a.next(),
            (Some(_), None) => a.next(),
            _ => b.next(),
        };
        let Some(next) = next else { break };
        into.push(next);
    }
}
