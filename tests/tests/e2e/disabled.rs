//! What an operator has switched off is left alone.

use anyhow::ensure;
use pointsman_testkit::{Cluster, Network, QueryLoop, Relay, Sql, eventually};
use serde_json::Value;

use super::{A_FEW, LATE_PROBES, LIMIT, QUERIES};

/// The node that is disabled.
const NODE: &str = "n1";
const KEY: &str = "local/n1";

/// Connections and requests that a node has had.
fn contacts(relay: &Relay) -> (usize, usize) {
    (relay.opened(), relay.requests())
}

/// BR-6: nothing contacts a disabled node: no query, no probe, no other node; not when nobody else is left, and not after
/// it or the coordinator has started again.
#[test]
fn a_disabled_node_is_never_contacted() -> anyhow::Result<()> {
    let mut cluster = super::tpch_with(&[LATE_PROBES])?;
    let relays = super::behind_relays(&mut cluster)?;
    let sql = cluster.sql();
    let relay = &relays[NODE];
    let others = || relays.iter().filter(|(name, _)| *name != NODE).map(|(_, relay)| relay);

    let idle = relay.requests();
    let right = ask_all(&sql)?;
    ensure!(relay.requests() > idle, "the relay counts nothing: this test proves nothing");

    cluster.run(&["node", "disable", NODE])?;
    eventually("the broker knows", LIMIT, || enabled(&sql, false))?;
    let before = contacts(relay);
    for _ in 0..3 {
        ensure!(ask_all(&sql)? == right);
    }
    ensure!(contacts(relay) == before, "queries: {:?} after {before:?}", contacts(relay));

    super::set(others(), Network::Refused);
    ensure!(sql.ask(QUERIES[0])?.code().is_some(), "an answer from nobody");
    eventually("all others are excluded", LIMIT, || {
        let nodes = sql.nodes()?;
        nodes.iter().filter(|node| node.node != NODE).try_for_each(|node| node.excluded().map(drop))
    })?;
    ensure!(sql.ask("SELECT count(*) FROM orders")?.partial_result, "an answer from nobody");
    ensure!(contacts(relay) == before, "with nobody left: {:?} after {before:?}", contacts(relay));

    super::set(others(), Network::Up);
    let answer = sql.query(QUERIES[0])?;
    ensure!(answer.coverage["segments_fail_open"] != 0, "not by fail-open: {answer:?}");
    ensure!(contacts(relay) == before, "by fail-open: {:?} after {before:?}", contacts(relay));

    restart(&mut cluster, &sql)?;
    ensure!(sql.query(QUERIES[0])?.comparable()? == right[0]);
    ensure!(contacts(relay) == before, "after restarts: {:?} after {before:?}", contacts(relay));

    cluster.run(&["node", "enable", NODE])?;
    eventually("queries go to it again", LIMIT, || {
        enabled(&sql, true)?;
        ensure!(sql.query(QUERIES[0])?.comparable()? == right[0]);
        ensure!(relay.requests() > before.1, "no request after {before:?}");
        Ok(())
    })
}

/// BR-6 under load: switching nodes off and on, one at a time, costs no answer.
#[test]
fn switching_nodes_off_and_on_costs_no_answer() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    super::wait_whole(&cluster)?;
    let sql = cluster.sql();
    let queries = QueryLoop::start(sql.clone(), &QUERIES)?;
    for name in cluster.node_names() {
        let key = format!("local/{name}");
        let is = |expected: bool| {
            let node = sql.node(&key)?;
            ensure!(node.enabled == expected && node.routable == expected, "{node:?}");
            Ok(())
        };
        cluster.run(&["node", "disable", &name])?;
        eventually("the broker knows", LIMIT, || is(false))?;
        queries.wait_for(QUERIES.len(), A_FEW)?;
        cluster.run(&["node", "enable", &name])?;
        eventually("the broker knows", LIMIT, || is(true))?;
        queries.wait_for(QUERIES.len(), A_FEW)?;
    }
    queries.finish()?.check()
}

/// The answers to the looped queries.
fn ask_all(sql: &Sql) -> anyhow::Result<Vec<Vec<String>>> {
    QUERIES.iter().map(|query| sql.query(query)?.comparable()).collect()
}

fn enabled(sql: &Sql, expected: bool) -> anyhow::Result<()> {
    let node = sql.node(KEY)?;
    ensure!(node.enabled == expected, "{node:?}");
    Ok(())
}

/// Starts the node again, then the coordinator, until the broker has heard of both; the node is disabled all the time.
fn restart(cluster: &mut Cluster, sql: &Sql) -> anyhow::Result<()> {
    let former = sql.node(KEY)?.incarnation;
    cluster.kill_node(NODE)?;
    cluster.restart_node(NODE)?;
    eventually("the node's new process", LIMIT, || {
        let node = sql.node(KEY)?;
        ensure!(node.incarnation > former, "{node:?}");
        Ok(())
    })?;
    enabled(sql, false)?;
    cluster.kill_coordinator()?;
    cluster.restart_coordinator()?;
    let again = || cluster.run(&["node", "list", "--json"]);
    eventually("the coordinator knows the node again", LIMIT, || {
        let nodes: Value = serde_json::from_str(&again()?)?;
        let found = nodes.as_array().and_then(|nodes| nodes.iter().find(|node| node["name"] == NODE));
        ensure!(found.is_some_and(|node| node["state"] == "live" && node["switched_on"] == false), "{nodes}");
        Ok(())
    })?;
    eventually("the broker listens again", LIMIT, || {
        let (_, text) = sql.get("/ready")?;
        let ready: Value = serde_json::from_str(&text)?;
        ensure!(ready["connected"] == true, "{text}");
        Ok(())
    })?;
    enabled(sql, false)
}
