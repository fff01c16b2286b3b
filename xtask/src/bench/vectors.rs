//! Searches for the nearest vectors: exact against a plain loop over the same memory, by index against exact.

use anyhow::Context;

use super::{Args, criterion::Figures, row::Row};

/// Bytes of 1,000,000 vectors of 128 dimensions.
const BYTES: f64 = 1e6 * 128.0 * 4.0;

/// Candidates of a search by default.
const CANDIDATES: usize = 192;

/// Runs the benchmark of the crate `vectors`.
pub(super) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let figures = Figures::measure("vectors", args)?;
    let mut rows = Vec::new();
    for metric in ["l2", "inner_product", "cosine"] {
        // Speeds, so that a ratio is one of the plain loop's speed.
        let speed = |case: &str| {
            let took = figures.nanoseconds(&format!("exact_{metric}"), case)?;
            anyhow::Ok(BYTES / took * 1e9 / f64::from(1 << 30))
        };
        let row = Row::new(format!("vectors.exact.{metric}"), speed("search")?, "GiB/s");
        rows.push(row.against(speed("plain")?).ratio_at_least(0.8));
    }
    let told = figures.told("vectors")?;
    let value = |figure: &str| {
        let name = format!("vectors.index.{figure}");
        let row = told.iter().find(|row| row.name == name);
        row.map(|row| row.value).with_context(|| format!("the benchmark did not tell {name}"))
    };
    let [exact, indexed] = [value("exact")?, value(&format!("search.{CANDIDATES}"))?].map(|ms| 1e3 / ms);
    rows.push(Row::new("vectors.index.searches", indexed, "1/s").against(exact).ratio_at_least(10.0));
    let recall = value(&format!("recall_at_10.{CANDIDATES}"))?;
    rows.push(Row::new("vectors.index.recall_at_10", recall, "").at_least(0.95));
    rows.extend(told);
    Ok(rows)
}
