//! How long it takes until another coordinator is active after the death of one, and until everybody has found it.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use pointsman_testkit::{Cluster, ClusterOptions, Endpoint, Postgres, Sql, eventually, target_dir};
use serde_json::Value;

use super::{Args, row::Row};
use crate::{cargo, stop};

/// Deaths, one after the other.
const ROUNDS: usize = 5;

/// Longest wait for anything.
const LIMIT: Duration = Duration::from_secs(60);

/// A take-over lasts no longer than this.
const TAKE_OVER: f64 = 5.0;

/// Names of what is measured, in its order.
const NAMES: [&str; 3] = ["ha.take_over", "ha.first_change", "ha.broker_watches"];

pub(super) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    cargo::run(&["build", "--profile", &args.profile, "--bins", "--package", "pointsman-cli"])?;
    let folder = if args.profile == "dev" { "debug" } else { "release" };
    let programs = target_dir()?.parent().context("a target directory")?.join(folder);
    let postgres = Postgres::start()?;
    let mut cluster = Cluster::start(ClusterOptions {
        sample: Some("tpch:0.01".into()),
        metastore: Some(postgres.url()),
        program: Some(programs.join("pointsman")),
        ..ClusterOptions::default()
    })?;
    let second = cluster.add_coordinator("coordinator-2")?;
    let first = cluster.ready().coordinator.clone();
    let mut worst = [0.0_f64; 3];
    for round in 0..ROUNDS {
        ensure!(!stop::requested(), "stopped");
        let (survivor, dies) = if round.is_multiple_of(2) { (&second, &first) } else { (&first, &second) };
        eventually("an active coordinator", LIMIT, || epoch(dies))?;
        let times = death(&mut cluster, survivor, round)?;
        worst.iter_mut().zip(times).for_each(|(worst, time)| *worst = worst.max(time));
        // Back again, to stand by.
        if round.is_multiple_of(2) {
            cluster.restart_coordinator()?;
        } else {
            cluster.restart_added_coordinator("coordinator-2")?;
        }
    }
    let rows = NAMES.into_iter().zip(worst).map(|(name, worst)| Row::new(name, worst, "s"));
    Ok(rows.map(|row| if row.name == NAMES[0] { row.at_most(TAKE_OVER) } else { row }).collect())
}

/// Kills the coordinator that is active: seconds until the survivor is active, a change is acknowledged, and the broker
/// watches the survivor's feed.
fn death(cluster: &mut Cluster, survivor: &Endpoint, round: usize) -> anyhow::Result<[f64; 3]> {
    let begin = Instant::now();
    let since = || begin.elapsed().as_secs_f64();
    if round.is_multiple_of(2) {
        cluster.kill_coordinator()?
    } else {
        cluster.kill_added_coordinator("coordinator-2")?
    }
    let epoch = eventually("a take-over", LIMIT, || epoch(survivor))?;
    let take_over = since();
    let group = format!("group-{round}");
    eventually("a change", LIMIT, || cluster.run(&["group", "create", &group]))?;
    let change = since();
    eventually("the broker's watch", LIMIT, || {
        let (_, text) = cluster.sql().get("/ready")?;
        let ready: Value = serde_json::from_str(&text)?;
        // A version begins with the epoch that gave it.
        let version = ready["feed_version"].as_u64().unwrap_or_default();
        ensure!(ready["connected"] == true && version >> 32 == epoch, "{text}");
        Ok(())
    })?;
    Ok([take_over, change, since()])
}

/// The epoch of a coordinator that is active.
fn epoch(coordinator: &Endpoint) -> anyhow::Result<u64> {
    let (status, text) = Sql::new(&coordinator.http).get("/ready")?;
    ensure!(status == 200, "{status} {text}");
    serde_json::from_str::<Value>(&text)?["epoch"].as_u64().context("an epoch")
}
