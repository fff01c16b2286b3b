//! Benchmarks of single crates: criterion measures them and their floors in one run, rows are made of its estimates.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use serde::Deserialize;

use super::{Args, row::Row};
use crate::cargo;

/// Segments of a request in the benchmarks of selection.
const SELECTED: f64 = 10_000.0;

/// Time for a change of one node's health to be in force over 1,000,000 segments.
const EXCLUSION: Duration = Duration::from_millis(15);

/// Selection from 10,000 segments against a loop that only reads candidates and writes the grouped numbers.
pub(super) fn select(args: &Args) -> anyhow::Result<Vec<Row>> {
    let figures = Figures::measure("select", args)?;
    let mut rows = Vec::new();
    for selector in ["balanced", "replica_group"] {
        let floor = figures.nanoseconds(selector, "floor")? / SELECTED;
        for case in ["select", "select_from_a_list", "select_with_one_node_out"] {
            let own = figures.nanoseconds(selector, case)? / SELECTED;
            let row = Row::new(format!("select.{selector}.{case}"), own, "ns/segment").against(floor);
            rows.push(if case == "select" { row.ratio_at_most(3.0) } else { row });
        }
    }
    let told = figures.told("select")?;
    let changing = one(&told, "select.under_100_changes_a_second")?;
    let row = changing.clone().against(one(&told, "select.still")?.value);
    rows.push(row.ratio_at_least(0.9));
    Ok(rows)
}

/// Changes of states: at the cost of the change, not of the collection.
pub(super) fn change(args: &Args) -> anyhow::Result<Vec<Row>> {
    let figures = Figures::measure("change", args)?;
    let mut rows = Vec::new();
    for selector in ["balanced", "strict_replica_group"] {
        let group = format!("change_100_of_{selector}");
        let [small, large] =
            ["10000", "1000000"].map(|segments| figures.nanoseconds(&group, segments).map(|ns| ns / 1e3));
        let name = format!("change.100_of_1000000.{selector}");
        rows.push(Row::new(name, large?, "us").against(small?).ratio_at_most(10.0));
    }
    for (case, name) in [("nodes", "nodes"), ("nodes_and_health_of_1000000_segments", "nodes_and_health")] {
        let took = figures.nanoseconds("exclude_one_of_1000_nodes", case)? / 1e6;
        let row = Row::new(format!("change.exclude_one_of_1000_nodes.{name}"), took, "ms");
        rows.push(row.at_most(EXCLUSION.as_secs_f64() * 1e3));
    }
    Ok(rows)
}

/// The whole routing of a cluster with 1,000,000 segments and 1,000 nodes under change.
pub(super) fn routing(args: &Args) -> anyhow::Result<Vec<Row>> {
    let figures = Figures::measure("changes", args)?;
    let took = |name: &str| figures.nanoseconds("", name).map(|ns| ns / 1e6);
    let mut rows = vec![
        Row::new("routing.delta_of_100", took("a delta of 100 in 1,000,000 segments")?, "ms")
            .against(took("a delta of 100 in 10,000 segments")?)
            .ratio_at_most(20.0),
        Row::new("routing.exclusion", took("an exclusion or inclusion in 1,000,000 segments")?, "ms")
            .at_most(EXCLUSION.as_secs_f64() * 1e3),
    ];
    rows.extend(figures.told("routing")?);
    Ok(rows)
}

/// Load percentages of 1,000,000 segments in 16 shards and 4 replicas against a loop that reads the same arrays once.
pub(super) fn readiness(args: &Args) -> anyhow::Result<Vec<Row>> {
    let figures = Figures::measure("readiness", args)?;
    let mut rows = Vec::new();
    for views in ["whole_views", "views_with_gaps", "two_leaders_per_shard"] {
        let took = |case: &str| figures.nanoseconds(views, case).map(|ns| ns / 1e6);
        let row = Row::new(format!("readiness.percentages.{views}"), took("percentages")?, "ms");
        rows.push(row.against(took("floor")?).ratio_at_most(4.0));
    }
    let took = figures.nanoseconds("whole_views", "readiness")? / 1e3;
    rows.push(Row::new("readiness.verdict", took, "us"));
    Ok(rows)
}

