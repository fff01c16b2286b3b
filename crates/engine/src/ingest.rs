//! From files to segments: what a Parquet file holds, exactly, and how CSV becomes one.
//!
//! ```
//! use pointsman_engine::ingest;
//!
//! let folder = tempfile::tempdir().unwrap();
//! let (csv, parquet) = (folder.path().join("people.csv"), folder.path().join("people.parquet"));
//! std::fs::write(&csv, "name,age\nAda,36\nAlan,41\n").unwrap();
//! let people = ingest::csv_to_parquet(&csv, &parquet, None)?;
//! assert_eq!((people.rows, people.columns[1].data_type.as_str()), (2, "Int64"));
//! assert_eq!(ingest::inspect_parquet(&parquet)?, people);
//! # Ok::<(), pointsman_ids::Error>(())
//! ```

mod columns;
mod csv;
mod inspect;
mod misfit;
mod quotes;
mod vectors;

pub use columns::check_columns;
pub use csv::{csv_to_parquet, write_parquet};
pub use inspect::{Inspection, inspect_bytes, inspect_parquet};
pub use vectors::{vectors_from_lists, with_vector_types};

use pointsman_ids::{Error, ErrorCode};

/// `parameter_invalid`: the file is not what was expected.
fn invalid(what: impl std::fmt::Display, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::ParameterInvalid, format!("{what}: {why}"))
}
