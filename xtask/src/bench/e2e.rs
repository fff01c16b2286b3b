//! TPC-H through a broker and three nodes against one DataFusion process, on the same cores, in the same run.

use std::{
    thread::available_parallelism,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use pointsman_testkit::{Cluster, ClusterOptions, Sql, resident_bytes, target_dir};

use super::{Args, plain::Plain, row::Row};
use crate::{cargo, stop, tpch};

/// Rounds; the best counts, since what is above it is other people's work on the machine.
const ROUNDS: usize = 3;

/// Repetitions of the small query.
const SMALL_ROUNDS: usize = 300;

/// A filtered count of few rows: nothing but the way there and back.
const SMALL: &str = "SELECT count(*) FROM supplier WHERE s_suppkey < 10";

/// No query of TPC-H may meet the broker's usual deadline here.
const DEADLINE: Duration = Duration::from_secs(300);

/// Queries that run in a single stage, with their own aim.
const SINGLE_STAGE: [usize; 1] = [6];

pub(super) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let packages = ["--package", "pointsman-cli", "--package", "pointsman-bench"];
    cargo::run(&[&["build", "--profile", &args.profile, "--bins"], &packages[..]].concat())?;
    let folder = if args.profile == "dev" { "debug" } else { "release" };
    let programs = target_dir()?.parent().context("a target directory")?.join(folder);
    let cluster = Cluster::start(ClusterOptions {
        nodes: 3,
        resource_groups: vec!["all".into()],
        replicas: 1,
        sample: Some(format!("tpch:{}", args.scale)),
        program: Some(programs.join("pointsman")),
        show: true,
        ..ClusterOptions::default()
    })?;
    let objects = cluster.data_dir().join("objects");
    let cores = available_parallelism()?.get();
    let mut plain = Plain::start(&programs.join("pointsman-baseline"), &objects, cores)?;
    let sql = Sql::with_deadline(&cluster.ready().broker.http, DEADLINE);

    let mut rows = memory("idle", &cluster, &plain)?;
    rows.extend(latency(&sql, &mut plain)?);
    rows.extend(queries(&sql, &mut plain)?);
    rows.extend(memory("after", &cluster, &plain)?);
    Ok(rows)
}

/// The 22 queries, one side after the other in each round, and who begins changes.
fn queries(sql: &Sql, plain: &mut Plain) -> anyhow::Result<Vec<Row>> {
    let texts: Vec<String> = (1..=22).map(tpch::query).collect::<anyhow::Result<_>>()?;
    let mut best = vec![(f64::INFINITY, f64::INFINITY); texts.len()];
    for round in 0..ROUNDS {
        for (text, best) in texts.iter().zip(&mut best) {
            let (through, within) = pair(sql, plain, text, round % 2 == 0)?;
            *best = (best.0.min(through), best.1.min(within));
        }
        println!("round {} of {ROUNDS} done", round + 1);
    }
    let (through, within) = best.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let mut rows = vec![Row::new("e2e.total", through, "ms").against(within).ratio_at_most(1.4)];
    for (number, (through, within)) in (1..).zip(best) {
        let row = Row::new(format!("e2e.q{number}"), through, "ms").against(within);
        rows.push(if SINGLE_STAGE.contains(&number) { row.ratio_at_most(1.15) } else { row });
    }
    Ok(rows)
}

/// What a small query takes on both sides.
fn latency(sql: &Sql, plain: &mut Plain) -> anyhow::Result<Vec<Row>> {
    let (mut through, mut within) = (Vec::new(), Vec::new());
    for round in 0..SMALL_ROUNDS {
        let (a, b) = pair(sql, plain, SMALL, round % 2 == 0)?;
        through.push(a);
        within.push(b);
    }
    let p50 = (quantile(&mut through, 0.5), quantile(&mut within, 0.5));
    let p99 = (quantile(&mut through, 0.99), quantile(&mut within, 0.99));
    Ok(vec![
        Row::new("e2e.small.p50", p50.0, "ms").against(p50.1),
        Row::new("e2e.small.p99", p99.0, "ms").against(p99.1),
        Row::new("e2e.small.p50_over_in_process", p50.0 - p50.1, "ms").at_most(3.0),
    ])
}

/// One query on both sides: milliseconds through the cluster, and within one process.
fn pair(sql: &Sql, plain: &mut Plain, text: &str, cluster_first: bool) -> anyhow::Result<(f64, f64)> {
    ensure!(!stop::requested(), "stopped");
    if cluster_first {
        let through = through(sql, text)?;
        Ok((through, plain.time(text)?))
    } else {
        let within = plain.time(text)?;
        Ok((through(sql, text)?, within))
    }
}

fn through(sql: &Sql, text: &str) -> anyhow::Result<f64> {
    let since = Instant::now();
    sql.query(text)?;
    Ok(since.elapsed().as_secs_f64() * 1e3)
}

fn memory(when: &str, cluster: &Cluster, plain: &Plain) -> anyhow::Result<Vec<Row>> {
    let ready = cluster.ready();
    let mut processes =
        vec![("broker".to_owned(), ready.broker.pid), ("coordinator".into(), ready.coordinator.pid)];
    processes.extend(ready.nodes.iter().map(|node| (node.name.clone(), node.pid)));
    processes.push(("in_process".into(), plain.pid()));
    let row = |(name, pid)| {
        let mib = resident_bytes(pid)? as f64 / f64::from(1 << 20);
        Ok(Row::new(format!("e2e.memory.{when}.{name}"), mib, "MiB"))
    };
    processes.into_iter().map(row).collect()
}

/// The value that `share` of them do not exceed.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let mut values: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        assert_eq!((quantile(&mut values, 0.5), quantile(&mut values, 0.99)), (51.0, 100.0));
    }
}
