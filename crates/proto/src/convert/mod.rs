//! Conversions between messages and values, one file per subject.

mod catalog;
mod columns;
mod copies;
mod delta;
mod digest;
mod feed;
mod options;
mod request;

pub use catalog::{column_from_proto, column_to_proto, segment_from_proto, segment_to_proto};
pub use digest::collection_digest;
pub use feed::snapshot_in_columns;

use pointsman_ids::{Error, ErrorCode};

/// A message that a peer sent and that makes no sense.
fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::ParameterInvalid, what)
}
