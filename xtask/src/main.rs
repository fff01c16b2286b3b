//! The project's own tools. `cargo xtask help` lists them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to a terminal")]

mod bench;
mod cargo;
mod ci;
mod demo;
mod layers;
mod stop;
mod test;
mod tidy;
mod tpch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own tools.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the main job on this machine: a cluster, TPC-H, queries, a killed node.
    Demo(demo::Args),
    /// Runs every test of the workspace, with a private PostgreSQL.
    Test(test::Args),
    /// Runs what a change must pass: format, layers, lints, licences, documents, tests, the demo.
    Ci,
    /// Measures against a baseline in the same run.
    Bench(bench::Args),
    /// Checks that crates use only lower floors, and the rules of CONTRIBUTING.md that a program can check.
    Layers,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = stop::listen().and_then(|()| match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Ci => ci::run(),
        Command::Bench(args) => bench::run(&args),
        Command::Layers => layers::run(),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(stop::exit_code().unwrap_or(1))
        }
    }
}
