//! What can go wrong.

use pointsman_ids::request::Metric;

/// Why there is no answer, or no index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The numbers are no whole vectors of so many dimensions, or there are none of dimension 0, or more than 2^32 - 1.
    #[error("{values} numbers are no vectors of {dims} dimensions")]
    Shape {
        /// Numbers given.
        values: usize,
        /// Dimensions of a vector.
        dims: usize,
    },
    /// A vector has another number of dimensions than those that it is compared with.
    #[error("a vector of {found} dimensions was compared with vectors of {expected}")]
    Dims {
        /// Dimensions of the vectors searched.
        expected: usize,
        /// Dimensions of the vector.
        found: usize,
    },
    /// A set of rows, or the vectors given to an index, count other rows.
    #[error("{found} rows were given for {expected}")]
    Rows {
        /// Rows that there are.
        expected: usize,
        /// Rows of what was given.
        found: usize,
    },
    /// The build was told to stop.
    #[error("the build of the index was cancelled")]
    Cancelled,
    /// The bytes are no index, or were changed since they were written. Build it again.
    #[error("the index is damaged: {0}")]
    Damaged(&'static str),
    /// The index was written by another version of the format. Build it again.
    #[error("the index has format {found}, this program reads {known}")]
    Version {
        /// Format of the index.
        found: u32,
        /// The only one that is read.
        known: u32,
    },
    /// The index belongs to other vectors. Build it again.
    #[error("the index belongs to other vectors")]
    OtherVectors,
    /// The index serves another metric.
    #[error("the index serves {found}, not {expected}")]
    OtherMetric {
        /// The metric that was asked for.
        expected: Metric,
        /// The metric of the index.
        found: Metric,
    },
}
