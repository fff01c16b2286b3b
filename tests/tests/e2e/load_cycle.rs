//! The life of a load as an operator sees it: replaced, loaded by partition, changed, waited for, released.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
};

use anyhow::{Context, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pointsman_testkit::{Cluster, ClusterOptions, QueryLoop, eventually};
use serde_json::{Value, json};

use super::{A_FEW, LIMIT, load, push};

/// Status of a wait that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

fn json_of(cluster: &Cluster, args: &[&str]) -> anyhow::Result<Value> {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let text = cluster.run(&args)?;
    serde_json::from_str(&text).with_context(|| format!("{args:?} prints no JSON: {text}"))
}

/// What a command says that ends with this status.
fn ends_with(cluster: &Cluster, args: &[&str], status: i32) -> anyhow::Result<String> {
    let output = cluster.pointsman(args).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(status), "{args:?}: {} {text}", output.status);
    Ok(text)
}

/// Sum and number of the rows that queries see.
fn seen(cluster: &Cluster, collection: &str) -> anyhow::Result<Vec<Vec<Value>>> {
    Ok(cluster.sql().query(&format!("SELECT count(*), sum(n) FROM {collection}"))?.rows()?.to_vec())
}

/// A file of this generation: every row holds its number.
fn file(folder: &Path, name: &str, generation: usize, rows: usize) -> anyhow::Result<PathBuf> {
    let path = folder.join(format!("{name}{generation}.csv"));
    fs::write(&path, format!("n\n{}", format!("{generation}\n").repeat(rows)))?;
    Ok(path)
}

/// CO-5: generations of segments replace each other under queries, one of them while the coordinator dies: no query ever sees rows of
/// two generations, or not all of one. What was waited for is seen at once.
#[test]
fn queries_see_all_of_the_old_or_all_of_the_new() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(ClusterOptions::default())?;
    let folder = tempfile::tempdir()?;
    let files = |generation| {
        let (a, b) = (file(folder.path(), "a", generation, 2)?, file(folder.path(), "b", generation, 3)?);
        anyhow::Ok([a, b].map(|path| path.to_string_lossy().into_owned()))
    };
    let [a, b] = files(0)?;
    cluster.run(&["segment", "push", "--collection", "t", &a, &b])?;
    load(&cluster, "t")?;
    cluster.wait_routable("t", 2, LIMIT)?;
    let whole = ["SELECT count(*), max(n) - min(n) FROM t", "SELECT count(*) - 5 * count(DISTINCT n) FROM t"];
    let loops = [QueryLoop::start(cluster.sql(), &whole)?, QueryLoop::start(cluster.sql(), &whole)?];
    for generation in 1..=8 {
        let old = format!("a{0},b{0}", generation - 1);
        let [a, b] = files(generation)?;
        let replace = ["segment", "replace", "--collection", "t", "--old", &old, &a, &b, "--wait"];
        if generation == 4 {
            let mut command = cluster.pointsman(&replace).spawn()?;
            loops[0].wait_for(2, A_FEW)?;
            cluster.kill_coordinator()?;
            cluster.restart_coordinator()?;
            // It waits for a coordinator, or says that the same command again is safe, as it is.
            command.wait()?;
        }
        let replaced = json_of(&cluster, &replace)?;
        assert_eq!(replaced["new"], json!([format!("a{generation}"), format!("b{generation}")]));
        assert_eq!(replaced["served"], true, "{replaced}");
        assert_eq!(seen(&cluster, "t")?, [[json!(5), json!(5 * generation)]]);
        loops.iter().try_for_each(|queries| queries.wait_for(2, A_FEW))?;
    }
    for queries in loops {
        queries.finish()?.check()?;
    }

    let [a, _] = files(8)?;
    let [_, new] = files(9)?;
    for (old, file, status, words) in [
        ("a8,c", new.as_str(), 1, "has no segment 'c'"),
        ("b8", &a, 1, "has segment 'a8' already"),
        ("a8", &a, 2, "would become segment 'a8', which is to go"),
        ("a8", "nowhere.csv", 1, "nowhere.csv"),
    ] {
        let text = ends_with(&cluster, &["segment", "replace", "-c", "t", "--old", old, file], status)?;
        ensure!(text.contains(words), "{words}: {text}");
    }
    ensure!(!cluster.objects("t").read_dir()?.any(|one| one.is_ok_and(|one| named(&one.path(), "b9."))));
    assert_eq!(seen(&cluster, "t")?, [[json!(5), json!(40)]]);
    Ok(())
}

fn named(path: &Path, begin: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin))
}

