//! A cold coordinator at the size of a large cluster, and changes under way to its brokers.

use super::{Args, criterion::Figures, row::Row};

pub(super) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let segments = args.segments.to_string();
    let figures = Figures::measure_with("coordinator", args, &[&segments])?;
    Ok(figures.told("coordinator")?.into_iter().map(judged).collect())
}

/// A figure with its aim.
fn judged(row: Row) -> Row {
    match row.name.as_str() {
        "coordinator.cold.serving" => row.at_most(15.0),
        "coordinator.memory" => row.at_most(600.0),
        "coordinator.snapshot" => row.at_most(24.0),
        "coordinator.change.p99" => row.at_most(300.0),
        _ => row,
    }
}
