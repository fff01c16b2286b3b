//! A node that the coordinator does not hear any more.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use pointsman_testkit::{Cluster, Network, QueryLoop, eventually};
use serde_json::Value;

use super::{A_FEW, LIMIT, QUERIES};

const NODE: &str = "n1";
const KEY: &str = "local/n1";

/// BR-10: a node whose way to the coordinator is cut is lost there but not gone: the broker looks for itself at once, and
/// asks on. Its copies leave only as others take their place, so no answer is short; later it is itself again.
#[test]
fn a_node_lost_by_the_coordinator_answers_on() -> anyhow::Result<()> {
    let mut cluster = super::tpch_with(&[("POINTSMAN_COORDINATOR__NODE_LEASE_TTL", "3s")])?;
    let relay = cluster.relay_coordinator()?;
    let coordinators = format!("[\"{}\"]", relay.url());
    let sql = cluster.sql();
    let former = sql.node(KEY)?.incarnation;
    cluster.kill_node(NODE)?;
    cluster.restart_node_with(NODE, &[("POINTSMAN_NODE__COORDINATORS", &coordinators)])?;
    eventually("the node's new process", LIMIT, || {
        let node = sql.node(KEY)?;
        ensure!(node.incarnation > former, "{node:?}");
        node.routable().map(drop)
    })?;
    super::wait_whole(&cluster)?;

    let queries = QueryLoop::start(sql.clone(), &QUERIES)?;
    queries.wait_for(4, A_FEW)?;
    let healthy = || sql.metric("pointsman_broker_probes_total", &["result=\"healthy\""]);
    let before = healthy()?;
    relay.set(Network::Silent);
    eventually("the broker hears that the node is lost", LIMIT, || {
        let node = sql.node(KEY)?;
        ensure!(node.lost, "{node:?}");
        Ok(())
    })?;
    eventually("the broker has looked for itself", LIMIT, || {
        ensure!(healthy()? > before, "no probe");
        Ok(())
    })?;
    let node = sql.node(KEY)?;
    ensure!(node.enabled, "lost is not gone: {node:?}");
    node.routable()?;
    queries.wait_for(4, A_FEW)?;
    eventually("another node holds its segments", LIMIT, || {
        let nodes = holders(&cluster, "lineitem")?;
        ensure!(!nodes.contains(NODE), "held by {nodes:?}");
        Ok(())
    })?;
    queries.wait_for(4, A_FEW)?;

    relay.set(Network::Up);
    eventually("the node is back", LIMIT, || {
        let node = sql.node(KEY)?;
        ensure!(!node.lost, "{node:?}");
        node.routable().map(drop)
    })?;
    queries.wait_for(4, A_FEW)?;
    queries.finish()?.check()
}

/// Nodes that a collection's segments may be asked of.
fn holders(cluster: &Cluster, collection: &str) -> anyhow::Result<BTreeSet<String>> {
    let (_, text) = cluster.sql().get(&format!("/debug/routing/{collection}"))?;
    let routing: Value = serde_json::from_str(&text)?;
    let segments = routing["segments"].as_array().context("segments in the broker's view")?;
    let copies = segments.iter().flat_map(|segment| segment["candidates"].as_array().into_iter().flatten());
    Ok(copies.filter_map(|copy| copy["node"].as_str()).map(str::to_owned).collect())
}