/// Partitions come and go one by one; groups are added without an answer that lacks something, and taken away again.
#[test]
fn partitions_and_replicas_of_a_load_change_under_queries() -> anyhow::Result<()> {
    let cluster = Cluster::start(ClusterOptions::default())?;
    for (partition, numbers) in [("p1", "1\n2\n"), ("p2", "10\n"), ("p3", "100\n")] {
        let csv = cluster.data_dir().join(format!("{partition}.csv"));
        fs::write(&csv, format!("n\n{numbers}"))?;
        let csv = csv.to_string_lossy();
        cluster.run(&["segment", "push", "--collection", "t", "--partition", partition, &csv])?;
    }
    let east = ["--resource-groups", "east", "--wait", "--timeout", "60s"];
    cluster.run(&[&["load", "t", "--partitions", "p1"][..], &east].concat())?;
    assert_eq!(seen(&cluster, "t")?, [[json!(2), json!(3)]]);
    cluster.run(&["load", "t", "--partitions", "p2,p3", "--wait"])?;
    assert_eq!(seen(&cluster, "t")?, [[json!(4), json!(113)]]);
    let text = ends_with(&cluster, &["release", "t", "--partitions", "p3"], 0)?;
    ensure!(text.contains("t: released"), "{text}");
    let listed = json_of(&cluster, &["partition", "list", "t"])?;
    let load = |at: usize| (&listed[at]["partition"], &listed[at]["load"], &listed[at]["percent"]);
    assert_eq!(load(0), (&json!("p1"), &json!("loaded"), &json!(100)));
    assert_eq!(load(2), (&json!("p3"), &json!("not_loaded"), &json!(null)));
    let text = ends_with(&cluster, &["load", "t", "--partitions", "p9"], 1)?;
    ensure!(text.contains("no partition 'p9'; there are: p1, p2, p3"), "{text}");
    cluster.run(&["load", "t", "--partitions", "p1", "--only", "--wait"])?;
    assert_eq!(seen(&cluster, "t")?, [[json!(2), json!(3)]]);

    let queries = QueryLoop::start(cluster.sql(), &["SELECT count(*), sum(n) FROM t"])?;
    let update = ["load", "t", "--update", "--resource-groups", "east=1,west=1", "--invisible", "--wait"];
    let text = ends_with(&cluster, &update, 0)?;
    ensure!(text.contains("t: replicas changed"), "{text}");
    assert_eq!(
        cluster.sql().query("SET resource_group = 'west'; SELECT sum(n) FROM t")?.rows()?,
        [[json!(3)]]
    );
    let text = ends_with(&cluster, &update, 0)?;
    ensure!(text.contains("t: nothing to change"), "{text}");
    cluster.run(&["load", "t", "--update", "--resource-groups", "west", "--replicas", "1", "--wait"])?;
    let shown = json_of(&cluster, &["status", "t"])?;
    assert_eq!(shown[0]["groups"][0]["resource_group"], "west", "{shown}");
    assert_eq!(shown[0]["groups"].as_array().map(Vec::len), Some(1), "{shown}");
    queries.wait_for(2, A_FEW)?;
    queries.finish()?.check()?;

    for (args, status, words) in [
        (&["load", "t", "--update"][..], 2, "name what is to change"),
        (&["load", "t", "--update", "--resource-groups", "wst"], 1, "there is no resource group 'wst'"),
        (&["load", "t", "--resource-groups", "east=1,west"], 2, "how many replicas it takes"),
        (&["partition", "list", "tt"], 1, "did you mean t?"),
    ] {
        let text = ends_with(&cluster, args, status)?;
        ensure!(text.contains(words), "{args:?}: {text}");
    }
    cluster.run(&["release", "t", "--partitions", "p1"])?;
    let text = ends_with(&cluster, &["load", "t", "--update", "--replicas", "2"], 1)?;
    ensure!(text.contains("'t' is not loaded; `pointsman load` loads it"), "{text}");
    Ok(())
}

/// A command that waits, to be interrupted.
struct Waiting(Child);

