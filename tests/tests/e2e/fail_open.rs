//! Every replica excluded by mistake: fail-open answers, and without it the answer says what is missing.

use anyhow::ensure;
use pointsman_testkit::{Answer, Cluster, Network, Sql, eventually};
use serde_json::json;

use super::{LATE_PROBES, LIMIT, QUERIES, is_partial};

/// What fails open, and how often it did.
const REQUESTS: &str = "pointsman_broker_fail_open_requests_total";

/// Fewest milliseconds to the next probe that show that none has come.
const FAR: u64 = 60_000;

/// BR-5: with all nodes excluded but well, answers are whole by fail-open where it is on, and name what is missing where
/// it is off: by the cluster's configuration, at the next request, or for a collection that is closed.
#[test]
fn excluded_nodes_are_asked_while_fail_open_is_on() -> anyhow::Result<()> {
    let mut cluster = super::tpch_with(&[LATE_PROBES])?;
    cluster.run(&["collection", "create", "closed", "--column", "n bigint", "--fail-closed"])?;
    super::push(&cluster, "closed", "closed-1", &[1, 2, 3])?;
    super::load(&cluster, "closed")?;
    let relays = super::behind_relays(&mut cluster)?;
    cluster.wait_routable("closed", 2, LIMIT)?;
    let sql = cluster.sql();
    let rights: Vec<_> =
        QUERIES.iter().map(|query| sql.query(query)?.comparable()).collect::<anyhow::Result<_>>()?;
    let right = &rights[1];
    ensure!(sql.query("SELECT sum(n) FROM closed")?.rows()? == [vec![json!(6)]]);

    super::set(relays.values(), Network::Refused);
    let cut = sql.ask(QUERIES[1])?;
    ensure!(cut.code().is_some(), "an answer through a cut network: {cut:?}");
    eventually("all nodes are excluded", LIMIT, || all_excluded(&sql))?;
    super::set(relays.values(), Network::Up);

    let counted = sql.metric(REQUESTS, &["collection=\"lineitem\""])?;
    let answer = sql.query(QUERIES[1])?;
    ensure!(answer.comparable()? == *right, "another answer: {answer:?}");
    ensure!(fail_open(&answer) > 0, "not by fail-open: {answer:?}");
    ensure!(fail_open(&answer) == answer.coverage["segments_asked"].as_u64().unwrap_or_default());
    ensure!(sql.metric(REQUESTS, &["collection=\"lineitem\""])? >= counted + 1.0);
    // Upper stages of joins go to nobody either.
    QUERIES.iter().zip(&rights).try_for_each(|(query, right)| whole(&sql, query, right))?;
    all_excluded(&sql)?;
    let nodes = cluster.node_names().len() as f64;
    for (metric, expected) in [("unhealthy_nodes", nodes), ("enabled_nodes", nodes), ("routable_nodes", 0.0)]
    {
        let value = sql.metric(&format!("pointsman_broker_{metric}"), &[])?;
        ensure!((value - expected).abs() < 0.5, "{metric} is {value} instead of {expected}");
    }
    // Closed to a request of several stages unless a switch of its own is on.
    let staged = json!({"sql": QUERIES[1], "queryOptions": "useMultistageEngine=true;timeoutMs=30000"});
    let (_, text) = sql.post("/query/sql", &staged.to_string())?;
    is_partial(&serde_json::from_str(&text)?, "all_excluded")?;

    switch(&cluster, &["set", "broker.fail_open.enabled", "false"])?;
    eventually("fail-open off", LIMIT, || is_partial(&sql.ask(QUERIES[1])?, "all_excluded"))?;
    switch(&cluster, &["set", "broker.fail_open.enabled", "TRUE"])?;
    eventually("fail-open on", LIMIT, || whole(&sql, QUERIES[1], right))?;
    switch(&cluster, &["set", "broker.fail_open.enabled", "false"])?;
    eventually("fail-open off again", LIMIT, || is_partial(&sql.ask(QUERIES[1])?, "all_excluded"))?;
    switch(&cluster, &["unset", "broker.fail_open.enabled"])?;
    eventually("the broker's own value, which is on", LIMIT, || whole(&sql, QUERIES[1], right))?;

    is_partial(&sql.ask("SELECT sum(n) FROM closed")?, "all_excluded")?;
    ensure!(sql.metric(REQUESTS, &["collection=\"closed\""])? < 1.0);
    all_excluded(&sql)
}

/// A whole answer, equal to the right one and by fail-open.
fn whole(sql: &Sql, query: &str, right: &[String]) -> anyhow::Result<()> {
    let answer = sql.query(query)?;
    ensure!(answer.comparable()? == right && fail_open(&answer) > 0, "{answer:?}");
    Ok(())
}

fn fail_open(answer: &Answer) -> u64 {
    answer.coverage["segments_fail_open"].as_u64().unwrap_or_default()
}

/// Every node is excluded, for a cause, and no probe has been near it.
fn all_excluded(sql: &Sql) -> anyhow::Result<()> {
    for node in sql.nodes()? {
        node.excluded()?;
        ensure!(node.enabled && node.evidence.as_ref().is_some_and(|text| !text.is_empty()), "{node:?}");
        ensure!(node.tries == 0 && node.next_probe_in_ms.is_some_and(|next| next > FAR), "{node:?}");
    }
    Ok(())
}

fn switch(cluster: &Cluster, args: &[&str]) -> anyhow::Result<()> {
    cluster.run(&[&["config"], args].concat()).map(drop)
}
