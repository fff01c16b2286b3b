//! How much one request may ask for, so that what it needs is known before it runs.

use pointsman_ids::{Error, ErrorCode, Result};

/// Vectors of one search. More go into several requests, at no loss: work per vector is the same.
pub const MAX_VECTORS: usize = 1_024;
/// Rows per vector of a search.
pub const MAX_K: u32 = 16_384;
/// Rows of one answer: of all vectors of a search together, of a condition, and of keys. A place in the order and the
/// numbers of a row take some 50 bytes on each node, so some 13 MiB.
pub const MAX_ROWS: usize = 262_144;
/// Keys of one request; as many as an `IN` list of SQL may have.
pub const MAX_KEYS: usize = 10_000;
/// Rows that an index may be asked to look at closely, per segment and vector.
pub const MAX_CANDIDATES: u32 = 16_384;
/// Bytes of the rows of one answer. What carries them has to take a little more, for schema and padding.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Rows that an index looks at closely where nothing is said.
pub const DEFAULT_CANDIDATES: u32 = pointsman_vectors::Index::CANDIDATES as u32;

/// `parameter_too_large` when `have` is over `limit`.
pub(super) fn at_most(what: &str, have: usize, limit: usize) -> Result<()> {
    if have <= limit {
        return Ok(());
    }
    let why = format!("{have} {what} are asked for, at most {limit} may be; split the request");
    Err(Error::new(ErrorCode::ParameterTooLarge, why))
}

/// `parameter_too_large` for rows that take more than an answer may.
pub(super) fn answer_fits(bytes: usize) -> Result<()> {
    if bytes <= MAX_ANSWER_BYTES {
        return Ok(());
    }
    let limit = MAX_ANSWER_BYTES >> 20;
    let why = format!("the answer takes more than {limit} MiB; ask for fewer rows or fewer columns");
    Err(Error::new(ErrorCode::ParameterTooLarge, why))
}