impl Waiting {
    fn start(cluster: &Cluster, args: &[&str]) -> anyhow::Result<Self> {
        let child = cluster.pointsman(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        Ok(Self(child))
    }

    /// Ctrl-C.
    fn interrupt(self) -> anyhow::Result<Output> {
        kill(Pid::from_raw(self.0.id().try_into()?), Signal::SIGINT)?;
        Ok(self.0.wait_with_output()?)
    }
}

/// Ctrl-C ends the wait of a command, which says that the work goes on and how to look at it; and it does. A group that has not
/// finished refuses requests in its scope meanwhile, and another one answers.
#[test]
fn an_interrupted_wait_leaves_the_work_to_the_coordinator() -> anyhow::Result<()> {
    let cluster = Cluster::start(ClusterOptions::default())?;
    push(&cluster, "t", "a", &[1, 2])?;
    let west: Vec<String> = (cluster.ready().nodes.iter())
        .filter(|node| node.resource_group == "west")
        .map(|node| node.name.clone())
        .collect();
    west.iter().try_for_each(|node| cluster.freeze_node(node))?;
    let wait = Waiting::start(&cluster, &["load", "t", "--resource-groups", "east,west", "--wait"])?;
    eventually("east to serve", LIMIT, || {
        let shown = json_of(&cluster, &["status", "t"])?;
        ensure!(shown[0]["groups"][0]["ready"] == true && shown[0]["groups"][1]["ready"] == false, "{shown}");
        Ok(())
    })?;
    let ready = Waiting::start(&cluster, &["ready", "t", "--resource-group", "west", "--wait"])?;
    let drain = Waiting::start(&cluster, &["node", "drain", &west[0], "--wait"])?;
    eventually("the drain", LIMIT, || {
        let shown = json_of(&cluster, &["node", "list"])?;
        let nodes = shown.as_array().context("nodes")?;
        ensure!(nodes.iter().any(|node| node["drain"] != json!(null)), "{shown}");
        Ok(())
    })?;

    let in_east = "SET resource_group = 'east'; SELECT sum(n) FROM t";
    eventually("answers of east", LIMIT, || Ok(cluster.sql().query(in_east)?.rows()?.to_vec()))?;
    let refused = cluster.sql().ask("SET resource_group = 'west'; SELECT sum(n) FROM t")?;
    assert_eq!((refused.code(), refused.partial_result), (Some(410), false), "{refused:?}");
    let unknown = cluster.sql().ask("SET resource_group = 'wst'; SELECT sum(n) FROM t")?;
    assert_eq!(unknown.code(), Some(700), "{unknown:?}");

    for (wait, words) in [
        (wait, "the coordinator goes on loading t: `pointsman status t`"),
        (ready, "`pointsman status t` shows how far it is"),
        (drain, "the drain goes on: `pointsman node drain"),
    ] {
        let output = wait.interrupt()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(INTERRUPTED), "{words}: {} {text}", output.status);
        ensure!(text.contains("stopped waiting") && text.contains(words), "{words}: {text}");
    }
    cluster.run(&["node", "drain", &west[0], "--cancel"])?;
    west.iter().try_for_each(|node| cluster.thaw_node(node))?;
    cluster.wait_loaded("t", LIMIT)?;
    eventually("answers of west", LIMIT, || {
        Ok(cluster.sql().query("SET resource_group = 'west'; SELECT sum(n) FROM t")?.rows()?.to_vec())
    })?;
    Ok(())
}

/// A load that nobody can do ends with its cause, told to who waits and to who asks later; mended, it is loaded anew.
#[test]
fn a_load_that_ends_tells_who_waits_and_who_asks_later_why() -> anyhow::Result<()> {
    let limit = ("POINTSMAN_COORDINATOR__LOAD_TIMEOUT".to_owned(), "4s".to_owned());
    let cluster = Cluster::start(ClusterOptions { variables: vec![limit], ..ClusterOptions::default() })?;
    push(&cluster, "t", "a", &[1, 2])?;
    fs::remove_dir_all(cluster.objects("t"))?;
    let wait = ["load", "t", "--resource-groups", "east", "--wait", "--timeout", "60s"];
    let text = ends_with(&cluster, &wait, 1)?;
    ensure!(text.contains("its load failed") && text.contains("segment 'a'"), "{text}");
    let text = ends_with(&cluster, &["status", "t"], 1)?;
    ensure!(text.contains("its load failed") && text.contains("`pointsman load t` loads it anew"), "{text}");
    let text = ends_with(&cluster, &["partition", "list", "t"], 0)?;
    ensure!(text.contains("its load failed"), "{text}");

    // Pushing the same again brings the object back.
    push(&cluster, "t", "a", &[1, 2])?;
    cluster.run(&wait)?;
    assert_eq!(seen(&cluster, "t")?, [[json!(2), json!(3)]]);
    cluster.run(&["release", "t"])?;
    let text = ends_with(&cluster, &["status", "t"], 75)?;
    ensure!(text.contains("'t' is not loaded; `pointsman load t` loads it"), "{text}");
    Ok(())
}
