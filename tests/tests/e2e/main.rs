//! What the whole product promises, seen from outside. One program, so that it is linked once; each test is its own
//! process under nextest and starts the cluster that it needs.

mod clusters;
mod coordinator;
mod dev;
mod disabled;
mod fail_open;
mod failover;
mod faults;
mod groups;
mod load_cycle;
mod lost;
mod operator;
mod own_data;
mod pinotdb;
mod ready;
mod refusals;
mod replay;
mod rolling;
mod shard_faults;
mod silence;
mod tpch;
mod uneven_loads;
mod vectors;

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::{Context, ensure};
use pointsman_testkit::{Answer, Cluster, ClusterOptions, Network, Relay};

/// Longest time until a load, a recovery or the like is through.
const LIMIT: Duration = Duration::from_secs(60);

/// Longest time for a few queries of a loop, a fault among them.
const A_FEW: Duration = Duration::from_secs(60);

/// Makes a first probe come long after every test, so that what was excluded stays so.
const LATE_PROBES: (&str, &str) = ("POINTSMAN_BROKER__FAILURE_DETECTOR__INITIAL_DELAY", "10m");

/// Queries for loops: one stage, two stages, joins with shuffles.
const QUERIES: [&str; 4] = [
    "SELECT count(*), sum(l_quantity), min(l_shipdate) FROM lineitem WHERE l_discount > 0.05",
    "SELECT l_returnflag, count(*), sum(l_extendedprice) FROM lineitem GROUP BY l_returnflag",
    "SELECT o_orderpriority, count(*) FROM orders WHERE o_totalprice > 100000 GROUP BY o_orderpriority",
    "SELECT n_name, count(*), sum(o_totalprice) FROM orders JOIN customer ON o_custkey = c_custkey \
     JOIN nation ON c_nationkey = n_nationkey GROUP BY n_name",
];

/// Four nodes in two groups, with a small TPC-H loaded in both.
fn tpch() -> anyhow::Result<Cluster> {
    tpch_with(&[])
}

/// The same with variables that overlay the settings of every component.
fn tpch_with(variables: &[(&str, &str)]) -> anyhow::Result<Cluster> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Cluster::start(ClusterOptions {
        sample: Some("tpch:0.01".into()),
        variables: variables.collect(),
        ..ClusterOptions::default()
    })
}

/// Until the broker can ask two nodes for every segment of the looped queries.
fn wait_whole(cluster: &Cluster) -> anyhow::Result<()> {
    let tables = ["lineitem", "orders", "customer", "nation"];
    tables.iter().try_for_each(|table| cluster.wait_routable(table, 2, LIMIT))
}

/// Puts every node behind a relay of its own.
fn behind_relays(cluster: &mut Cluster) -> anyhow::Result<BTreeMap<String, Relay>> {
    let names = cluster.node_names().into_iter();
    let relays = names.map(|name| Ok((name.clone(), cluster.relay_node(&name)?)));
    let relays = relays.collect::<anyhow::Result<_>>()?;
    wait_whole(cluster)?;
    Ok(relays)
}

/// What the network does to all of these nodes.
fn set<'a>(relays: impl IntoIterator<Item = &'a Relay>, network: Network) {
    relays.into_iter().for_each(|relay| relay.set(network));
}

/// Pushes a segment with these numbers in column `n` to a collection, which is created if need be.
fn push(cluster: &Cluster, collection: &str, segment: &str, numbers: &[u64]) -> anyhow::Result<()> {
    let csv = cluster.data_dir().join(format!("{segment}.csv"));
    let lines: String = numbers.iter().map(|number| format!("{number}\n")).collect();
    fs::write(&csv, format!("n\n{lines}"))?;
    cluster.run(&["segment", "push", "--collection", collection, &csv.to_string_lossy()]).map(drop)
}

/// Loads a collection in the groups of [`ClusterOptions::default`].
fn load(cluster: &Cluster, collection: &str) -> anyhow::Result<()> {
    cluster
        .run(&["load", collection, "--resource-groups", "east,west", "--wait", "--timeout", "60s"])
        .map(drop)
}

/// The answer is partial, says so by 305, and each segment that it names has this cause.
fn is_partial(answer: &Answer, cause: &str) -> anyhow::Result<()> {
    let named = answer.coverage["unavailable"].as_array().context("unavailable segments")?;
    ensure!(answer.partial_result && !named.is_empty(), "it is not partial: {answer:?}");
    ensure!(named.iter().all(|segment| segment["cause"] == cause), "not all for {cause}: {answer:?}");
    let exception = answer.exceptions.iter().find(|exception| exception.error_code == 305);
    let text = &exception.with_context(|| format!("no 305: {answer:?}"))?.message;
    for segment in named {
        let name = segment["segment"].as_str().context("a segment's name")?;
        ensure!(text.contains(name), "305 does not name {name}: {text}");
    }
    Ok(())
}
