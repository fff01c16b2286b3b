//! A process under test, and the faults that can be done to one.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use nix::{sys::signal::Signal, unistd::Pid};

use crate::{Guard, eventually};

/// How long a process may take to stop when it is asked to; then it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// A process in a group of its own. Stopped when it is dropped, and by a [`Guard`] should the owner be killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    _guard: Guard,
}

impl Process {
    /// Starts `command` with its output in `log`, which is appended to; without a log the output goes where ours goes.
    /// Should the owner be killed, `folder` goes with the process.
    ///
    /// # Errors
    /// The program does not start, or the log cannot be written.
    pub fn start(
        name: &str,
        command: &mut Command,
        log: Option<&Path>,
        folder: Option<&Path>,
    ) -> anyhow::Result<Self> {
        if let Some(log) = log {
            let log = File::options().create(true).append(true).open(log);
            let log = log.with_context(|| format!("cannot write the log of {name}"))?;
            command.stdout(log.try_clone()?).stderr(log);
        }
        command.stdin(Stdio::null()).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let guard = Guard::over(child.id(), "TERM", folder)?;
        Ok(Self { child, name: name.to_owned(), _guard: guard })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The system does not say.
    pub fn exit(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end, for at most `limit`.
    ///
    /// # Errors
    /// It still runs.
    pub fn wait(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let what = format!("the end of {}", self.name);
        eventually(&what, limit, || self.child.try_wait()?.context("it still runs"))
    }

    /// Asks it to stop, waits, and kills it when it does not.
    ///
    /// # Errors
    /// It had to be killed.
    pub fn stop(&mut self) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        signal(self.pid(), Signal::SIGTERM)?;
        self.wait(STOP_LIMIT).inspect_err(|_| {
            let _ = self.kill();
        })
    }

    /// Kills it (SIGKILL) and waits for its end.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Sends a signal to a process.
///
/// # Errors
/// There is no such process, or it belongs to somebody else.
pub fn signal(pid: u32, signal: Signal) -> anyhow::Result<()> {
    let target = Pid::from_raw(i32::try_from(pid).context("not a process number")?);
    nix::sys::signal::kill(target, signal).with_context(|| format!("cannot send {signal} to process {pid}"))
}

/// Whether a process exists and has not ended: one that its parent has not waited for yet does not count, one of whose
/// threads still runs does, since that holds files and ports.
pub fn is_alive(pid: u32) -> bool {
    let mut threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.any(|thread| {
        // The state follows the name, which stands in parentheses and may hold anything.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    })
}

/// Memory of a process that is resident, in bytes.
///
/// # Errors
/// There is no such process.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let Some(kib) = line.and_then(|line| line.split_whitespace().next()) else {
        bail!("process {pid} has no memory any more");
    };
    Ok(kib.parse::<u64>()? * 1024)
}
