//! The nearest of many vectors, by a [`Metric`](pointsman_ids::request::Metric).
//!
//! Vectors are numbers that lie one after the other in memory ([`Vectors`]); a row is a vector's number among them. A
//! [`RowSet`] says which rows may answer, if not all. What comes back are [`Neighbour`]s, nearest first, equal ones by row.
//!
//! - [`nearest`] and [`nearest_to_each`] look at every vector.
//! - An [`Index`] looks at few of them, and finds most of the nearest. [`Index::to_bytes`] and [`Index::from_bytes`] keep it.
//!
//! Distances are computed in one order with the same rounding everywhere, so every node that holds a row says the same of it,
//! bit by bit, with or without an index: ties are ties wherever answers are merged.
//!
//! The crate knows no files, columns or keys.
//!
//! # The index
//!
//! It is the graph of Yu. A. Malkov and D. A. Yashunin, *Efficient and robust approximate nearest neighbor search using
//! Hierarchical Navigable Small World graphs*, arXiv:1603.09320: each row links to some of its nearest, chosen so that they lie in
//! different directions, and thinner layers above lead near the place where a walk in the lowest begins. Rows enter it in
//! batches, as in M. D. Manohar and others, *ParlayANN*, arXiv:2305.04359, so that threads build it and it comes out the same.
//!
//! It is our own because each of the libraries that there are lacks something that a segment's index has to have: vectors that
//! stay where they are, a seed that decides the whole graph, a file that is checked before it is believed, and a bound on the
//! work of a filtered search.
//!
//! | library | what it lacks here |
//! |---|---|
//! | usearch 2.26.6 | C++ with `-ffast-math`, so distances differ between machines; copies the vectors; no bound |
//! | hnsw-stable 0.10.1, hnswlib-rs 0.10.0 | nearest to it: graph without vectors, seed, filter; but keys, a map and a lock for each row, memory taken by numbers in a file that has no checksum, candidates set for all searches, no bound; parallel builds differ |
//! | hnsw_rs 0.3.5 | a vector and a lock per point, which it owns; the seed is fixed, parallel builds differ |
//! | instant-distance 0.6.1, fast-hnsw 1.0.1 | no filter; own the vectors |
//! | vicinity 0.12.0 | owns the vectors, and writes them with the graph into a folder of files |
//! | astraea-vector 0.4.1 | no filter; a hash map per layer; owns the vectors |
//! | diskann 0.61.0 | a kit of asynchronous traits over tokio; `diskann-inmem` cannot be saved, `diskann-providers` writes several files with the vectors in them |
//! | hannoy 0.3.0, arroy 0.9.0 | live in an LMDB environment |

mod distance;
mod error;
mod exact;
mod index;
mod neighbours;
mod row_set;
mod vectors;

pub use error::Error;
pub use exact::{nearest, nearest_to_each};
pub use index::{BuildOptions, Index};
pub use neighbours::Neighbour;
pub use row_set::RowSet;
pub use vectors::Vectors;
