//! A private PostgreSQL server.

use std::{
    env,
    fs::{self, File},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use nix::{
    sys::signal::Signal,
    unistd::{Gid, Uid, User},
};
use tempfile::TempDir;

use crate::{Guard, eventually, free_port, signal};

/// The variable that names a database for tests: those that need one connect to it, each with a schema or a database
/// of its own. `cargo xtask test` sets it.
pub const DATABASE_URL: &str = "POINTSMAN_TEST_DATABASE_URL";

/// Where Debian puts server binaries, one folder per major version.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";

/// Users that may run the server in place of root, which it refuses; the first that exists is taken.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// How long start and stop may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Speed over safety: the data goes with the test.
const OPTIONS: [&str; 7] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "max_connections=200",
    "max_wal_size=256MB",
];

/// A private PostgreSQL server on a free port of loopback, with its data in a temporary folder. It can be stopped and
/// started again on the same data and port, and is gone with its folder when the value is dropped.
#[derive(Debug)]
pub struct Postgres {
    running: Option<Running>,
    binaries: PathBuf,
    /// Who runs the server. None: whoever runs this program.
    user: Option<(Uid, Gid)>,
    port: u16,
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
        let folder = tempfile::Builder::new().prefix("pointsman-postgres-").tempdir()?;
        let user = unprivileged_user()?;
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid.as_raw()), Some(gid.as_raw()))?;
        }
        let mut server = Self { running: None, binaries: server_binaries()?, user, port: 0, folder };
        server.create()?;
        // Somebody else may take the port between the choice and the start.
        let mut tries = 0;
        loop {
            tries += 1;
            server.port = free_port()?;
            match server.start_again() {
                Ok(()) => return Ok(server),
                Err(error) if tries == 3 => return Err(error),
                Err(_) => {}
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
        for option in OPTIONS {
            command.args(["-c", option]);
        }
        let output = File::create(&log)?;
        command.stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = command.spawn().context("cannot start postgres")?;
        let guard = Guard::over(child.id(), "QUIT", Some(self.folder.path()))?;
        let mut running = Running { child, _guard: guard };
        let pid_file = self.data().join("postmaster.pid");
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

/// Who may run the server when this is root; none when it is not.
fn unprivileged_user() -> anyhow::Result<Option<(Uid, Gid)>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    for name in UNPRIVILEGED {
        if let Some(user) = User::from_name(name)? {
            return Ok(Some((user.uid, user.gid)));
        }
    }
    bail!("PostgreSQL refuses root, and there is no user {} to run it", UNPRIVILEGED.join(" or "))
}

/// The folder of installed server binaries: in `PATH`, else the newest version in Debian's folder.
///
/// # Errors
/// There is none.
pub fn server_binaries() -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain(debian_versions(Path::new(DEBIAN_FOLDER)))
        .find(|folder| ["initdb", "postgres"].iter().all(|program| folder.join(program).is_file()));
    found.with_context(|| {
        format!("no PostgreSQL server binaries (initdb, postgres) in PATH or {DEBIAN_FOLDER}/*/bin")
    })
}

/// The folders of installed versions, newest first.
fn debian_versions(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn the_newest_version_comes_first() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9", "17", "15", "notes"] {
            fs::create_dir(root.path().join(version)).unwrap();
        }
        let expected: Vec<PathBuf> =
            ["17", "15", "9"].iter().map(|version| root.path().join(version).join("bin")).collect();
        assert_eq!(debian_versions(root.path()), expected);
    }

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
}
