//! YAML documents as trees with lines, and reading typed values out of them so that every error names its line and key.

mod error;
mod read;
mod tree;

pub use error::ScenarioError;
pub(crate) use read::{At, Fields};
pub(crate) use tree::{Node, Value, parse};
