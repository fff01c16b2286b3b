//! Whether a group can serve, for scripts.

use anyhow::{Context, ensure};
use pointsman_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use super::LIMIT;

/// Exit status of `pointsman ready` with these arguments, and all that it said.
fn ready(cluster: &Cluster, args: &[&str]) -> anyhow::Result<(i32, String)> {
    let args: Vec<&str> = ["ready"].into_iter().chain(args.iter().copied()).collect();
    let output = cluster.pointsman(&args).output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.code().context("a signal")?, String::from_utf8_lossy(&said).into_owned()))
}

/// The verdict is the exit status, and a name that nobody has is told apart from what is not there yet.
#[test]
fn the_exit_status_is_the_verdict() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    super::push(&cluster, "spare", "s1", &[1, 2, 3])?;
    for (args, status, right) in [
        (&["lineitem"][..], 0, "lineitem: ready"),
        (&["lineitem", "--resource-group", "east", "--wait"], 0, "lineitem in group east: ready"),
        (&["lineitem", "--resource-group", "default"], 1, "no_replica_in_resource_group"),
        (&["spare"], 1, "spare: collection_not_loaded"),
        (&["spare", "--wait"], 1, "spare: collection_not_loaded"),
        (
            &["lineitem", "--resource-group", "eest"],
            2,
            "there is no resource group 'eest'; there are: default, east, west",
        ),
        (&["lineitm"], 2, "lineitem"),
        (&["lineitem", "--timeout", "5s"], 2, "--wait"),
    ] {
        let (code, said) = ready(&cluster, args)?;
        ensure!(
            code == status && said.contains(right),
            "{args:?}: {code} and not {status}, or no '{right}': {said}"
        );
    }
    let text = cluster.run(&["ready", "lineitem", "--resource-group", "west", "--json"])?;
    let verdict: Value = serde_json::from_str(&text)?;
    assert_eq!((&verdict["ready"], &verdict["reason"]), (&json!(true), &json!("")));
    assert_eq!((&verdict["unready_shards"], &verdict["behind"]), (&json!([]), &json!([])));
    Ok(())
}

/// A group whose nodes are all taken out says why it does not serve, is waited for, and serves again.
#[test]
fn a_group_that_does_not_serve_says_why_and_is_waited_for() -> anyhow::Result<()> {
    let cluster = super::tpch()?;
    let west: Vec<&str> = cluster
        .ready()
        .nodes
        .iter()
        .filter(|n| n.resource_group == "west")
        .map(|n| n.name.as_str())
        .collect();
    let switch = |to: &str| cluster.run(&[&["node", to], &west[..]].concat());
    switch("disable")?;
    let asked = ["lineitem", "--resource-group", "west"];
    let (code, said) = ready(&cluster, &asked)?;
    ensure!(code == 75 && said.contains("shards_without_leader"), "{code}: {said}");
    ensure!(said.contains("replica") && said.contains("in group west"), "no cause: {said}");
    let (code, said) = ready(&cluster, &[&asked[..], &["--wait", "--timeout", "1s"]].concat())?;
    ensure!(code == 75, "{code}: {said}");
    let (code, said) = ready(&cluster, &["lineitem", "--resource-group", "east"])?;
    ensure!(code == 0, "the other group serves on: {code}: {said}");
    let status = cluster.run(&["status", "lineitem"])?;
    ensure!(status.contains("recovering: shards_without_leader"), "{status}");

    let mut waiting =
        cluster.pointsman(&["ready", "lineitem", "--resource-group", "west", "--wait"]).spawn()?;
    switch("enable")?;
    eventually("the wait to end", LIMIT, || waiting.try_wait()?.context("it waits"))?;
    ensure!(waiting.wait()?.success(), "it ended without being ready");
    Ok(())
}
