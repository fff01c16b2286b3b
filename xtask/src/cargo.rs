//! Running cargo.

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::stop;

/// The root of the workspace: of the checkout that cargo runs this program for, since several may share its build.
pub(crate) fn root() -> PathBuf {
    let own = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map_or(own.clone(), PathBuf::from)
}

/// A cargo command at the root of the workspace: the cargo that runs this program.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // What cargo tells its own children is not for grandchildren: it would make build scripts run again.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
            || name == "CARGO_PRIMARY_PACKAGE"
        {
            command.env_remove(&*name);
        }
    }
    command
}

/// Runs cargo with its output where ours goes.
///
/// # Errors
/// It failed.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    check(&mut cargo(args))
}

/// Runs cargo and returns what it says on standard output; the rest goes where ours goes.
///
/// # Errors
/// It failed.
pub(crate) fn output(args: &[&str]) -> anyhow::Result<String> {
    let output = cargo(args).stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "`cargo {}` failed ({})", args.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command with its output where ours goes.
///
/// # Errors
/// It failed.
pub(crate) fn check(command: &mut Command) -> anyhow::Result<()> {
    let status = stop::status(command)?;
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    ensure!(status.success(), "`{}` failed ({status})", shown.join(" "));
    Ok(())
}

/// Installs a cargo subcommand from the registry unless it is there.
///
/// # Errors
/// It cannot be installed.
pub(crate) fn install(subcommand: &str) -> anyhow::Result<()> {
    let there = cargo(&[subcommand, "--version"]).output().context("cannot start cargo")?;
    if there.status.success() {
        return Ok(());
    }
    let name = format!("cargo-{subcommand}");
    println!("{name} is missing: installing it (once, some minutes)");
    // Built apart: its crates are none of ours.
    check(cargo(&["install", "--locked", &name]).env_remove("CARGO_TARGET_DIR"))
}

/// The packages of the workspace, without their dependencies from outside.
///
/// # Errors
/// A manifest does not parse.
pub(crate) fn metadata() -> anyhow::Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps();
    command.exec().context("cargo metadata failed")
}
