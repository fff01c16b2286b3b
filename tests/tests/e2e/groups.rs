//! Resource groups from the command line, while queries run.

use anyhow::{Context, ensure};
use pointsman_testkit::{Cluster, QueryLoop, eventually};
use serde_json::{Value, json};

use super::{A_FEW, LIMIT, QUERIES};

fn json_of(cluster: &Cluster, args: &[&str]) -> anyhow::Result<Value> {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let text = cluster.run(&args)?;
    serde_json::from_str(&text).with_context(|| format!("{args:?} prints no JSON: {text}"))
}

/// Waits until a group has these members, and no node serves a replica that lives elsewhere.
fn settled(cluster: &Cluster, group: &str, members: &Value) -> anyhow::Result<()> {
    eventually("the group has its nodes to itself", LIMIT, || {
        let shown = json_of(cluster, &["group", "show", group])?;
        ensure!(shown["nodes"] == *members, "{shown}");
        let collections = shown["collections"].as_array().context("collections")?;
        let borrowed = |one: &Value| one["outgoing"] != json!([]) || one["incoming"] != json!([]);
        ensure!(!collections.iter().any(borrowed), "{shown}");
        Ok(())
    })
}

/// Nodes and replicas move between groups, and every answer stays whole.
#[test]
fn nodes_and_replicas_move_between_groups_under_queries() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    super::wait_whole(&cluster)?;
    let queries = QueryLoop::start(cluster.sql(), &QUERIES)?;
    queries.wait_for(4, A_FEW)?;

    let moved = json_of(&cluster, &["group", "transfer", "east", "west", "--nodes", "1"])?;
    // The one that came first of both has the lowest number.
    let (gone, left) = match moved["nodes"].as_array().context("nodes")?.as_slice() {
        [Value::String(one)] if one == "n1" => ("n1", "n3"),
        [Value::String(one)] if one == "n3" => ("n3", "n1"),
        other => anyhow::bail!("one node of east: {other:?}"),
    };
    let mut members = ["n2", "n4", gone];
    members.sort_unstable();
    settled(&cluster, "west", &json!(members))?;
    settled(&cluster, "east", &json!([left]))?;
    queries.wait_for(4, A_FEW)?;

    let moved = json_of(
        &cluster,
        &["group", "transfer", "east", "west", "--replicas", "1", "--collection", "nation"],
    )?;
    assert_eq!(moved["replicas"].as_array().map(Vec::len), Some(1), "{moved}");
    settled(&cluster, "east", &json!([left]))?;
    let groups = json_of(&cluster, &["status", "nation"])?;
    assert_eq!(groups[0]["groups"][0]["resource_group"], "west", "{groups}");
    queries.wait_for(4, A_FEW)?;
    queries.finish()?.check()
}

/// What a group wants is shown as it was said, followed, and refused by name where it makes no sense.
#[test]
fn groups_are_made_changed_dropped_and_refused_by_name() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    let made = json_of(&cluster, &["group", "create", "spare", "--limits", "4", "--filter", "disk=ssd"])?;
    assert_eq!((&made["created"], &made["config"]["node_filter"]), (&json!(true), &json!({"disk": "ssd"})));
    cluster.run(&["group", "update", "spare", "--no-filter", "--transfer-from", "east"])?;
    let spare = json_of(&cluster, &["group", "show", "spare"])?;
    let config = json!({
        "requests": 0, "limits": 4, "transfer_from": ["east"], "transfer_to": [], "node_filter": {}
    });
    assert_eq!((&spare["config"], &spare["nodes"]), (&config, &json!([])));

    // Several at once: one gives up what another gains.
    cluster.run(&["group", "create", "other"])?;
    let file = cluster.data_dir().join("groups.json");
    let configs = json!({"spare": {"requests": 0, "limits": 0}, "other": {"requests": 0, "limits": 4}});
    std::fs::write(&file, configs.to_string())?;
    let file = file.to_str().context("the path is text")?;
    let changed = json_of(&cluster, &["group", "update", "--file", file])?;
    assert_eq!(changed, json!({"changed": ["other", "spare"], "moved": []}));
    cluster.run(&["group", "drop", "spare"])?;
    assert_eq!(json_of(&cluster, &["group", "drop", "spare"])?["dropped"], false);

    for (args, status, right) in [
        (
            &["group", "show", "eest"][..],
            1,
            "there is no resource group 'eest'; there are: default, east, other, west",
        ),
        (&["group", "create", "east"], 1, "resource group 'east' exists with another configuration"),
        (&["group", "create", "north", "--requests", "2"], 2, "--limits"),
        (&["group", "update", "east"], 2, "name what is to change"),
        (&["group", "update", "east", "--limits", "1"], 1, "limits 1 are below requests 2"),
        (&["group", "drop", "default"], 1, "it is the default group"),
        (&["group", "drop", "east"], 1, "set requests and limits to 0 first"),
        (&["group", "transfer", "east", "east", "--nodes", "1"], 1, "name two groups"),
        (
            &["group", "transfer", "default", "east", "--nodes", "9"],
            1,
            "resource group 'default' has 0 nodes",
        ),
        (
            &["group", "transfer", "east", "west", "--replicas", "1", "--collection", "natin"],
            1,
            "did you mean nation?",
        ),
    ] {
        let output = cluster.pointsman(args).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
        assert!(text.contains(right), "{args:?}: {text}");
    }
    Ok(())
}
