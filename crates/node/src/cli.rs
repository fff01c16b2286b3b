//! The node as a program, for the binary `pointsman-node` and for the command `pointsman`.

use std::process::ExitCode;

use anyhow::Context;
use pointsman_program::{Args, Exit, Failure};
use pointsman_settings::NodeSettings;
use tokio_util::sync::CancellationToken;

use crate::{Deps, RunError, run};

/// Runs the program to its end and says how it ended.
pub fn main(args: &Args) -> ExitCode {
    pointsman_program::main(args, load, serve)
}

fn load(toml: &str) -> anyhow::Result<NodeSettings> {
    let settings = NodeSettings::load(toml, pointsman_settings::environment())?;
    if !settings.objects.is_empty() {
        pointsman_objects::Root::parse(&settings.objects).context("`node.objects`")?;
    }
    Ok(settings)
}

async fn serve(settings: NodeSettings, shutdown: CancellationToken) -> Result<(), Failure> {
    let served = async { run(settings, Deps::open()?, shutdown).await };
    served.await.map_err(|error| {
        let exit = match error {
            RunError::Settings(_) => Exit::BadSettings,
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
    })
}
