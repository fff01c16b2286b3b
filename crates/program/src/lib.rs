//! The program around a component: flags, settings file, logs, signals, exit codes, threads. Coordinator, broker and node are
//! the same program in this respect, and so are the binaries of their own and the command `pointsman`.
//!
//! ```
//! use pointsman_program::{Args, Exit, Failure};
//!
//! let args = Args { config: None, check: true, log: "info".into() };
//! let load = |toml: &str| match toml {
//!     "" => Ok("all defaults"),
//!     _ => Err(anyhow::anyhow!("no key is known")),
//! };
//! // `--check` loads the settings and runs nothing.
//! let code = pointsman_program::main(&args, load, async |_settings, _shutdown| {
//!     Err(Failure::new(Exit::Failed, anyhow::anyhow!("never reached")))
//! });
//! assert_eq!(code, std::process::ExitCode::SUCCESS);
//! ```

mod signals;
mod threads;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use pointsman_telemetry::{LogFormat, init_logs};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

pub use threads::QueryThreads;

use signals::Signals;

/// How long tasks that hang in a system call may keep a process that has ended.
const LAST_TASKS: Duration = Duration::from_secs(1);

/// Tasks that a worker thread runs before it looks at the network again. Queries compute in long steps; with tokio's
/// own 61 a loaded process answers keep-alive pings too late and is taken for dead.
const EVENT_INTERVAL: u32 = 7;

/// Flags that every component has.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Settings file (TOML, one section named after the program). Without: defaults, overlaid by POINTSMAN_* variables.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Checks the settings and exits.
    #[arg(long)]
    pub check: bool,
    /// Log filter, such as `info` or `pointsman_broker=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log: String,
}

/// How a program ends that was not told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It ran and failed.
    Failed,
    /// The settings were refused.
    BadSettings,
    /// Something that it needs cannot be reached, or another coordinator is active.
    Unavailable,
}

impl Exit {
    /// The process's exit status.
    pub fn status(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::BadSettings => 64,
            Self::Unavailable => 69,
        }
    }
}

/// Why a program ends that was not told to stop.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    /// A failure that ends the program in this way.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into() }
    }

    /// Logs the error with its causes, once, here at the top.
    fn report(&self) -> ExitCode {
        tracing::error!("{}", pointsman_telemetry::chain(self.error.as_ref()));
        ExitCode::from(self.exit.status())
    }
}

/// Runs a component to its end: `load` makes settings of the file's text (empty without a file), `run` serves until
/// the token is cancelled. SIGTERM and SIGINT cancel it; a second one ends the process at once, with status 143 or
/// 130.
pub fn main<S>(
    args: &Args,
    load: impl FnOnce(&str) -> anyhow::Result<S>,
    run: impl AsyncFnOnce(S, CancellationToken) -> Result<(), Failure>,
) -> ExitCode {
    init_logs(&args.log, LogFormat::Text);
    match prepare(args, load) {
        Ok((settings, runtime)) if !args.check => {
            let code = runtime.block_on(until_stopped(settings, run));
            runtime.shutdown_timeout(LAST_TASKS);
            code
        }
        Ok(_) => {
            tracing::info!("the settings are fine");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(),
    }
}

fn prepare<S>(args: &Args, load: impl FnOnce(&str) -> anyhow::Result<S>) -> Result<(S, Runtime), Failure> {
    let refuse = |error| Failure::new(Exit::BadSettings, error);
    let toml = read(args).map_err(refuse)?;
    let loaded = match &args.config {
        Some(path) => load(&toml).with_context(|| path.display().to_string()),
        None => load(&toml),
    };
    let settings = loaded.map_err(refuse)?;
    let runtime = Builder::new_multi_thread().enable_all().event_interval(EVENT_INTERVAL).build();
    let runtime =
        runtime.context("starting the runtime").map_err(|error| Failure::new(Exit::Failed, error))?;
    Ok((settings, runtime))
}

fn read(args: &Args) -> anyhow::Result<String> {
    let Some(path) = &args.config else { return Ok(String::new()) };
    std::fs::read_to_string(path).with_context(|| format!("reading the settings file {}", path.display()))
}

async fn until_stopped<S>(
    settings: S,
    run: impl AsyncFnOnce(S, CancellationToken) -> Result<(), Failure>,
) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            let error = anyhow::Error::new(error).context("listening for signals");
            return Failure::new(Exit::Failed, error).report();
        }
    };
    let shutdown = CancellationToken::new();
    let mut running = std::pin::pin!(run(settings, shutdown.clone()));
    let ended = tokio::select! {
        ended = &mut running => ended,
        _ = signals.next() => {
            tracing::info!("told to stop; a second signal stops at once");
            shutdown.cancel();
            tokio::select! {
                ended = &mut running => ended,
                status = signals.next() => return ExitCode::from(status),
            }
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
