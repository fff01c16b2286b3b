//! The broker as a program, for the binary `pointsman-broker` and for the command `pointsman`.

use std::process::ExitCode;

use pointsman_program::{Args, Exit, Failure};
use pointsman_settings::BrokerSettings;
use tokio_util::sync::CancellationToken;

use crate::{Deps, RunError, run};

/// Runs the program to its end and says how it ended.
pub fn main(args: &Args) -> ExitCode {
    let load = |toml: &str| Ok(BrokerSettings::load(toml, pointsman_settings::environment())?);
    pointsman_program::main(args, load, serve)
}

async fn serve(settings: BrokerSettings, shutdown: CancellationToken) -> Result<(), Failure> {
    let served = async { run(settings, Deps::open()?, shutdown).await };
    served.await.map_err(|error| {
        let exit = match error {
            RunError::Settings(_) => Exit::BadSettings,
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
    })
}
