//! Several coordinators over one PostgreSQL: one of them is active, and nobody misses the one that died.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use pointsman_testkit::{Cluster, ClusterOptions, Endpoint, Postgres, QueryLoop, Sql, eventually, pause};
use serde_json::Value;

use super::{A_FEW, LIMIT, QUERIES, load, push};

/// Two coordinators, and everybody knows both.
fn two_coordinators(postgres: &Postgres) -> anyhow::Result<(Cluster, Endpoint)> {
    let mut cluster = Cluster::start(ClusterOptions {
        sample: Some("tpch:0.01".into()),
        metastore: Some(postgres.url()),
        ..ClusterOptions::default()
    })?;
    let second = cluster.add_coordinator("coordinator-2")?;
    super::wait_whole(&cluster)?;
    Ok((cluster, second))
}

/// The epoch of a coordinator that is active.
fn active(coordinator: &Endpoint) -> anyhow::Result<u64> {
    let (status, text) = Sql::new(&coordinator.http).get("/ready")?;
    ensure!(status == 200, "{status} {text}");
    serde_json::from_str::<Value>(&text)?["epoch"].as_u64().context("an epoch")
}

/// Waits until a coordinator is active and tells how long that took, and its epoch.
fn takes_over(coordinator: &Endpoint) -> anyhow::Result<(Duration, u64)> {
    let begin = Instant::now();
    let epoch = eventually("a take-over", LIMIT, || active(coordinator))?;
    Ok((begin.elapsed(), epoch))
}

fn is_counted(cluster: &Cluster, collection: &str, expected: u64) -> anyhow::Result<()> {
    eventually(&format!("the rows of {collection}"), LIMIT, || {
        let answer = cluster.sql().query(&format!("SELECT count(*) FROM {collection}"))?;
        ensure!(answer.rows()? == [vec![serde_json::json!(expected)]], "{answer:?}");
        Ok(())
    })
}

/// CO-1, CO-4: the active coordinator is killed; the other one takes over, and brokers, nodes and commands find it.
#[test]
fn another_coordinator_takes_over_from_one_that_was_killed() -> anyhow::Result<()> {
    let postgres = Postgres::start()?;
    let (mut cluster, second) = two_coordinators(&postgres)?;
    let first = cluster.ready().coordinator.clone();
    ensure!(active(&second).is_err(), "two are active");
    push(&cluster, "before", "before", &[1, 2, 3])?;
    load(&cluster, "before")?;
    is_counted(&cluster, "before", 3)?;
    let epoch = active(&first)?;
    let queries = QueryLoop::start(cluster.sql(), &QUERIES)?;
    cluster.kill_coordinator()?;
    let (took, next) = takes_over(&second)?;
    println!("take-over after SIGKILL: {took:?}");
    ensure!(next > epoch, "{next} after {epoch}");
    // Brokers, nodes and commands have found it, and what was acknowledged is there.
    push(&cluster, "after", "after", &[4, 5])?;
    load(&cluster, "after")?;
    is_counted(&cluster, "after", 2)?;
    is_counted(&cluster, "before", 3)?;
    // The first comes back and stands by, until the second one goes.
    cluster.restart_coordinator()?;
    eventually("the first one, standing by", LIMIT, || {
        let (status, text) = Sql::new(&first.http).get("/ready")?;
        ensure!(status == 503 && text.contains("standing by"), "{status} {text}");
        Ok(())
    })?;
    cluster.kill_added_coordinator("coordinator-2")?;
    let (took, last) = takes_over(&first)?;
    println!("take-over after SIGKILL: {took:?}");
    ensure!(last > next, "{last} after {next}");
    push(&cluster, "last", "last", &[6])?;
    load(&cluster, "last")?;
    is_counted(&cluster, "last", 1)?;
    queries.finish()?.check()
}

