//! Queries go on while nodes fail: none fails, none is partial, none is wrong.

use std::time::Duration;

use anyhow::ensure;
use pointsman_testkit::{QueryLoop, pause};

use super::{A_FEW, QUERIES};

/// BR-1: a node killed under a query costs time, never an answer; also while it is started again. One at a time, so
/// that every segment keeps a replica.
#[test]
fn queries_go_on_while_nodes_are_killed_and_restarted() -> anyhow::Result<()> {
    let mut cluster = super::tpch()?;
    let queries = QueryLoop::start(cluster.sql(), &QUERIES)?;
    for name in cluster.node_names() {
        cluster.kill_node(&name)?;
        queries.wait_for(8, A_FEW)?;
        cluster.restart_node(&name)?;
        // The next one may go only when this one serves again, or a segment would have no replica.
        super::wait_whole(&cluster)?;
        queries.wait_for(4, A_FEW)?;
    }
    queries.finish()?.check()
}

/// BR-2: a node that hangs is noticed by keep-alive, and its queries go elsewhere within their deadline.
#[test]
fn queries_go_on_while_a_node_hangs() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    let queries = QueryLoop::start(cluster.sql(), &QUERIES)?;
    cluster.freeze_node("n1")?;
    queries.wait_for(8, A_FEW)?;
    pause(Duration::from_secs(6));
    cluster.thaw_node("n1")?;
    queries.wait_for(8, A_FEW)?;
    queries.finish()?.check()
}

/// BR-3: without any replica the answer says what is missing. It is partial, never silently short.
#[test]
fn a_segment_without_a_live_replica_is_reported() -> anyhow::Result<()> {
    let mut cluster = super::tpch()?;
    for name in cluster.node_names() {
        cluster.kill_node(&name)?;
    }
    let answer = cluster.sql().ask("SELECT count(*) FROM lineitem WHERE l_quantity > 1")?;
    ensure!(answer.code().is_some(), "an answer without nodes: {answer:?}");
    ensure!(answer.partial_result || answer.result_table.is_none(), "{answer:?}");
    Ok(())
}
