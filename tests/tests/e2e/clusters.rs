//! One broker over two clusters.

use std::time::Duration;

use anyhow::ensure;
use pointsman_testkit::{Answer, Cluster, ClusterOptions, Network, QueryLoop, Relay, Sql, eventually};
use serde_json::json;

use super::{A_FEW, LIMIT};

const REMOTE_CLUSTERS: &str = "POINTSMAN_BROKER__REMOTE_CLUSTERS";
const INITIAL_DELAY: &str = "POINTSMAN_BROKER__FAILURE_DETECTOR__INITIAL_DELAY";

/// Both parts of the spanning collection, and the local one.
const SQL: &str = "SELECT count(*), sum(n) FROM spanning";
const WHOLE: [u64; 2] = [5, 66];
const LOCAL: [u64; 2] = [3, 6];

/// `cluster_not_connected`, as answers have it.
const NOT_CONNECTED: i64 = 510;

/// Two clusters, `local` and `east`, whose nodes have the same names, and a collection with segments in both.
struct Two {
    local: Cluster,
    east: Cluster,
    /// Between the broker of `local` and the coordinator of `east`.
    relay: Relay,
}

impl Two {
    /// Starts both; the broker of `local` starts when the way to the other coordinator is in this state.
    fn start(network: Network) -> anyhow::Result<Self> {
        let start = |name: &str| {
            Cluster::start(ClusterOptions { nodes: 2, name: Some(name.into()), ..ClusterOptions::default() })
        };
        let (mut local, east) = (start("local")?, start("east")?);
        for (cluster, clusters) in [(&local, &["--clusters", "local,east"][..]), (&east, &[])] {
            let create = ["collection", "create", "spanning", "--column", "n bigint"];
            cluster.run(&[&create, clusters].concat())?;
        }
        super::push(&local, "spanning", "here-1", &[1, 2])?;
        super::push(&local, "spanning", "here-2", &[3])?;
        super::push(&east, "spanning", "there-1", &[20, 40])?;
        super::load(&local, "spanning")?;
        super::load(&east, "spanning")?;
        let relay = east.relay_coordinator()?;
        relay.set(network);
        let remote = format!("[{{name=\"east\",coordinators=[\"{}\"]}}]", relay.url());
        local.kill_broker()?;
        local.restart_broker_with(&[(REMOTE_CLUSTERS, &remote), (INITIAL_DELAY, "1s")])?;
        Ok(Self { local, east, relay })
    }

    fn sql(&self) -> Sql {
        self.local.sql()
    }
}

/// BR-8: parts of a collection in several clusters are one answer. A remote node that fails is excluded there and nowhere
/// else, probed, and taken back; no answer suffers.
#[test]
fn a_failing_remote_node_is_excluded_probed_and_taken_back() -> anyhow::Result<()> {
    let mut two = Two::start(Network::Up)?;
    let sql = two.sql();
    eventually("an answer from both clusters", LIMIT, || is(&sql.query(SQL)?, WHOLE))?;
    let node = two.east.relay_node("n2")?;
    two.east.wait_routable("spanning", 2, LIMIT)?;
    two.local.wait_routable("spanning", 2, LIMIT)?;
    eventually("remote queries go through the relay", LIMIT, || asked(&sql, &node))?;

    let queries = QueryLoop::start(sql.clone(), &[SQL])?;
    queries.wait_for(4, A_FEW)?;
    node.set(Network::Refused);
    eventually("the remote node is excluded and probed in vain", LIMIT, || {
        let node = sql.node("east/n2")?;
        node.excluded()?;
        ensure!(node.enabled && node.tries > 0 && node.evidence.is_some(), "{node:?}");
        Ok(())
    })?;
    sql.node("local/n2")?.routable()?;
    queries.wait_for(8, A_FEW)?;
    let by_probe = || sql.metric("pointsman_broker_node_inclusions_total", &["reason=\"probe\""]);
    let before = by_probe()?;
    node.set(Network::Up);
    eventually("the remote node is routable", LIMIT, || sql.node("east/n2")?.routable().map(drop))?;
    ensure!(by_probe()? >= before + 1.0, "not by a probe");
    eventually("it is asked again", LIMIT, || asked(&sql, &node))?;
    queries.wait_for(4, A_FEW)?;
    queries.finish()?.check()
}

/// BR-9: a cluster that never connected is missed in the answer and comes later; one that was lost later is routed as it
/// was, and the coverage tells how old that is.
#[test]
fn a_remote_cluster_may_be_away_at_the_start_and_later() -> anyhow::Result<()> {
    let two = Two::start(Network::Refused)?;
    let sql = two.sql();
    let answer = eventually("an answer of the local part", LIMIT, || {
        let answer = sql.ask(SQL)?;
        is(&answer, LOCAL)?;
        Ok(answer)
    })?;
    let missed = answer.exceptions.iter().find(|exception| exception.error_code == NOT_CONNECTED);
    ensure!(missed.is_some_and(|missed| missed.message.contains("east")), "east is not missed: {answer:?}");
    let counted =
        sql.metric("pointsman_broker_partial_answers_total", &["cause=\"cluster_not_connected\""])?;
    ensure!(counted >= 1.0, "the answers that lack it are not counted");

    two.relay.set(Network::Up);
    eventually("an answer from both clusters", LIMIT, || {
        let answer = sql.query(SQL)?;
        is(&answer, WHOLE)?;
        ensure!(answer.coverage["routing_age"] == json!({}), "{answer:?}");
        Ok(())
    })?;

    let queries = QueryLoop::start(sql.clone(), &[SQL])?;
    two.relay.set(Network::Refused);
    eventually("the coverage tells the age of what is known", LIMIT, || {
        let answer = sql.query(SQL)?;
        is(&answer, WHOLE)?;
        let ages = &answer.coverage["routing_age"];
        ensure!(ages["east"].is_u64() && ages.get("local").is_none(), "{answer:?}");
        Ok(())
    })?;
    queries.wait_for(8, A_FEW)?;
    two.relay.set(Network::Up);
    eventually("it is connected again", Duration::from_secs(60), || {
        let answer = sql.query(SQL)?;
        ensure!(answer.coverage["routing_age"] == json!({}), "{answer:?}");
        Ok(())
    })?;
    queries.finish()?.check()
}

/// Rows and sum.
fn is(answer: &Answer, expected: [u64; 2]) -> anyhow::Result<()> {
    ensure!(answer.rows()? == [expected.map(|number| json!(number)).to_vec()], "{answer:?}");
    Ok(())
}

/// A query that reaches the node behind the relay; several, since nodes take turns.
fn asked(sql: &Sql, relay: &Relay) -> anyhow::Result<()> {
    let before = relay.requests();
    for _ in 0..4 {
        is(&sql.query(SQL)?, WHOLE)?;
    }
    ensure!(relay.requests() > before, "no request has come");
    Ok(())
}
