//! The broker's program.

use std::process::ExitCode;

use clap::Parser;

/// Answers SQL over HTTP, and chooses the node that answers for every segment.
#[derive(Debug, Parser)]
#[command(name = "pointsman-broker", version)]
struct Command {
    #[command(flatten)]
    args: pointsman_program::Args,
}

fn main() -> ExitCode {
    pointsman_broker::cli::main(&Command::parse().args)
}
