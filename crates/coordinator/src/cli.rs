//! The program around [`run`]: flags, settings, logs, signals, exit codes. Shared by the binary
//! `pointsman-coordinator` and by the command `pointsman`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use pointsman_settings::CoordinatorSettings;
use pointsman_telemetry::{LogFormat, init_logs};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{Deps, RunError, run};

/// Exit code: it ran and failed.
const FAILED: u8 = 1;
/// Exit code: the settings were refused.
const BAD_SETTINGS: u8 = 64;
/// Exit code: a service cannot be reached, or another coordinator is active.
const UNAVAILABLE: u8 = 69;

/// Flags of the coordinator's program.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Settings file (TOML, section `[coordinator]`). Without: defaults, overlaid by POINTSMAN_COORDINATOR__* variables.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Checks the settings and exits.
    #[arg(long)]
    pub check: bool,
    /// Log filter, such as `info` or `pointsman_coordinator=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log: String,
}

/// Runs the program to its end and says how it ended: 0 stopped as asked, 1 failed, 64 settings refused, 69 a service
/// cannot be reached or another coordinator is active, 130 or 143 stopped at once by a second signal.
pub fn main(args: Args) -> ExitCode {
    init_logs(&args.log, LogFormat::Text);
    let settings = match settings(&args) {
        Ok(settings) => settings,
        Err(error) => return fail(BAD_SETTINGS, &error),
    };
    if args.check {
        tracing::info!("the settings are fine");
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAILED, &anyhow::Error::new(error).context("starting the runtime")),
    };
    let code = runtime.block_on(until_stopped(settings));
    // Tasks that hang in a system call must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    code
}

fn settings(args: &Args) -> anyhow::Result<CoordinatorSettings> {
    let toml = match &args.config {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("reading the settings file {}", path.display()))?,
        None => String::new(),
    };
    Ok(CoordinatorSettings::load(&toml, pointsman_settings::environment())?)
}

async fn until_stopped(settings: CoordinatorSettings) -> ExitCode {
    let shutdown = CancellationToken::new();
    let (mut terminate, mut interrupt) =
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
            (Err(error), _) | (_, Err(error)) => {
                return fail(FAILED, &anyhow::Error::new(error).context("listening for signals"));
            }
        };
    let serving = serve(settings, shutdown.clone());
    tokio::pin!(serving);
    tokio::select! {
        code = &mut serving => return code,
        _ = first_of(&mut terminate, &mut interrupt) => {
            tracing::info!("told to stop; a second signal stops at once");
            shutdown.cancel();
        }
    }
    tokio::select! {
        code = serving => code,
        code = first_of(&mut terminate, &mut interrupt) => ExitCode::from(code),
    }
}

/// Waits for either signal and gives the exit code of a process that it ended.
async fn first_of(terminate: &mut Signal, interrupt: &mut Signal) -> u8 {
    tokio::select! {
        _ = terminate.recv() => 143,
        _ = interrupt.recv() => 130,
    }
}

async fn serve(settings: CoordinatorSettings, shutdown: CancellationToken) -> ExitCode {
    let served = async {
        let deps = Deps::open(&settings).await?;
        run(settings, deps, shutdown).await
    };
    match served.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = exit_code(&error);
            fail(code, &anyhow::Error::new(error))
        }
    }
}

fn exit_code(error: &RunError) -> u8 {
    match error {
        RunError::OtherActive { .. } | RunError::LeaseLost { .. } | RunError::Unreachable { .. } => {
            UNAVAILABLE
        }
        RunError::Objects(_) | RunError::Settings(_) => BAD_SETTINGS,
        RunError::Metastore(_) | RunError::Listen { .. } | RunError::Serve(_) | RunError::Metrics(_) => {
            FAILED
        }
    }
}

fn fail(code: u8, error: &anyhow::Error) -> ExitCode {
    tracing::error!("{}", pointsman_telemetry::chain(error.as_ref()));
    ExitCode::from(code)
}
