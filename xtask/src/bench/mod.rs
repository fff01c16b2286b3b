//! `cargo xtask bench`: figures, each against a baseline that was measured in the same run.

mod coordinator;
mod criterion;
mod e2e;
mod ha;
mod metastore;
mod plain;
mod row;
mod shards;
mod vectors;

use std::{fs, path::PathBuf};

use anyhow::{bail, ensure};

use row::Row;

/// A benchmark: its name, what it measures, how.
type Bench = (&'static str, &'static str, fn(&Args) -> anyhow::Result<Vec<Row>>);

/// All of them, in the order in which they run.
const BENCHES: [Bench; 12] = [
    ("select", "a node for each of 10,000 segments, against the floor", criterion::select),
    ("change", "states of 1,000,000 segments under change", criterion::change),
    (
        "routing",
        "a cluster of 1,000,000 segments and 1,000 nodes under change, with readers",
        criterion::routing,
    ),
    ("readiness", "load percentages of 1,000,000 segments, against the floor", criterion::readiness),
    ("place", "100,000 segments over 100 nodes, and those of a lost node", criterion::place),
    ("vectors", "exact search against a plain loop, an index against exact search", vectors::run),
    ("shards", "requests on 16 shards, against calling the 16 services directly", shards::run),
    ("route", "the routing table of 1,000 segments over gRPC, against an empty call", criterion::route),
    ("metastore", "1,000,000 segments in and out of the metastore, against COPY alone", metastore::run),
    (
        "coordinator",
        "a cold coordinator with 1,000,000 segments, 100 nodes and 10 brokers, under change",
        coordinator::run,
    ),
    ("ha", "death of the active coordinator, until another one is active and found", ha::run),
    ("e2e", "TPC-H through a cluster and in one process", e2e::run),
];

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Names of benchmarks; none: all. `list` lists them.
    names: Vec<String>,
    /// Also writes the figures to this file, as a JSON array.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Scale of TPC-H.
    #[arg(long, default_value = "1")]
    scale: String,
    /// Segments of the coordinator's cluster.
    #[arg(long, default_value_t = 1_000_000)]
    segments: u32,
    /// Profile of the programs. Figures of `dev` say nothing; it shows quickly that a benchmark works.
    #[arg(long, default_value = "release", value_parser = ["release", "dev"])]
    profile: String,
}

/// Runs benchmarks.
///
/// # Errors
/// One is unknown, or could not be run. A figure that misses its aim is no error: the table says so.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.names.iter().any(|name| name == "list") {
        BENCHES.iter().for_each(|(name, what, _)| println!("{name:<11} {what}"));
        return Ok(());
    }
    let known: Vec<&str> = BENCHES.iter().map(|(name, ..)| *name).collect();
    for name in &args.names {
        ensure!(known.contains(&name.as_str()), "no benchmark '{name}'; there are: {}", known.join(", "));
    }
    let mut rows = Vec::new();
    for (name, _, bench) in BENCHES {
        if args.names.is_empty() || args.names.iter().any(|wanted| wanted == name) {
            rows.extend(bench(args)?);
        }
    }
    if rows.is_empty() {
        bail!("nothing was measured");
    }
    println!("\n{}", row::table(&rows));
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_string_pretty(&rows)? + "\n")?;
    }
    Ok(())
}
