//! The command line of Pointsman: `pointsman dev` runs a whole cluster on this machine, the other commands talk to
//! one, here or elsewhere, through its public surfaces alone.
//!
//! The binary is [`main`] and nothing else. What decides something (how a text of statements is split, how a
//! column is written, which segments a sample has) is a function over values and is tested as such; what talks to
//! a cluster is tested end to end through the binary.
//!
//! ```
//! use pointsman_cli::sql::split;
//!
//! let statements = split("SELECT ';' AS semicolon; -- the end;\nSELECT 2")?;
//! assert_eq!(statements, ["SELECT ';' AS semicolon", "-- the end;\nSELECT 2"]);
//! # Ok::<(), pointsman_cli::Failure>(())
//! ```

mod args;
mod client;
mod column;
mod commands;
mod dev;
#[cfg(test)]
mod documented;
mod duration;
mod exit;
mod interrupt;
mod loading;
mod output;
mod push;
mod replicas;
mod routed;
mod rows;
pub mod sql;
mod verdict;

pub use dev::{Component, NodeComponent, ReadyFile};
pub use exit::{Exit, Failure};

use std::{ffi::OsString, process::ExitCode};

/// Runs the command line and says how it ended. A closed standard output ends it quietly.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match args::Args::read(args) {
        Ok(args) => args,
        Err(error) => {
            // Nothing can be said about a failure to say something.
            let _closed = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    let json = args.json;
    commands::run(args).unwrap_or_else(|error| exit::report(&error, json).into())
}
