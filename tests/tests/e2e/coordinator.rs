//! Queries do not need the coordinator, nor its database.

use std::{fs, time::Duration};

use anyhow::ensure;
use pointsman_testkit::{Cluster, ClusterOptions, Postgres, QueryLoop, eventually, pause};
use serde_json::json;

use super::{A_FEW, LIMIT, QUERIES};

/// The broker writes a changed snapshot at most every 5 s: what was said so long ago is on its disk.
const STORED_WITHIN: Duration = Duration::from_secs(7);

/// CO-1: queries go on while the coordinator is away; after its return loads work, and nothing acknowledged is lost.
#[test]
fn the_coordinator_is_killed_and_restarted() -> anyhow::Result<()> {
    let mut cluster = super::tpch()?;
    push_and_load(&cluster, "before")?;
    let queries = QueryLoop::start(cluster.sql(), &QUERIES)?;
    cluster.kill_coordinator()?;
    queries.wait_for(8, A_FEW)?;
    cluster.restart_coordinator()?;
    eventually("a load after the restart", LIMIT, || push_and_load(&cluster, "after"))?;
    queries.wait_for(8, A_FEW)?;
    queries.finish()?.check()?;
    check(&cluster, "before")
}

/// CO-2: queries go on while PostgreSQL is away; afterwards loads work again, and nothing acknowledged is lost.
#[test]
fn postgres_is_stopped_and_started() -> anyhow::Result<()> {
    let mut postgres = Postgres::start()?;
    let cluster = Cluster::start(ClusterOptions {
        sample: Some("tpch:0.01".into()),
        metastore: Some(postgres.url()),
        ..ClusterOptions::default()
    })?;
    push_and_load(&cluster, "before")?;
    let queries = QueryLoop::start(cluster.sql(), &QUERIES)?;
    postgres.stop()?;
    queries.wait_for(4, A_FEW)?;
    pause(Duration::from_secs(12));
    queries.wait_for(4, A_FEW)?;
    postgres.start_again()?;
    eventually("a load after the return", LIMIT, || push_and_load(&cluster, "after"))?;
    queries.finish()?.check()?;
    check(&cluster, "before")
}

/// BR-4: a broker that starts while the coordinator is away answers from the snapshot on its disk.
#[test]
fn the_broker_restarts_without_a_coordinator() -> anyhow::Result<()> {
    let mut cluster = super::tpch()?;
    let right = cluster.sql().query(QUERIES[1])?.comparable()?;
    pause(STORED_WITHIN);
    cluster.kill_coordinator()?;
    cluster.kill_broker()?;
    cluster.restart_broker()?;
    let answer = eventually("an answer from the stored snapshot", LIMIT, || cluster.sql().query(QUERIES[1]))?;
    assert_eq!(answer.comparable()?, right);
    cluster.restart_coordinator()?;
    eventually("a load after the return", LIMIT, || push_and_load(&cluster, "after"))
}

fn push_and_load(cluster: &Cluster, collection: &str) -> anyhow::Result<()> {
    let csv = cluster.data_dir().join(format!("{collection}.csv"));
    fs::write(&csv, "n\n1\n2\n3\n")?;
    cluster.run(&["segment", "push", "--collection", collection, &csv.to_string_lossy()])?;
    cluster.run(&["load", collection, "--resource-groups", "east,west", "--wait", "--timeout", "30s"])?;
    check(cluster, collection)
}

fn check(cluster: &Cluster, collection: &str) -> anyhow::Result<()> {
    eventually(&format!("the rows of {collection}"), LIMIT, || {
        let answer = cluster.sql().query(&format!("SELECT sum(n) FROM {collection}"))?;
        ensure!(answer.rows()? == [vec![json!(6)]], "{answer:?}");
        Ok(())
    })
}
