//! Nodes that hold their sockets and say nothing.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use pointsman_testkit::{Cluster, Network, NodeView, QueryLoop, Sql, eventually};

use super::{A_FEW, LIMIT, QUERIES};

const NODE: &str = "n1";
const KEY: &str = "local/n1";

/// Deadline of the queries: far beyond the time in which silence is found.
const DEADLINE: Duration = Duration::from_secs(40);

/// Time that is left until a probe when one is certainly not under way.
const CALM: u64 = 1_000;

const PROBES: &str = "pointsman_broker_probes_total";
const INCLUSIONS: &str = "pointsman_broker_node_inclusions_total";
const HEALTHY: &str = "result=\"healthy\"";
const UNHEALTHY: &str = "result=\"unhealthy\"";
const BY_PROBE: &str = "reason=\"probe\"";

/// BR-7: a node that is stopped under load is found by keep-alive and not by deadlines, costs no answer, is asked for
/// nothing from then on, and is back by its next probe once it goes on.
#[test]
fn a_stopped_node_is_found_under_load_and_comes_back() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    under_load(&cluster, || cluster.freeze_node(NODE), || cluster.thaw_node(NODE))
}

/// BR-7 for a network that drops everything and closes nothing.
#[test]
fn a_silent_network_is_found_under_load_and_the_node_comes_back() -> anyhow::Result<()> {
    let mut cluster = super::tpch()?;
    let relay = cluster.relay_node(NODE)?;
    super::wait_whole(&cluster)?;
    let set = |network| {
        relay.set(network);
        Ok(())
    };
    under_load(&cluster, || set(Network::Silent), || set(Network::Up))
}

/// BR-7 without any query: an idle connection that misses its keep-alive is no proof, so one probe is asked, and its
/// silence is.
#[test]
fn a_silent_network_is_found_without_load_by_one_probe() -> anyhow::Result<()> {
    let mut cluster = super::tpch()?;
    let relay = cluster.relay_node(NODE)?;
    super::wait_whole(&cluster)?;
    let sql = cluster.sql();
    // Leaves an open connection to every node.
    for query in QUERIES {
        sql.query(query)?;
    }
    let failed = sql.metric(PROBES, &[UNHEALTHY])?;
    relay.set(Network::Silent);
    let node = excluded(&sql, Instant::now())?;
    ensure!(sql.metric(PROBES, &[UNHEALTHY])? >= failed + 1.0, "no probe was asked");
    ensure!(node.evidence.as_ref().is_some_and(|text| text.contains("probe")), "{node:?}");
    not_asked(&sql)?;
    back_by_the_next_probe(&sql, || {
        relay.set(Network::Up);
        Ok(())
    })
}

fn under_load(
    cluster: &Cluster,
    silence: impl FnOnce() -> anyhow::Result<()>,
    end: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let sql = Sql::with_deadline(&cluster.ready().broker.http, DEADLINE);
    let queries = QueryLoop::start(sql.clone(), &QUERIES)?;
    queries.wait_for(8, A_FEW)?;
    silence()?;
    let node = excluded(&sql, Instant::now())?;
    // Which call notices first depends on the moment: one that waits, one that connects, or a probe of an idle connection.
    ensure!(
        node.evidence.as_ref().is_some_and(|text| !text.contains("suspicions in a row")),
        "by deadlines, not by its connection: {node:?}"
    );
    queries.wait_for(4, A_FEW)?;
    let report = queries.finish()?;
    report.check()?;
    let longest = report.quantile(1.0);
    note(format_args!("the longest of {} queries took {} ms", report.asked, longest.as_millis()));
    ensure!(longest < DEADLINE, "a query waited for its deadline");
    eventually("nothing is in flight", LIMIT, || {
        let in_flight = sql.metric("pointsman_broker_node_in_flight", &[])?;
        ensure!(in_flight < 0.5, "{in_flight} calls");
        Ok(())
    })?;
    not_asked(&sql)?;
    back_by_the_next_probe(&sql, end)
}

/// Waits until the node is excluded, and tells how long that took by the broker's own account.
fn excluded(sql: &Sql, since: Instant) -> anyhow::Result<NodeView> {
    let node = eventually("the node is excluded", DEADLINE / 2, || {
        let node = sql.node(KEY)?;
        node.excluded()?;
        Ok(node)
    })?;
    let silent =
        since.elapsed().saturating_sub(Duration::from_millis(node.excluded_for_ms.unwrap_or_default()));
    note(format_args!("excluded {} ms after it fell silent: {:?}", silent.as_millis(), node.evidence));
    Ok(node)
}

/// No query asks the node: none has a node that failed, and so none can wait for it.
fn not_asked(sql: &Sql) -> anyhow::Result<()> {
    for query in QUERIES.iter().cycle().take(2 * QUERIES.len()) {
        let answer = sql.query(query)?;
        ensure!(
            answer.coverage["nodes_failed"] == 0,
            "a query asked a node that is known to be silent: {answer:?}"
        );
    }
    sql.node(KEY)?.excluded().map(drop)
}

/// Ends the silence between two probes; the very next one brings the node back.
fn back_by_the_next_probe(sql: &Sql, end: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let waiting = eventually("a failed probe, and time until the next", LIMIT, || {
        let node = sql.node(KEY)?;
        node.excluded()?;
        ensure!(node.tries > 0 && node.next_probe_in_ms.is_some_and(|next| next > CALM), "{node:?}");
        Ok(node)
    })?;
    let before = counts(sql)?;
    end()?;
    let next = Duration::from_millis(waiting.next_probe_in_ms.context("a next probe")?);
    let since = Instant::now();
    eventually("the node is routable", next + LIMIT, || sql.node(KEY)?.routable().map(drop))?;
    let took = since.elapsed().as_millis();
    note(format_args!("back after {took} ms; its next probe was {} ms away", next.as_millis()));
    let after = counts(sql)?;
    let more: Vec<f64> = after.iter().zip(before).map(|(after, before)| (after - before).round()).collect();
    ensure!(more == [1.0, 0.0, 1.0], "healthy, unhealthy probes and inclusions by probe: {more:?} more");
    sql.query(QUERIES[1]).map(drop)
}

/// Probes that were answered well, those that were not, and inclusions by probe.
fn counts(sql: &Sql) -> anyhow::Result<[f64; 3]> {
    Ok([
        sql.metric(PROBES, &[HEALTHY])?,
        sql.metric(PROBES, &[UNHEALTHY])?,
        sql.metric(INCLUSIONS, &[BY_PROBE])?,
    ])
}

/// A figure for whoever runs the tests with their output shown; nothing is asserted of it.
#[expect(clippy::print_stdout, reason = "tests may print")]
fn note(text: fmt::Arguments<'_>) {
    println!("{text}");
}
