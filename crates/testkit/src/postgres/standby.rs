//! A second server that follows a first one.

use anyhow::{Context, ensure};

use super::Postgres;

impl Postgres {
    /// A standby of this server, which follows it asynchronously; what it acknowledged survives a kill.
    ///
    /// # Errors
    /// It does not come up.
    pub fn standby(&self) -> anyhow::Result<Self> {
        let mut standby = Self::new(true)?;
        let mut command = standby.command("pg_basebackup");
        command.arg("-D").arg(standby.data());
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()]);
        command.args(["--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"]);
        let output = command.output().context("cannot start pg_basebackup")?;
        ensure!(output.status.success(), "pg_basebackup failed: {}", String::from_utf8_lossy(&output.stderr));
        standby.start_somewhere()?;
        Ok(standby)
    }

    /// Makes this standby the primary at the address of one that does not run any more, as a failover does.
    ///
    /// # Errors
    /// The former one still runs, or this one does not come up.
    pub fn take_the_place_of(&mut self, former: &Self) -> anyhow::Result<()> {
        ensure!(former.running.is_none(), "the former primary still runs");
        self.stop()?;
        self.port = former.port;
        self.start_again()?;
        let mut command = self.command("pg_ctl");
        command.args(["promote", "--wait", "--silent", "-D"]).arg(self.data());
        let output = command.output().context("cannot start pg_ctl")?;
        ensure!(output.status.success(), "pg_ctl failed: {}", String::from_utf8_lossy(&output.stdout));
        Ok(())
    }
}
