//! Requests by shard as the command line makes them: vectors that people write, options that all of these requests share,
//! and answers as they are printed.

mod answer;
mod npy;
mod options;
mod vectors;

pub(crate) use answer::Answer;
pub(crate) use options::RowsArgs;
pub(crate) use vectors::{parse, read};
