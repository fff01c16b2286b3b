//! A component as a child process.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{process::Command, sync::watch, time::timeout};

use crate::{Exit, Failure, commands::serve::EXIT_WITH_PARENT};

/// Lines of a log that an error quotes.
const QUOTED_LINES: usize = 12;
/// The end of a log that is read for them.
const QUOTED_BYTES: u64 = 16 << 10;

/// A running child. It ends with this process, however this process ends: it reads a pipe whose other end is held
/// here, and stops when the system closes it.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// Name of the component.
    pub(super) name: String,
    /// Number of the process.
    pub(super) pid: u32,
    log: PathBuf,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Process {
    /// Starts `pointsman PROGRAM --config CONFIG` with its output appended to `log`.
    pub(super) fn start(name: &str, program: &str, config: &Path, log: &Path) -> anyhow::Result<Self> {
        let start = || {
            let output = File::options().create(true).append(true).open(log);
            let output = output.with_context(|| log.display().to_string())?;
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(program).arg("--config").arg(config).arg(EXIT_WITH_PARENT);
            // A group of its own: Ctrl-C at the terminal is for this process, which then stops its children in order.
            command.process_group(0).stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output);
            anyhow::Ok(command.spawn()?)
        };
        let mut child = start().with_context(|| format!("starting {name}"))?;
        let pid = child.id().context("the process has ended already")?;
        let stdin = child.stdin.take();
        let (end, ended) = watch::channel(None);
        pointsman_telemetry::spawn("child", async move {
            // Held as long as the child runs.
            let _stdin = stdin;
            if let Ok(status) = child.wait().await {
                end.send_replace(Some(status));
            }
        });
        Ok(Self { name: name.to_owned(), pid, log: log.to_owned(), ended })
    }

    /// How it ended; `None` while it runs.
    pub(super) fn end(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) -> Option<ExitStatus> {
        let mut ended = self.ended.clone();
        // The sender goes away without a word only when waiting for the child failed: then it is gone as well.
        ended.wait_for(Option::is_some).await.map_or(None, |status| *status)
    }

    /// Asks it to stop and waits, at most `grace`; whether it has ended.
    pub(super) async fn stop(&self, grace: Duration) -> bool {
        self.signal(Signal::SIGTERM);
        timeout(grace, self.ended()).await.is_ok()
    }

    /// Ends it at once.
    pub(super) async fn kill(&self) {
        self.signal(Signal::SIGKILL);
        self.ended().await;
    }

    fn signal(&self, signal: Signal) {
        // A process that has ended must not be signalled: its number may be another's by now.
        if self.end().is_none()
            && let Ok(pid) = i32::try_from(self.pid)
        {
            let _gone = kill(Pid::from_raw(pid), signal);
        }
    }

    /// The error of a process that has ended or is not ready: with its own status where that says something, and with
    /// what it said last.
    pub(super) fn failure(&self) -> Failure {
        let lines = tail(&self.log).unwrap_or_default();
        let (name, log) = (&self.name, self.log.display());
        let Some(status) = self.end() else {
            return Failure::NotReady(format!("{name} still runs; the end of {log}:\n{}", quote(&lines)));
        };
        let text = match lines.iter().rev().find_map(|line| error_in(line)) {
            Some(error) => format!("{name} ended ({status}): {error}; log: {log}"),
            None if lines.is_empty() => format!("{name} ended ({status}); it said nothing in {log}"),
            None => format!("{name} ended ({status}); the end of {log}:\n{}", quote(&lines)),
        };
        match status.code() {
            Some(code) if code == Exit::Unreachable as i32 => Failure::Unreachable(text),
            Some(code) if code == Exit::NotReady as i32 => Failure::NotReady(text),
            _ => Failure::Failed(text),
        }
    }

    /// What it said last, without the time.
    pub(super) fn last_line(&self) -> Option<String> {
        let lines = tail(&self.log).ok()?;
        let line = lines.last()?;
        Some(line.split_once("Z ").map_or(line.as_str(), |(_, rest)| rest.trim_start()).to_owned())
    }
}

/// The message of a log line of level `ERROR`.
fn error_in(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" ERROR ")?;
    Some(rest.split_once(": ").map_or(rest, |(_target, message)| message))
}

fn quote(lines: &[String]) -> String {
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
}

/// The last lines of a file.
fn tail(path: &Path) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = fs::metadata(path)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(QUOTED_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let lines: Vec<String> = (0..5_000).map(|line| format!("line {line}")).collect();
        fs::write(&path, lines.join("\n")).unwrap();
        let quoted = quote(&tail(&path).unwrap());
        assert_eq!(quoted.lines().count(), QUOTED_LINES);
        assert!(quoted.ends_with("line 4999"));
    }

    #[test]
    fn an_error_is_told_without_time_and_place() {
        let line = "2026-11-30T14:00:18.675138Z ERROR pointsman_program: the metastore: no such database";
        assert_eq!(error_in(line), Some("the metastore: no such database"));
        assert_eq!(error_in("2026-11-30T14:00:18.675138Z  WARN pointsman_program: ERROR"), None);
    }
}
