//! A private PostgreSQL server.

mod binaries;
mod faults;
mod standby;

use std::{
    fs::{self, File},
    os::unix::{fs::chown, process::CommandExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use nix::{
    sys::signal::Signal,
    unistd::{Gid, Uid},
};
use tempfile::TempDir;

pub use binaries::server_binaries;

use crate::{Guard, eventually, free_port, signal};

/// The variable that names a database for tests: those that need one connect to it, each with a schema or a database
/// of its own. `cargo xtask test` sets it.
pub const DATABASE_URL: &str = "POINTSMAN_TEST_DATABASE_URL";

/// How long start and stop may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Speed over safety: the data goes with the test, and no machine loses its power in one.
const OPTIONS: [&str; 5] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "max_connections=200",
    "max_wal_size=256MB",
];

/// The same for a server that nobody kills.
const HASTY: [&str; 2] = ["full_page_writes=off", "synchronous_commit=off"];

/// A private PostgreSQL server on a free port of loopback, with its data in a temporary folder. It can be stopped and
/// started again on the same data and port, and is gone with its folder when the value is dropped.
#[derive(Debug)]
pub struct Postgres {
    running: Option<Running>,
    binaries: PathBuf,
    /// Who runs the server. None: whoever runs this program.
    user: Option<(Uid, Gid)>,
    port: u16,
    /// Whether what it acknowledged outlives a kill.
    durable: bool,
    folder: TempDir,
}

#[derive(Debug)]
struct Running {
    child: Child,
    _guard: Guard,
}

impl Postgres {
    /// Creates a server and starts it.
    ///
    /// # Errors
    /// No server binaries are installed, or they do not work; the text holds the server's own words.
    pub fn start() -> anyhow::Result<Self> {
        let mut server = Self::new(false)?;
        server.create()?;
        server.start_somewhere()?;
        Ok(server)
    }

    /// The same, and what it acknowledged is there again after [`Postgres::kill`].
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub fn start_durable() -> anyhow::Result<Self> {
        let mut server = Self::new(true)?;
        server.create()?;
        server.start_somewhere()?;
        Ok(server)
    }

    fn new(durable: bool) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("pointsman-postgres-").tempdir()?;
        let user = binaries::unprivileged_user()?;
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid.as_raw()), Some(gid.as_raw()))?;
        }
        Ok(Self { running: None, binaries: server_binaries()?, user, port: 0, durable, folder })
    }

    /// Starts it on a free port.
    fn start_somewhere(&mut self) -> anyhow::Result<()> {
        // Somebody else may take the port between the choice and the start.
        let mut tries = 0;
        loop {
            tries += 1;
            self.port = free_port()?;
            match self.start_again() {
                Err(_) if tries < 3 => {}
                ended => return ended,
            }
        }
    }

    /// The URL of its database `postgres`, with all rights.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Stops the server as an operator would: open sessions are ended, everything acknowledged is kept.
    ///
    /// # Errors
    /// It did not stop and was killed.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.thaw()?;
        let Some(mut running) = self.running.take() else { return Ok(()) };
        signal(running.child.id(), Signal::SIGINT)?;
        let ended = eventually("the end of the PostgreSQL server", LIMIT, || {
            running.child.try_wait()?.context("it still runs")
        });
        if ended.is_err() {
            running.child.kill()?;
            running.child.wait()?;
        }
        ended.map(drop)
    }

    /// Starts the server again, on the same data and port. It runs already: nothing happens.
    ///
    /// # Errors
    /// It does not come up; the text holds the end of its log.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let log = self.folder.path().join("log");
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        let hasty = HASTY.iter().filter(|_| !self.durable);
        for option in OPTIONS.iter().chain(hasty) {
            command.args(["-c", option]);
        }
        let output = File::create(&log)?;
        command.stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = command.spawn().context("cannot start postgres")?;
        let guard = Guard::over(child.id(), "QUIT", Some(self.folder.path()))?;
        let mut running = Running { child, _guard: guard };
        let pid_file = self.pid_file();
        let up = eventually("a PostgreSQL server that takes connections", LIMIT, || {
            if let Some(status) = running.child.try_wait()? {
                return Ok(Err(status)); // No use in waiting longer.
            }
            let state = fs::read_to_string(&pid_file).unwrap_or_default();
            ensure!(state.lines().nth(7).is_some_and(|line| line.trim() == "ready"), "it is starting");
            Ok(Ok(()))
        });
        let told = || fs::read_to_string(&log).unwrap_or_default();
        match up {
            Ok(Ok(())) => {
                self.running = Some(running);
                Ok(())
            }
            Ok(Err(status)) => bail!("postgres ended with {status}: {}", told()),
            Err(error) => {
                let _ = running.child.kill();
                let _ = running.child.wait();
                Err(error.context(told()))
            }
        }
    }

    fn create(&self) -> anyhow::Result<()> {
        let mut command = self.command("initdb");
        command.arg("-D").arg(self.data());
        command.args(["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        let output = command.output().context("cannot start initdb")?;
        ensure!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Says how far the server is while it runs.
    fn pid_file(&self) -> PathBuf {
        self.data().join("postmaster.pid")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.join(program));
        command.current_dir(self.folder.path()).stdin(Stdio::null()).env("LC_ALL", "C");
        if let Some((uid, gid)) = self.user {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
    };

    use super::*;

    #[test]
    fn a_server_stops_and_starts_on_the_same_port_and_leaves_nothing() {
        let mut server = Postgres::start().unwrap();
        let (port, folder) = (server.port, server.folder.path().to_owned());
        let connect = || TcpStream::connect(("127.0.0.1", port));
        connect().unwrap();
        server.stop().unwrap();
        assert!(connect().is_err());
        server.start_again().unwrap();
        connect().unwrap();
        drop(server);
        assert!(connect().is_err() && !folder.exists());
    }

    /// Asks for an encrypted connection; anything that lives says no.
    fn asks(port: u16) -> std::io::Result<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_millis(300)))?;
        stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47])?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer[0])
    }

    #[test]
    fn a_frozen_server_says_nothing_and_a_killed_one_starts_again() {
        let mut server = Postgres::start_durable().unwrap();
        assert_eq!(asks(server.port).unwrap(), b'N');
        server.freeze().unwrap();
        assert!(asks(server.port).is_err());
        server.thaw().unwrap();
        eventually("an answer", LIMIT, || Ok(asks(server.port)?)).unwrap();
        server.kill().unwrap();
        assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err());
        server.start_again().unwrap();
        assert_eq!(asks(server.port).unwrap(), b'N');
    }

    #[test]
    fn a_standby_takes_the_place_of_its_primary() {
        let mut primary = Postgres::start_durable().unwrap();
        let mut standby = primary.standby().unwrap();
        assert!(standby.take_the_place_of(&primary).is_err(), "it still runs");
        primary.kill().unwrap();
        standby.take_the_place_of(&primary).unwrap();
        assert_eq!(standby.url(), primary.url());
        assert_eq!(asks(primary.port).unwrap(), b'N');
    }
}
