//! The node's program.

use std::process::ExitCode;

use clap::Parser;

/// Holds segments and executes queries on them.
#[derive(Debug, Parser)]
#[command(name = "pointsman-node", version)]
struct Command {
    #[command(flatten)]
    args: pointsman_program::Args,
}

fn main() -> ExitCode {
    pointsman_node::cli::main(&Command::parse().args)
}
