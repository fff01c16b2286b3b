//! What can be done to a server: killing it, and holding it still.

use std::{fs, time::Duration};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;

use super::Postgres;
use crate::{eventually, is_alive, signal};

/// How long killed processes may take to be gone.
const GONE: Duration = Duration::from_secs(20);

impl Postgres {
    /// Kills the server with all of its processes (SIGKILL), as a machine that fails does. It runs not: nothing happens.
    ///
    /// # Errors
    /// A process does not go.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let main = running.child.id();
        // Held still, so that it has no more children while they are counted.
        signal(main, Signal::SIGSTOP)?;
        let children = children(main);
        running.child.kill()?;
        for child in &children {
            // One that ended by itself is gone as well.
            let _gone = signal(*child, Signal::SIGKILL);
        }
        running.child.wait()?;
        eventually("the end of a killed server", GONE, || {
            let alive: Vec<&u32> = children.iter().filter(|child| is_alive(**child)).collect();
            ensure!(alive.is_empty(), "processes {alive:?} still run");
            Ok(())
        })?;
        // Its last word was that it is ready.
        fs::remove_file(self.pid_file()).context("the dead server's file with its process number")
    }

    /// Stops all processes of the server (SIGSTOP): connections stay and nothing answers.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze(&self) -> anyhow::Result<()> {
        let main = self.running.as_ref().context("the server does not run")?.child.id();
        signal(main, Signal::SIGSTOP)?;
        for child in children(main) {
            let _gone = signal(child, Signal::SIGSTOP);
        }
        Ok(())
    }

    /// Lets a frozen server go on. It does not run, or is not frozen: nothing happens.
    ///
    /// # Errors
    /// The system refuses.
    pub fn thaw(&self) -> anyhow::Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        for child in children(running.child.id()) {
            let _gone = signal(child, Signal::SIGCONT);
        }
        signal(running.child.id(), Signal::SIGCONT)
    }
}

/// Processes whose parent is this one.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    // The name stands in parentheses and may hold anything; state and parent follow.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
