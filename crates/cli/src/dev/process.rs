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

use crate::commands::serve::EXIT_WITH_PARENT;

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
            let output = File::options().create(true).append(true).open(log)?;
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

    /// How it ended and what it said last, for an error.
    pub(super) fn last_words(&self) -> String {
        let how = match self.end() {
            Some(status) => format!("{} ended ({status})", self.name),
            None => format!("{} still runs", self.name),
        };
        let log = self.log.display();
        match tail(&self.log) {
            Ok(lines) if !lines.is_empty() => format!("{how}; the end of {log}:\n{lines}"),
            _ => format!("{how}; it said nothing in {log}"),
        }
    }
}

/// The last lines of a file.
fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = fs::metadata(path)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(QUOTED_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n"))
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
        let tail = tail(&path).unwrap();
        assert_eq!(tail.lines().count(), QUOTED_LINES);
        assert!(tail.ends_with("line 4999"));
    }
}
