//! The `pointsman` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    pointsman_cli::main(std::env::args_os())
}