/// Placement: all of a large cluster, and what changes of it at the cost of the change.
pub(super) fn place(args: &Args) -> anyhow::Result<Vec<Row>> {
    let figures = Figures::measure("place", args)?;
    let took = |case: &str| figures.nanoseconds("place", case).map(|ns| ns / 1e6);
    let mut rows = vec![
        Row::new("place.100000_over_100", took("100000_segments_over_100_nodes")?, "ms").at_most(1000.0),
    ];
    // Ten times as large a cluster: nodes are looked at once each, and less of it lies in caches.
    for (case, most) in [("a_lost_node_of", 3.0), ("100_reports_of", 5.0)] {
        let [small, large] = ["10", "100"].map(|nodes| took(&format!("{case}/{nodes}")));
        rows.push(Row::new(format!("place.{case}_100"), large?, "ms").against(small?).ratio_at_most(most));
    }
    Ok(rows)
}

/// `Route` over gRPC for 1,000 segments against an empty call that returns as many bytes.
pub(super) fn route(args: &Args) -> anyhow::Result<Vec<Row>> {
    let told = Figures::measure("route", args)?.told("route")?;
    let row = one(&told, "route.over_grpc")?.clone();
    Ok(vec![row.against(one(&told, "route.empty_call")?.value).ratio_at_least(0.7)])
}

/// The figure of this name.
fn one<'a>(told: &'a [Row], name: &str) -> anyhow::Result<&'a Row> {
    let row = told.iter().find(|row| row.name == name);
    row.with_context(|| format!("the benchmark did not tell {name}"))
}

/// What one run of a benchmark found.
pub(super) struct Figures {
    folder: PathBuf,
    output: String,
}

/// A figure that a benchmark took itself, one JSON object per line of its output.
#[derive(Deserialize)]
struct Told {
    figure: String,
    value: f64,
    unit: String,
}

/// The part of criterion's `estimates.json` that is read.
#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

impl Figures {
    /// Runs the benchmark `name`. The whole workspace is named, so that features are those of every other build.
    pub(super) fn measure(name: &str, args: &Args) -> anyhow::Result<Self> {
        Self::measure_with(name, args, &[])
    }

    /// The same with arguments for the benchmark.
    pub(super) fn measure_with(name: &str, args: &Args, own: &[&str]) -> anyhow::Result<Self> {
        let folder = cargo::metadata()?.target_directory.into_std_path_buf().join("criterion");
        if folder.exists() {
            fs::remove_dir_all(&folder).context("removing the figures of an earlier run")?;
        }
        let profile = if args.profile == "dev" { "dev" } else { "bench" };
        let words = ["bench", "--workspace", "--profile", profile, "--bench", name, "--"];
        let output = cargo::output(&[&words, own].concat())?;
        print!("{output}");
        Ok(Self { folder, output })
    }

    /// The median time of one iteration.
    pub(super) fn nanoseconds(&self, group: &str, function: &str) -> anyhow::Result<f64> {
        let path = self.folder.join(group).join(function).join("new").join("estimates.json");
        read(&path).with_context(|| format!("the estimate of {group} {function}"))
    }

    /// Figures that the benchmark told by itself.
    pub(super) fn told(&self, prefix: &str) -> anyhow::Result<Vec<Row>> {
        let lines = self.output.lines().filter(|line| line.starts_with("{\"figure\":"));
        lines
            .map(|line| {
                let told: Told =
                    serde_json::from_str(line).with_context(|| format!("not a figure: {line}"))?;
                Ok(Row::new(format!("{prefix}.{}", told.figure), told.value, told.unit))
            })
            .collect()
    }
}

fn read(path: &Path) -> anyhow::Result<f64> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let estimates: Estimates = serde_json::from_str(&text)?;
    Ok(estimates.median.point_estimate)
}
