//! An index over the vectors of a segment: a graph of small worlds in layers.

mod build;
mod choose;
mod file;
mod graph;
mod twins;
mod walk;

use pointsman_ids::request::Metric;

use self::{
    graph::{BASE_LINKS, Graph, Layer},
    twins::Twins,
    walk::{Walker, Wanted},
};
use crate::{Error, Neighbour, RowSet, Vectors, distance::Measure, exact, nearest};

/// How an index is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// Rows among which a new one chooses those that it links to; at least 1. More make a better index, and take as much longer.
    pub candidates: usize,
    /// Threads that build; at least 1. The index is the same with any number.
    pub threads: usize,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self { candidates: 128, threads: 1 }
    }
}

/// Finds most of the nearest vectors by looking at few of them. It knows which rows are near each other, about 130 bytes for
/// each, and no vectors: these are given to it with every search.
///
/// ```
/// use pointsman_ids::request::Metric;
/// use pointsman_vectors::{BuildOptions, Error, Index, Vectors};
///
/// let numbers: Vec<f32> = (0..2_000).map(|at| (at as f32).sin()).collect();
/// let vectors = Vectors::new(&numbers, 2)?;
/// let index = Index::build(vectors, Metric::L2, &BuildOptions::default(), 7, &|| false)?;
/// let bytes = index.to_bytes();
///
/// let index = Index::from_bytes(&bytes)?;
/// index.check(vectors, Metric::L2)?; // Once, when it is loaded: it reads all vectors.
/// let found = index.search(vectors, vectors.row(5), 3, Index::CANDIDATES, None)?;
/// assert_eq!((found.len(), found[0].row, found[0].distance), (3, 5, 0.0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    metric: Metric,
    dims: usize,
    rows: usize,
    /// Of the vectors.
    checksum: [u8; 32],
    graph: Graph,
    twins: Twins,
}

impl Index {
    /// Candidates of a search that finds more than 95 of 100 nearest even where many are nearly as near.
    pub const CANDIDATES: usize = 192;

    /// Builds the index of vectors. The same vectors, options and seed give the same index on every machine.
    ///
    /// # Errors
    /// [`Error::Cancelled`], within some milliseconds after `cancelled` began to say so.
    pub fn build(
        vectors: Vectors<'_>,
        metric: Metric,
        options: &BuildOptions,
        seed: u64,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self, Error> {
        let (graph, twins) = build::build(vectors, metric, options, seed, cancelled)?;
        let checksum = vectors.checksum();
        Ok(Self { metric, dims: vectors.dims(), rows: vectors.rows(), checksum, graph, twins })
    }

    /// Whether the index was built from these vectors for this metric. Reads all of them.
    ///
    /// # Errors
    /// [`Error::Rows`], [`Error::Dims`], [`Error::OtherMetric`], [`Error::OtherVectors`]: it was not; build it again.
    pub fn check(&self, vectors: Vectors<'_>, metric: Metric) -> Result<(), Error> {
        self.check_shape(vectors)?;
        if metric != self.metric {
            return Err(Error::OtherMetric { expected: metric, found: self.metric });
        }
        if vectors.checksum() == self.checksum { Ok(()) } else { Err(Error::OtherVectors) }
    }

    /// As [`nearest`] by the index's metric, with the same distances, but some of the nearest rows may be missing and others
    /// stand in their place. The answer is never shorter than that of [`nearest`].
    ///
    /// `vectors` are those that the index was built from; `candidates` of them are looked at closely, more find more and take
    /// longer; at least `k` are. Where looking at every accepted row is less work, that is done, and a walk that came to as
    /// much is given up for it: no search costs more than twice what [`nearest`] does.
    ///
    /// # Errors
    /// [`Error::Rows`], [`Error::Dims`]: vectors, query or set do not fit to the index.
    pub fn search(
        &self,
        vectors: Vectors<'_>,
        query: &[f32],
        k: usize,
        candidates: usize,
        accept: Option<&RowSet>,
    ) -> Result<Vec<Neighbour>, Error> {
        self.check_shape(vectors)?;
        exact::check(vectors, query.len(), accept)?;
        match self.walk(vectors, query, k, candidates, accept) {
            Some(found) => Ok(found),
            None => nearest(vectors, self.metric, query, k, accept),
        }
    }

    /// The metric that it serves.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Rows of its vectors.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Dimensions of its vectors.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Bytes that it takes in memory.
    pub fn memory(&self) -> usize {
        let (base, above) = self.graph.layers();
        size_of::<Self>()
            + self.twins.memory()
            + base.memory()
            + above.iter().map(Layer::memory).sum::<usize>()
    }

    fn check_shape(&self, vectors: Vectors<'_>) -> Result<(), Error> {
        if vectors.rows() != self.rows {
            return Err(Error::Rows { expected: self.rows, found: vectors.rows() });
        }
        if vectors.dims() != self.dims {
            return Err(Error::Dims { expected: self.dims, found: vectors.dims() });
        }
        Ok(())
    }

    /// `None`: exact search is the better way, or the only one to a whole answer.
    fn walk(
        &self,
        vectors: Vectors<'_>,
        query: &[f32],
        k: usize,
        candidates: usize,
        accept: Option<&RowSet>,
    ) -> Option<Vec<Neighbour>> {
        let count = exact::count(vectors, accept);
        let most = candidates.max(k).max(1);
        // A walk looks at up to `most * BASE_LINKS` rows, and at as many more as fewer of them are accepted.
        let looks = most.saturating_mul(BASE_LINKS).saturating_mul(self.rows);
        if count.saturating_mul(count) <= looks {
            return None;
        }
        let measure = Measure::new(self.metric, query);
        let mut walker = Walker::new(vectors);
        let mut entry = self.graph.entry?;
        let (base, above) = self.graph.layers();
        for layer in above.iter().rev() {
            let found = walker.walk(layer, &measure, &[entry], 1, Wanted::default(), count)?.into_sorted();
            entry = found.first().map_or(entry, |found| found.row);
        }
        let wanted = Wanted { accept, twins: Some(&self.twins) };
        let mut found = walker.walk(base, &measure, &[entry], most, wanted, count)?.into_sorted();
        found.truncate(k);
        (found.len() == k.min(count)).then_some(found)
    }
}

/// SplitMix64: a number of which every bit depends on every bit of `state`.
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
