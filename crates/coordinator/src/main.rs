//! The coordinator's program.

use std::process::ExitCode;

use clap::Parser;

/// Decides what is loaded where, and tells brokers and nodes.
#[derive(Debug, Parser)]
#[command(name = "pointsman-coordinator", version)]
struct Command {
    #[command(flatten)]
    args: pointsman_program::Args,
}

fn main() -> ExitCode {
    pointsman_coordinator::cli::main(&Command::parse().args)
}
