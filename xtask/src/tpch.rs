//! The texts of TPC-H, read from the engine's crate, which this program does without: it has to start quickly.

use std::fs;

use anyhow::Context;

use crate::cargo;

/// The text of query `number`, 1 to 22.
///
/// # Errors
/// There is none.
pub(crate) fn query(number: usize) -> anyhow::Result<String> {
    let path = cargo::root().join(format!("crates/engine/tpch/q{number}.sql"));
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}
