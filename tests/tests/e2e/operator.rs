//! What operators do while queries run: nodes off and on, settings of the running cluster, options of collections.

use anyhow::{Context, ensure};
use pointsman_testkit::{Answer, Cluster, eventually};
use serde_json::{Value, json};

const COUNT: &str = "SELECT count(*) FROM lineitem";

/// What a command with `--json` prints.
fn json_of(cluster: &Cluster, args: &[&str]) -> anyhow::Result<Value> {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let text = cluster.run(&args)?;
    serde_json::from_str(&text).with_context(|| format!("{args:?} prints no JSON: {text}"))
}

/// Names of the nodes of a group.
fn nodes_of(cluster: &Cluster, group: &str) -> Vec<String> {
    let nodes = cluster.ready().nodes.iter().filter(|node| node.resource_group == group);
    nodes.map(|node| node.name.clone()).collect()
}

/// `node enable` or `node disable` for several nodes at once.
fn switch(cluster: &Cluster, word: &str, nodes: &[String]) -> anyhow::Result<String> {
    let args: Vec<&str> = ["node", word].into_iter().chain(nodes.iter().map(String::as_str)).collect();
    cluster.run(&args)
}

/// Whether the operator's switch of a node is on.
fn is_on(cluster: &Cluster, name: &str) -> anyhow::Result<bool> {
    let nodes = json_of(cluster, &["node", "list"])?;
    let node = nodes.as_array().into_iter().flatten().find(|node| node["name"] == name);
    let node = node.with_context(|| format!("node {name} is not listed"))?;
    ensure!(
        node["enabled"] == node["switched_on"],
        "a node that stays is enabled by its switch alone: {node}"
    );
    node["switched_on"].as_bool().context("the switch is on or off")
}

/// Asks until an answer is as wanted.
fn answers(cluster: &Cluster, what: &str, wanted: impl Fn(&Answer) -> bool) -> anyhow::Result<Answer> {
    let sql = cluster.sql();
    eventually(what, super::LIMIT, || {
        let answer = sql.ask(COUNT)?;
        ensure!(wanted(&answer), "{answer:?}");
        Ok(answer)
    })
}

fn pools(answer: &Answer) -> usize {
    answer.other["pools"].as_array().map_or(0, Vec::len)
}

/// Queries go to the other group alone while all nodes of one are disabled, restarts included, and to both again
/// afterwards.
#[test]
fn a_disabled_node_gets_no_query_until_it_is_enabled() -> anyhow::Result<()> {
    let mut cluster = super::tpch()?;
    let rows = cluster.sql().query(COUNT)?.rows()?.to_vec();
    answers(&cluster, "both groups answer", |answer| pools(answer) == 2)?;
    let west = nodes_of(&cluster, "west");
    switch(&cluster, "disable", &west)?;
    answers(&cluster, "one group answers", |answer| pools(answer) == 1)?;
    for _ in 0..20 {
        let answer = cluster.sql().query(COUNT)?;
        assert_eq!((pools(&answer), answer.rows()?), (1, rows.as_slice()), "{answer:?}");
    }
    assert!(cluster.run(&["status"])?.contains(&format!("operator: node {} is disabled", west[0])));
    let disabled =
        |load: &Value| {
            load["groups"].as_array().into_iter().flatten().any(|group| {
                group["disabled_nodes"].as_array().is_some_and(|nodes| nodes.len() == west.len())
            })
        };
    let loads = json_of(&cluster, &["status", "lineitem"])?;
    assert!(loads.as_array().is_some_and(|loads| loads.iter().all(disabled)), "{loads}");

    cluster.kill_node(&west[0])?;
    cluster.restart_node(&west[0])?;
    cluster.kill_coordinator()?;
    cluster.restart_coordinator()?;
    eventually("the coordinator answers again", super::LIMIT, || is_on(&cluster, &west[0]))?;
    for name in &west {
        assert!(!is_on(&cluster, name)?, "the switch of {name} outlives node and coordinator");
    }
    let answer = cluster.sql().query(COUNT)?;
    assert_eq!((pools(&answer), answer.rows()?), (1, rows.as_slice()));

    switch(&cluster, "enable", &west)?;
    answers(&cluster, "both groups answer again", |answer| pools(answer) == 2 && !answer.partial_result)?;
    Ok(())
}

/// Fail-open, switched on for the running cluster, does not go to disabled nodes either.
#[test]
fn nobody_is_asked_when_all_are_disabled_and_the_answer_says_so() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    cluster.run(&["config", "set", "broker.fail_open.enabled", "true"])?;
    let all = cluster.node_names();
    switch(&cluster, "disable", &all)?;
    let answer = answers(&cluster, "nobody is asked", |answer| answer.code() == Some(305))?;
    assert!(answer.partial_result && answer.result_table.is_none(), "{answer:?}");
    assert_eq!((answer.num_servers_queried, answer.num_servers_responded), (0, 0));
    assert!(answer.coverage.to_string().contains("all_disabled"), "{}", answer.coverage);
    switch(&cluster, "enable", &all)?;
    answers(&cluster, "an answer again", |answer| answer.code().is_none() && !answer.partial_result)?;
    Ok(())
}

/// Settings and options come back as they were given; what is wrong is refused with what would be right.
#[test]
fn settings_and_options_are_shown_changed_and_refused_by_name() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    let key = "broker.fail_open.enabled";
    assert_eq!(json_of(&cluster, &["config", "get", key])?["value"], Value::Null);
    cluster.run(&["config", "set", key, "TRUE"])?;
    assert_eq!(cluster.run(&["config", "get", key])?, "TRUE\n");
    assert_eq!(json_of(&cluster, &["config", "unset", key])?, json!({"key": key, "changed": true}));
    assert_eq!(json_of(&cluster, &["config", "unset", key])?["changed"], false);

    cluster.run(&["collection", "alter", "nation", "--fail-closed", "--sampler", "Few=first:2"])?;
    let shown = json_of(&cluster, &["collection", "show", "nation"])?;
    assert_eq!((&shown["fail_closed"], &shown["samplers"]), (&json!(true), &json!({"few": {"first_n": 2}})));
    assert!(cluster.run(&["collection", "show", "nation"])?.contains("sampler few: the first 2 segments"));
    assert_eq!(cluster.sql().query("SELECT count(*) FROM nation")?.rows()?, [vec![json!(25)]]);

    for (args, right) in [
        (&["config", "set", "broker.failopen", "true"][..], "did you mean broker.fail_open.enabled?"),
        (&["node", "disable", "n1", "nx"], "there is no node 'nx'; there are: n1, n2, n3, n4"),
        (&["node", "remove", "n1"], "node 'n1' is live; stop it first"),
        (&["collection", "alter", "nation", "--consistent-replicas"], "replica_group"),
        (&["collection", "alter", "natin", "--fail-closed"], "did you mean nation?"),
        (&["collection", "alter", "nation"], "name what is to change"),
        (&["collection", "create", "x", "--like", "no-such.parquet"], "no-such.parquet: No such file"),
    ] {
        let refused = cluster.run(args).err().with_context(|| format!("{args:?} is not refused"))?;
        let text = format!("{refused:#}");
        assert!(text.contains(right), "{args:?}: {text}");
    }
    Ok(())
}
