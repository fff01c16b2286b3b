//! A million segments in and out of the metastore, against what PostgreSQL does with the same bytes alone.

use super::{Args, criterion::Figures, row::Row};

pub(super) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let figures = Figures::measure("metastore", args)?;
    let told = figures.told("metastore")?;
    let floor = |name: &str| {
        let floor = format!("{name}_floor");
        told.iter().find(|row| row.name == floor).map(|row| row.value)
    };
    let rows = told.iter().filter(|row| !row.name.ends_with("_floor")).cloned();
    Ok(rows.map(|row| judged(floor(&row.name), row)).collect())
}

/// A figure with its floor and its aim.
fn judged(floor: Option<f64>, row: Row) -> Row {
    let row = match floor {
        Some(floor) => row.against(floor),
        None => row,
    };
    match row.name.as_str() {
        "metastore.postgres.push" => row.ratio_at_least(0.25),
        "metastore.postgres.read" => row.at_least(100_000.0),
        "metastore.postgres.revision" => row.at_most(5.0),
        _ => row,
    }
}