/// CO-2: a database that hangs stops changes alone: queries go on, the coordinator answers from memory, and nothing
/// has to be started again.
#[test]
fn postgres_hangs_for_a_while() -> anyhow::Result<()> {
    let postgres = Postgres::start()?;
    let (cluster, second) = two_coordinators(&postgres)?;
    let first = cluster.ready().coordinator.clone();
    push(&cluster, "before", "before", &[1, 2, 3])?;
    load(&cluster, "before")?;
    is_counted(&cluster, "before", 3)?;
    let queries = QueryLoop::start(cluster.sql(), &QUERIES)?;
    postgres.freeze()?;
    cluster.wait_loaded("before", LIMIT)?;
    let refused = cluster.pointsman(&["collection", "drop", "before"]).output()?;
    ensure!(!refused.status.success(), "a change without a metastore: {refused:?}");
    queries.wait_for(4, A_FEW)?;
    // Longer than the lease.
    pause(Duration::from_secs(8));
    ensure!(active(&second).is_err(), "nobody can take a lease from a database that hangs");
    ensure!(active(&first).is_err(), "its lease has run out, so another one might be active");
    queries.wait_for(4, A_FEW)?;
    postgres.thaw()?;
    push(&cluster, "after", "after", &[4, 5]).or_else(|_| {
        eventually("a push after the return", LIMIT, || push(&cluster, "after", "after", &[4, 5]))
    })?;
    load(&cluster, "after")?;
    is_counted(&cluster, "after", 2)?;
    is_counted(&cluster, "before", 3)?;
    ensure!(active(&first).is_ok() != active(&second).is_ok(), "one is active");
    queries.finish()?.check()
}

/// A metastore in SQLite moves to PostgreSQL, with a backup on the way, and nothing is lost.
#[test]
fn a_metastore_moves_from_sqlite_to_postgresql() -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let options = || ClusterOptions { data_dir: Some(data.path().join("data")), ..ClusterOptions::default() };
    let file = data.path().join("meta.backup");
    let file = file.to_string_lossy();
    let cluster = Cluster::start(options())?;
    push(&cluster, "numbers", "numbers", &[1, 2, 3, 4])?;
    load(&cluster, "numbers")?;
    cluster.run(&["metastore", "backup", &file])?;
    ensure!(cluster.run(&["metastore", "check", &file])?.contains("1 segments"), "it is in the backup");
    let again = cluster.pointsman(&["metastore", "backup", &file]).output()?;
    ensure!(again.status.code() == Some(1), "a backup is not replaced: {again:?}");
    let held = cluster.pointsman(&["metastore", "restore", &file, "--force"]).output()?;
    let text = String::from_utf8_lossy(&held.stderr).into_owned();
    ensure!(held.status.code() == Some(75) && text.contains("holds the lease"), "{held:?}");
    let sqlite = format!("sqlite:{}", cluster.data_dir().join("meta.db").display());
    drop(cluster);

    let postgres = Postgres::start()?;
    let pointsman = |args: &[&str]| {
        let output =
            std::process::Command::new(pointsman_testkit::program("pointsman")?).args(args).output()?;
        ensure!(output.status.success(), "{}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    pointsman(&["metastore", "copy", "--from", &sqlite, "--to", &postgres.url()])?;
    let cluster = Cluster::start(ClusterOptions { metastore: Some(postgres.url()), ..options() })?;
    is_counted(&cluster, "numbers", 4)?;
    push(&cluster, "more", "more", &[5])?;
    drop(cluster);
    pointsman(&["metastore", "restore", &file, "--metastore", &postgres.url(), "--force"])?;
    let cluster = Cluster::start(ClusterOptions { metastore: Some(postgres.url()), ..options() })?;
    is_counted(&cluster, "numbers", 4)?;
    let more = cluster.sql().ask("SELECT count(*) FROM more")?;
    ensure!(more.code().is_some(), "it is not in the backup: {more:?}");
    Ok(())
}
