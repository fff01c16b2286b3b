//! What the whole product promises, seen from outside. One program, so that it is linked once; each test is its own
//! process under nextest and starts the cluster that it needs.

mod coordinator;
mod dev;
mod faults;
mod own_data;
mod refusals;
mod tpch;

use std::time::Duration;

use pointsman_testkit::{Cluster, ClusterOptions};

/// Longest time until a load, a recovery or the like is through.
const LIMIT: Duration = Duration::from_secs(60);

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
    Cluster::start(ClusterOptions { sample: Some("tpch:0.01".into()), ..ClusterOptions::default() })
}
