//! `cargo xtask test`.

use std::{env, ffi::OsString, process::Command};

use anyhow::Context;
use nix::unistd::Uid;
use pointsman_testkit::{DATABASE_URL, Postgres, server_binaries};

use crate::cargo;

/// Arguments of `test`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// For `cargo nextest run`, such as a part of a test's name or `-E 'package(pointsman-ids)'`. With any, doctests
    /// are left out.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    nextest: Vec<OsString>,
}

/// Runs every test of the workspace, or those that the arguments choose.
///
/// # Errors
/// A test failed, or something that tests need is missing.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    cargo::install("nextest")?;
    let database = Database::provide()?;
    // Programs that end-to-end tests start, and the tests themselves, with one set of features.
    cargo::run(&["build", "--workspace", "--all-targets"])?;
    let mut nextest = cargo::cargo(&["nextest", "run", "--workspace"]);
    nextest.args(&args.nextest);
    cargo::check(database.hand_to(&mut nextest))?;
    if args.nextest.is_empty() {
        let mut doctests = cargo::cargo(&["test", "--workspace", "--doc", "--quiet"]);
        cargo::check(database.hand_to(&mut doctests))
    } else {
        println!("doctests: left out, since the arguments choose tests");
        Ok(())
    }
}

/// The database that tests may use.
enum Database {
    /// Somebody runs it and gave its URL.
    Given(OsString),
    /// Ours, gone when this value is dropped.
    Private(Postgres),
}

impl Database {
    fn provide() -> anyhow::Result<Self> {
        if let Some(url) = env::var_os(DATABASE_URL) {
            return Ok(Self::Given(url));
        }
        if server_binaries().is_err() {
            install_postgres()?;
        }
        Ok(Self::Private(Postgres::start().context("tests need a PostgreSQL server")?))
    }

    fn hand_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match self {
            Self::Given(url) => command.env(DATABASE_URL, url),
            Self::Private(server) => command.env(DATABASE_URL, server.url()),
        }
    }
}

/// Installs Debian's package where that is possible.
fn install_postgres() -> anyhow::Result<()> {
    let missing = server_binaries().err().map(|error| format!("{error:#}")).unwrap_or_default();
    let can = Uid::effective().is_root() && Command::new("apt-get").arg("--version").output().is_ok();
    anyhow::ensure!(
        can,
        "{missing}. Tests need a server of their own: install one (on Debian: `sudo apt-get install postgresql`), \
         put a folder with its `initdb` and `postgres` into PATH, or set {DATABASE_URL} to the URL of a database \
         that tests may write to"
    );
    println!("{missing}: installing Debian's package postgresql");
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        cargo::check(command.args(args).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "-q"])?;
    apt(&["install", "-q", "-y", "--no-install-recommends", "postgresql"])
}
