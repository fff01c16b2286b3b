//! Leaving without gaps: rolling restarts under load, and what an operator is told on the way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

use anyhow::{Context, anyhow, ensure};
use pointsman_testkit::{Cluster, ClusterOptions, QueryLoop, Sql, eventually};
use serde_json::Value;

use super::{A_FEW, LIMIT, QUERIES};

/// Status of `node can-stop` for no.
const MAY_NOT: i32 = 4;

/// Queries without end over several brokers, of which those that a load balancer has taken out get none.
struct Clients {
    stop: Arc<AtomicBool>,
    /// Bit `i`: broker `i` is taken out.
    out: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Clients {
    fn start(brokers: &[Sql], clients: usize) -> anyhow::Result<Self> {
        let right: Vec<Vec<String>> = QUERIES
            .iter()
            .map(|query| brokers[0].query(query)?.comparable())
            .collect::<anyhow::Result<_>>()?;
        let (stop, out, asked) = (Arc::default(), Arc::<AtomicUsize>::default(), Arc::default());
        let client = |at: usize| {
            let (brokers, right) = (brokers.to_vec(), right.clone());
            let (stop, out, asked) = (Arc::clone(&stop), Arc::clone(&out), Arc::clone(&asked));
            std::thread::spawn(move || {
                let stop: &AtomicBool = &stop;
                let asked: &AtomicUsize = &asked;
                let mut wrong = Vec::new();
                let mut turn = at;
                while !stop.load(Ordering::Relaxed) {
                    turn += 1;
                    let (broker, query) = (turn % brokers.len(), turn % QUERIES.len());
                    if out.load(Ordering::SeqCst) & (1 << broker) != 0 {
                        continue;
                    }
                    if let Err(cause) = ask(&brokers[broker], QUERIES[query], &right[query]) {
                        wrong.push(format!("broker {broker}: {}: {cause:#}", QUERIES[query]));
                    }
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                wrong
            })
        };
        let threads = (0..clients).map(client).collect();
        Ok(Self { stop, out, asked, threads })
    }

    /// Until a few more queries have ended.
    fn go_on(&self) -> anyhow::Result<()> {
        let goal = self.asked.load(Ordering::Relaxed) + 2 * QUERIES.len();
        eventually("more queries", A_FEW, || {
            let asked = self.asked.load(Ordering::Relaxed);
            ensure!(asked >= goal, "{asked} of {goal}");
            Ok(())
        })
    }

    fn finish(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let mut wrong = Vec::new();
        for thread in self.threads {
            wrong.extend(thread.join().map_err(|_| anyhow!("a client panicked"))?);
        }
        let asked = self.asked.load(Ordering::Relaxed);
        ensure!(asked > 0 && wrong.is_empty(), "{} of {asked} queries: {wrong:#?}", wrong.len());
        Ok(())
    }
}

/// A whole answer, and the right one. Each on a connection of its own: one that a broker closes is not tried again.
fn ask(broker: &Sql, query: &str, right: &[String]) -> anyhow::Result<()> {
    let rows = broker.unpooled().query(query)?.comparable()?;
    ensure!(rows == right, "another answer: {rows:?} instead of {right:?}");
    Ok(())
}

/// A node as `node list` tells it.
fn listed(cluster: &Cluster, name: &str) -> anyhow::Result<Value> {
    let nodes: Value = serde_json::from_str(&cluster.run(&["node", "list", "--json"])?)?;
    let node = nodes.as_array().into_iter().flatten().find(|node| node["name"] == name);
    node.cloned().with_context(|| format!("no {name}: {nodes}"))
}

/// The node is back and every broker routes by that.
fn is_back(cluster: &Cluster, name: &str, former: &Value) -> anyhow::Result<()> {
    eventually(&format!("the return of {name}"), LIMIT, || {
        let node = listed(cluster, name)?;
        let back = node["state"] == "live" && node["enabled"] == true && node["routed"] == true;
        ensure!(back && node["drain"].is_null() && node["incarnation"] != former["incarnation"], "{node}");
        Ok(())
    })
}

/// What the operator's guide has for every node.
fn restart_node(cluster: &mut Cluster, name: &str) -> anyhow::Result<()> {
    let former = listed(cluster, name)?;
    cluster.run(&["node", "drain", name, "--wait", "--timeout", "60s"])?;
    let node = listed(cluster, name)?;
    ensure!(node["drain"] == "drained" && node["enabled"] == false, "{node}");
    let asked = cluster.run(&["node", "can-stop", name, "--lease", "--json"])?;
    let told: Value = serde_json::from_str(&asked)?;
    ensure!(told["may_stop"] == true && told["lease_ms"].as_u64() > Some(0), "{told}");
    cluster.stop(name)?;
    cluster.restart_node(name)?;
    is_back(cluster, name, &former)
}

/// CO-3: every process is restarted, one after the other, and no query fails or lacks anything.
#[test]
fn a_rolling_restart_of_everything_costs_no_answer() -> anyhow::Result<()> {
    let mut cluster = super::tpch()?;
    super::wait_whole(&cluster)?;
    let brokers = [cluster.sql(), cluster.add_broker("broker-2")?];
    let clients = Clients::start(&brokers, 2)?;
    clients.go_on()?;
    for name in cluster.node_names() {
        restart_node(&mut cluster, &name)?;
        clients.go_on()?;
    }
    cluster.stop("coordinator")?;
    cluster.restart_coordinator()?;
    clients.go_on()?;
    for (at, name) in ["broker", "broker-2"].into_iter().enumerate() {
        clients.out.store(1 << at, Ordering::SeqCst);
        cluster.stop(name)?;
        match name {
            "broker" => cluster.restart_broker()?,
            _ => drop(cluster.add_broker(name)?),
        }
        clients.out.store(0, Ordering::SeqCst);
        clients.go_on()?;
    }
    // After all of that the next node can be restarted as well.
    restart_node(&mut cluster, "n1")?;
    clients.go_on()?;
    clients.finish()
}

/// CO-3 with one replica, and nobody who asks first: a node that is told to stop has others take over before it goes.
#[test]
fn a_node_that_is_told_to_stop_costs_no_answer_without_a_second_replica() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(ClusterOptions {
        nodes: 2,
        resource_groups: vec!["east".into()],
        replicas: 1,
        sample: Some("tpch:0.01".into()),
        ..ClusterOptions::default()
    })?;
    for table in ["lineitem", "orders", "customer", "nation"] {
        cluster.wait_routable(table, 1, LIMIT)?;
    }
    let queries = QueryLoop::start(cluster.sql(), &QUERIES)?;
    for name in ["n1", "n2"] {
        let former = listed(&cluster, name)?;
        cluster.stop(name)?;
        queries.wait_for(QUERIES.len(), A_FEW)?;
        cluster.restart_node(name)?;
        is_back(&cluster, name, &former)?;
    }
    queries.finish()?.check()
}

/// CO-3: of the nodes that hold the only two copies one may stop, and the other is told what would be missing.
#[test]
fn two_nodes_that_hold_the_only_two_copies_never_both_may_stop() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    super::wait_whole(&cluster)?;
    // Brokers of a coordinator before this one would have come by then.
    cluster.run(&["node", "can-stop", "n1", "--lease", "--timeout", "30s"])?;
    let mut refused = String::new();
    for name in cluster.node_names().iter().filter(|name| *name != "n1") {
        let output = cluster.pointsman(&["node", "can-stop", name, "--lease"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.code() == Some(MAY_NOT) {
            ensure!(text.contains("would be served by nobody else in the cluster"), "{text}");
            ensure!(text.contains("for west") && text.contains("node drain"), "{text}");
            refused += &text;
        } else {
            ensure!(output.status.success(), "{text}");
            cluster.run(&["node", "can-stop", name, "--give-back"])?;
        }
    }
    ensure!(
        refused.contains("segment ") && refused.contains("lead of "),
        "what n1 serves is served in west: {refused}"
    );
    let safe = cluster.pointsman(&["node", "can-stop", "n1", "--group-safe"]).output()?;
    let text = String::from_utf8_lossy(&safe.stdout).into_owned();
    ensure!(safe.status.code() == Some(MAY_NOT) && text.contains("its resource group"), "{text}");
    ensure!(listed(&cluster, "n1")?["stop_lease_ms"].as_u64() > Some(0));
    cluster.run(&["node", "can-stop", "n1", "--give-back"])?;
    ensure!(listed(&cluster, "n1")?["stop_lease_ms"] == 0);
    Ok(())
}

/// A drain that cannot come to its end says why, and can be taken back.
#[test]
fn a_drain_that_nobody_can_take_over_says_so_and_is_taken_back() -> anyhow::Result<()> {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        resource_groups: vec!["east".into()],
        replicas: 1,
        ..ClusterOptions::default()
    })?;
    super::push(&cluster, "numbers", "few", &[1, 2, 3])?;
    cluster.run(&["load", "numbers", "--resource-groups", "east", "--wait", "--timeout", "60s"])?;
    let output = cluster.pointsman(&["node", "drain", "n1", "--wait", "--timeout", "2s"]).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(75), "{text}");
    ensure!(text.contains("numbers: segment ") && text.contains("that nobody can take over"), "{text}");
    // For programs, too, one document and the status.
    let line = ["node", "drain", "n1", "--wait", "--timeout", "1s", "--json"];
    let output = cluster.pointsman(&line).output()?;
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    ensure!(output.status.code() == Some(75) && told["node"] == "n1", "{output:?}");
    let output = cluster.pointsman(&["node", "drain", "nobody", "--json"]).output()?;
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    ensure!(output.status.code() == Some(1) && told["error"]["exit_status"] == 1, "{output:?}");
    let rows = || cluster.sql().query("SELECT sum(n) FROM numbers")?.comparable();
    ensure!(rows()?.len() == 1, "it serves on");
    ensure!(cluster.run(&["status"])?.contains("operator: node n1 is being drained"));
    cluster.run(&["node", "drain", "n1", "--cancel"])?;
    ensure!(listed(&cluster, "n1")?["drain"].is_null());
    Ok(())
}
