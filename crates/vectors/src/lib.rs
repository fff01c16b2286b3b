//! The nearest of many vectors, by a [`Metric`](pointsman_ids::request::Metric).
//!
//! Vectors are numbers that lie one after the other in memory ([`Vectors`]); a row is a vector's number among them. A
//! [`RowSet`] says which rows may answer, if not all. What comes back are [`Neighbour`]s, nearest first, equal ones by row.
//!
//! - [`nearest`] and [`nearest_to_each`] look at every vector.
//! - An index, which is to follow, looks at few of them:
//!
//! ```text
//! Index::build(vectors, metric, &BuildOptions::default(), seed: u64, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<Index, Error>
//! index.search(vectors, query: &[f32], k: usize, candidates: usize, accept: Option<&RowSet>) -> Result<Vec<Neighbour>, Error>
//! index.to_bytes() -> Vec<u8>
//! Index::from_bytes(&[u8]) -> Result<Index, Error>            // whole, sound, of a known format
//! index.check(vectors, metric) -> Result<(), Error>           // hashes the vectors: does it belong to them?
//! index.metric(), index.rows(), index.dims(), index.memory() // bytes
//! Index::CANDIDATES                                           // the default of `candidates`
//! ```
//!
//! Distances are computed in one order with the same rounding everywhere, so every node that holds a row says the same of it,
//! bit by bit: ties are ties wherever answers are merged.
//!
//! The crate knows no files, columns, keys or threads.

mod distance;
mod error;
mod exact;
mod neighbours;
mod row_set;
mod vectors;

pub use error::Error;
pub use exact::{nearest, nearest_to_each};
pub use neighbours::Neighbour;
pub use row_set::RowSet;
pub use vectors::Vectors;
