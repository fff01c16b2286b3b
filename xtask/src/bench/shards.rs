//! Requests by shard: the client's own time, and what it costs on top of the wire.

use super::{Args, criterion::Figures, row::Row};

/// Shards of a request in both benchmarks.
const SHARDS: f64 = 16.0;

pub(super) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let figures = Figures::measure("execute", args)?;
    let took = |case: &str| figures.nanoseconds("execute_on_16_shards", case);
    let floor = took("floor")?;
    let mut rows = Vec::new();
    for case in ["round_robin", "look_aside", "look_aside_in_a_scope"] {
        let own = (took(case)? - floor) / SHARDS / 1e3;
        rows.push(Row::new(format!("shards.own_time.{case}"), own, "us/shard").at_most(2.0));
    }
    let told = Figures::measure("loopback", args)?.told("shards")?;
    let direct = |figure: &str| {
        let name = format!("shards.direct.{figure}");
        told.iter().find(|row| row.name == name).map(|row| row.value)
    };
    for row in told.iter().cloned() {
        let name = row.name.clone();
        match name.strip_prefix("shards.execute.") {
            Some(figure) => {
                let row = match direct(figure) {
                    Some(direct) => row.against(direct),
                    None => row,
                };
                rows.push(match figure {
                    "p50" => row.ratio_at_most(1.1),
                    "p99" => row.ratio_at_most(1.2),
                    _ => row.ratio_at_least(0.9),
                });
            }
            None if name == "shards.cold_cache.calls" => rows.push(row.at_most(1.0)),
            None => {}
        }
    }
    Ok(rows)
}
