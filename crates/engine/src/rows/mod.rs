//! Questions to the rows of a collection: the nearest vectors, rows by key, rows by condition.
//!
//! [`Checked::new`] finds all that is wrong with a question before anybody works on it. A node answers from the segments
//! that it holds ([`Checked::answer`]) with a [`Part`]; parts are merged in any order ([`Checked::merge`]), and what is
//! left of all of them is the answer ([`Checked::finish`]). [`Memory`] bounds what is kept between requests.
//!
//! - **Order.** Rows of a search come by vector, then by distance, then by key; rows by key in the order of the keys that
//!   were asked for; rows by condition by key. What is equal then, or has no key, comes by number of the segment and
//!   place in it.
//! - **Vectors** are `FixedSizeList(n x Float32)`. A row whose vector is null or lacks a component is near to nothing, and
//!   neither is one whose distance is no number.
//! - **An index** answers a search of its metric, unless the search is to be exact, the node has not built it, or memory
//!   has no room for it and the vectors. Then every vector is looked at, where memory is short straight from the file.
//! - **Columns** of answers are text as `Utf8`, bytes as `Binary`, and values in place of dictionaries.

mod accept;
mod answer;
mod checked;
mod filter;
mod get;
mod index;
mod ipc;
mod key;
mod layout;
mod limits;
mod memory;
mod part;
mod prune;
mod query;
mod search;
mod segment;
mod smallest;
mod table;
mod ties;
mod vectors;

use std::path::PathBuf;

use pointsman_ids::{Error, ErrorCode, SegmentId, request::VectorIndex};

pub use self::{
    checked::Checked,
    index::{build_index, check_index, index_file_name},
    ipc::{decode, encode},
    layout::{DISTANCE_COLUMN, QUERY_COLUMN},
    limits::{DEFAULT_CANDIDATES, MAX_ANSWER_BYTES, MAX_CANDIDATES, MAX_K, MAX_KEYS, MAX_ROWS, MAX_VECTORS},
    memory::Memory,
    part::Part,
};
use crate::store::SegmentStore;

/// What a node holds, with the indexes that it has built.
pub trait RowStore: SegmentStore {
    /// The file of an index over a segment; `None` when it is not there, so that searches of the segment are exact. Called
    /// on the way of requests: never waits. The hold of the segment's file keeps this one as well.
    fn index(&self, segment: SegmentId, index: &VectorIndex) -> Option<PathBuf>;

    /// The file of an index cannot be read or belongs to other vectors: the store should take it away, and may build it
    /// anew. Called on the way of requests, possibly often: never blocks. Does nothing unless implemented.
    fn suspect_index(&self, _segment: SegmentId, _index: &VectorIndex) {}
}

/// Gives others their turn, and ends here when nobody waits for the answer any more.
async fn pause() {
    tokio::task::yield_now().await;
}

/// `service_internal`.
fn broken(why: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::ServiceInternal, why.to_string())
}
