//! `cargo xtask ci`: what a change must pass, cheap steps first.

use std::time::Instant;

use anyhow::Context;

use crate::{cargo, layers, stop, test};

type Step = (&'static str, fn() -> anyhow::Result<()>);

/// In order; the first failure ends it.
const STEPS: [Step; 8] = [
    ("format", || cargo::run(&["fmt", "--all", "--check"])),
    ("layers", layers::run),
    ("lints", || cargo::run(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("documents", documents),
    ("tests", || test::run(&test::Args::default())),
    ("demo", demo),
    ("licences, bans, sources", licences),
    ("advisories", advisories),
];

/// Runs all steps.
///
/// # Errors
/// A step failed; the text names it.
pub(crate) fn run() -> anyhow::Result<()> {
    let start = Instant::now();
    for (number, (name, step)) in STEPS.iter().enumerate() {
        println!("\n=== {}/{} {name}", number + 1, STEPS.len());
        let since = Instant::now();
        step().with_context(|| format!("ci stopped at step '{name}'"))?;
        println!("=== {name}: passed in {:.1} s", since.elapsed().as_secs_f32());
    }
    println!("\nall {} steps passed in {:.0} s", STEPS.len(), start.elapsed().as_secs_f32());
    Ok(())
}

fn documents() -> anyhow::Result<()> {
    let mut command = cargo::cargo(&["doc", "--workspace", "--no-deps"]);
    cargo::check(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn demo() -> anyhow::Result<()> {
    cargo::run(&["xtask", "demo", "--exit"])
}

fn licences() -> anyhow::Result<()> {
    cargo::install("deny")?;
    cargo::run(&["deny", "--workspace", "check", "licenses", "bans", "sources"])
}

/// Their database is a git repository, which is not to be reached from everywhere.
fn advisories() -> anyhow::Result<()> {
    let fetched = stop::status(&mut cargo::cargo(&["deny", "--workspace", "fetch", "db"]))?;
    if !fetched.success() {
        println!("advisories: NOT CHECKED, their database cannot be reached from here");
        return Ok(());
    }
    cargo::run(&["deny", "--workspace", "check", "--disable-fetch", "advisories"])
}
