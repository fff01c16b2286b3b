//! `cargo xtask demo`: the main job on one machine, from nothing to answers that survive a killed node, and doubts about
//! all others.

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use pointsman_testkit::{Cluster, ClusterOptions, LoopReport, QueryLoop, eventually, pause, target_dir};
use serde_json::Value;

use crate::{cargo, stop, tpch};

/// Queries whose answers are shown.
const SHOWN: [usize; 3] = [1, 5, 6];

/// Queries of the loop: one stage, an aggregation with a shuffle, joins.
const LOOPED: [usize; 4] = [6, 1, 3, 5];

/// Queries before the kill and after it.
const BEFORE: usize = 8;
const AFTER: usize = 24;

/// Longest time for either.
const LIMIT: Duration = Duration::from_secs(120);

/// The node that is killed.
const VICTIM: &str = "n2";

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Stop after the demonstration: with status 0 if everything was as it should be.
    #[arg(long)]
    exit: bool,
    /// Where everything lies. Without, a temporary folder that goes at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Scale of TPC-H.
    #[arg(long, default_value = "0.05")]
    scale: String,
}

/// Builds and runs it.
///
/// # Errors
/// Something was not as it should be; the text says what.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let start = Instant::now();
    title("Building pointsman");
    cargo::run(&["build", "--package", "pointsman-cli", "--bin", "pointsman"])?;
    ensure!(!stop::requested(), "stopped");

    title(
        "Starting a coordinator, a broker and four nodes in the groups east and west; loading TPC-H in both",
    );
    let mut cluster = Cluster::start(ClusterOptions {
        sample: Some(format!("tpch:{}", args.scale)),
        data_dir: args.data_dir.clone(),
        program: Some(target_dir()?.join("pointsman")),
        show: true,
        ..ClusterOptions::default()
    })?;
    title("Load per group");
    show(&cluster, &["status"])?;
    show_answers(&cluster)?;
    let report = kill_a_node(&mut cluster)?;
    summarize(&report)?;

    title("What the broker thinks of the nodes now");
    show_health(&cluster)?;
    title(&format!(
        "Load per group; the coordinator gives {VICTIM} a while to come back before it moves its segments"
    ));
    show(&cluster, &["status"])?;
    title("Which node answers for which segment, and why");
    show(&cluster, &["why", "nation"])?;
    fail_open(&cluster)?;
    next_steps(&cluster);
    println!("\nEverything was as it should be, in {:.0} s.", start.elapsed().as_secs_f32());
    if !args.exit {
        println!("Ctrl-C stops everything.");
        while !stop::requested() {
            pause(Duration::from_millis(100));
            ensure!(cluster.dev().exit()?.is_none(), "pointsman dev has ended");
        }
    }
    Ok(())
}

fn show_answers(cluster: &Cluster) -> anyhow::Result<()> {
    for number in SHOWN {
        ensure!(!stop::requested(), "stopped");
        title(&format!("TPC-H query {number}"));
        show(cluster, &["sql", "-c", &tpch::query(number)?])?;
    }
    Ok(())
}

/// Queries one after the other, and in their middle a node goes.
fn kill_a_node(cluster: &mut Cluster) -> anyhow::Result<LoopReport> {
    title(&format!("Queries in a loop; SIGKILL to node {VICTIM} in the middle of one"));
    let texts: Vec<String> =
        LOOPED.iter().map(|number| tpch::query(*number)).collect::<anyhow::Result<_>>()?;
    let queries: Vec<&str> = texts.iter().map(String::as_str).collect();
    let queries = QueryLoop::start(cluster.sql(), &queries)?;
    queries.wait_for(BEFORE, LIMIT)?;
    ensure!(!stop::requested(), "stopped");
    cluster.kill_node(VICTIM)?;
    queries.wait_for(AFTER, LIMIT)?;
    queries.finish()
}

fn summarize(report: &LoopReport) -> anyhow::Result<()> {
    let longest = report.times.last().copied().unwrap_or_default();
    println!(
        "{} queries: {} failed, were partial or had another answer. Half took at most {} ms, the longest {} ms.",
        report.asked,
        report.wrong.len(),
        report.quantile(0.5).as_millis(),
        longest.as_millis(),
    );
    report.check()
}

/// All nodes that live freeze until the broker has excluded them, and go on. Before its probes tell, nobody is routable:
/// answers come by fail-open, which `pointsman dev` turns on.
fn fail_open(cluster: &Cluster) -> anyhow::Result<()> {
    title("Fail-open: all nodes freeze until the broker has excluded them, and go on");
    let names: Vec<String> = cluster.node_names().into_iter().filter(|name| name != VICTIM).collect();
    names.iter().try_for_each(|name| cluster.freeze_node(name))?;
    let excluded = eventually("all nodes are excluded", LIMIT, || {
        let (_, text) = cluster.sql().get("/debug/nodes")?;
        let answer: Value = serde_json::from_str(&text)?;
        let routable = |node: &Value| node["routable"] == true;
        ensure!(!answer["nodes"].as_array().context("a list of nodes")?.iter().any(routable), "{text}");
        Ok(())
    });
    names.iter().try_for_each(|name| cluster.thaw_node(name))?;
    excluded?;
    show_health(cluster)?;
    let answer = cluster.sql().query("SELECT count(*) AS lines FROM lineitem")?;
    let segments = answer.coverage["segments_fail_open"].as_u64().unwrap_or_default();
    println!("Lines: {:?}; {segments} segments came from nodes that are excluded.", answer.rows()?);
    ensure!(segments > 0, "the answer was to come by fail-open");
    Ok(())
}

/// What the broker thinks of every node.
fn show_health(cluster: &Cluster) -> anyhow::Result<()> {
    let (_, text) = cluster.sql().get("/debug/nodes")?;
    let answer: Value = serde_json::from_str(&text)?;
    for node in answer["nodes"].as_array().context("a list of nodes")? {
        let field = |name: &str| node[name].as_str().unwrap_or_default();
        let health = match (node["routable"].as_bool(), node["next_probe_in_ms"].as_u64()) {
            (Some(true), _) => "routable".to_owned(),
            (_, Some(wait)) => format!("excluded, next probe in {wait} ms"),
            _ => "excluded".to_owned(),
        };
        println!("  node {} in group {}: {health}", field("node"), field("group"));
    }
    Ok(())
}

fn next_steps(cluster: &Cluster) {
    let ready = cluster.ready();
    title("What runs");
    println!("  broker       {}  (SQL: POST /query/sql)", ready.broker.http);
    println!("  coordinator  {}", ready.coordinator.grpc);
    for node in ready.nodes.iter().filter(|node| node.name != VICTIM) {
        println!(
            "  node {}      {}  (group {}, process {})",
            node.name, node.grpc, node.resource_group, node.pid
        );
    }
    let program = target_dir().unwrap_or_default().join("pointsman");
    let command = format!("{} --data-dir {}", program.display(), cluster.data_dir().display());
    title("What to try next");
    println!("  {command} sql -c 'SHOW TABLES'");
    println!(
        "  {command} node --config {}/config/{VICTIM}.toml   # brings {VICTIM} back",
        cluster.data_dir().display()
    );
    println!("  {command} status");
    println!("  curl -s {}/query/sql -d '{{\"sql\": \"SELECT count(*) FROM lineitem\"}}'", ready.broker.http);
}

fn show(cluster: &Cluster, args: &[&str]) -> anyhow::Result<()> {
    let mut command: Command = cluster.pointsman(args);
    cargo::check(&mut command)
}

fn title(text: &str) {
    println!("\n--- {text}");
}
