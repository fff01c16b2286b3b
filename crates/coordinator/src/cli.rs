//! The coordinator as a program, for the binary `pointsman-coordinator` and for the command `pointsman`.

use std::process::ExitCode;

use anyhow::Context;
use pointsman_program::{Args, Exit, Failure};
use pointsman_settings::CoordinatorSettings;
use tokio_util::sync::CancellationToken;

use crate::{Deps, RunError, run};

/// Runs the program to its end and says how it ended.
pub fn main(args: &Args) -> ExitCode {
    pointsman_program::main(args, load, serve)
}

fn load(toml: &str) -> anyhow::Result<CoordinatorSettings> {
    let settings = CoordinatorSettings::load(toml, pointsman_settings::environment())?;
    pointsman_objects::Root::parse(&settings.objects).context("`coordinator.objects`")?;
    Ok(settings)
}

async fn serve(settings: CoordinatorSettings, shutdown: CancellationToken) -> Result<(), Failure> {
    let served = async {
        let deps = Deps::open(&settings).await?;
        run(settings, deps, shutdown).await
    };
    served.await.map_err(|error| Failure::new(exit(&error), error))
}

fn exit(error: &RunError) -> Exit {
    match error {
        RunError::OtherActive { .. } | RunError::LeaseLost { .. } | RunError::Unreachable { .. } => {
            Exit::Unavailable
        }
        RunError::Objects(_) | RunError::Settings(_) => Exit::BadSettings,
        RunError::Metastore(_) | RunError::Listen { .. } | RunError::Serve(_) | RunError::Metrics(_) => {
            Exit::Failed
        }
    }
}
