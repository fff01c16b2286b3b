//! Loads of two groups that do not go alike: one slower, one that fails.

use anyhow::{Context, ensure};
use pointsman_testkit::{Cluster, ClusterOptions, Object, ObjectServer, eventually};
use serde_json::{Value, json};

use super::LIMIT;

const COLLECTION: &str = "numbers";
/// With one shard, which counts like a segment, four tenths of the load are three segments.
const SEGMENTS: u64 = 9;
/// Every segment has a bit of its own; the large one has none of them.
const SUM: &str = "SELECT sum(n % 65536) FROM numbers";
/// Settings of a cache that has no room for the large segment, and the rows of that one.
const SMALL_CACHE: (&str, &str) = ("POINTSMAN_NODE__CACHE_LIMIT", "16MiB");
const LARGE: u64 = 3_200_000;

/// Four nodes of which those of `west` fetch from a store of their own, and a collection of small segments.
fn cluster(timeout: &str, west: &[(&str, &str)]) -> anyhow::Result<(Cluster, ObjectServer)> {
    // A coordinator that has just started ends no load before the leases of nodes that it waits for are over.
    let variables = [("LOAD_TIMEOUT", timeout), ("NODE_LEASE_TTL", "5s")];
    let variables = variables.map(|(key, value)| (format!("POINTSMAN_COORDINATOR__{key}"), value.to_owned()));
    let options = ClusterOptions { variables: variables.to_vec(), ..ClusterOptions::default() };
    let mut cluster = Cluster::start(options)?;
    let objects = ObjectServer::start(&cluster.data_dir().join("objects"))?;
    restart_west(&mut cluster, &objects, west)?;
    let folder = cluster.data_dir().join("csv");
    std::fs::create_dir(&folder)?;
    for segment in 0..SEGMENTS {
        std::fs::write(folder.join(format!("s{segment}.csv")), format!("n\n{}\n", 1 << segment))?;
    }
    if west.contains(&SMALL_CACHE) {
        std::fs::write(folder.join("s7.csv"), large(1 << 7))?;
    }
    let paths: Vec<String> =
        (0..SEGMENTS).map(|at| folder.join(format!("s{at}.csv")).to_string_lossy().into_owned()).collect();
    let mut push = vec!["segment", "push", "--collection", COLLECTION];
    push.extend(paths.iter().map(String::as_str));
    cluster.run(&push)?;
    Ok((cluster, objects))
}

/// Starts the nodes of `west` anew, with these settings beside those of their store.
fn restart_west(
    cluster: &mut Cluster,
    objects: &ObjectServer,
    settings: &[(&str, &str)],
) -> anyhow::Result<()> {
    let west = cluster.ready().nodes.iter().filter(|node| node.resource_group == "west");
    let store = objects.variables();
    let store = store.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let variables: Vec<_> = store.chain(settings.iter().copied()).collect();
    for node in west.map(|node| node.name.clone()).collect::<Vec<_>>() {
        cluster.kill_node(&node)?;
        cluster.restart_node_with(&node, &variables)?;
    }
    Ok(())
}

/// Lines of a segment that no compression makes small, and one with this number.
fn large(number: u64) -> String {
    let mut state = 1_u64;
    let mut text = format!("n\n{number}\n");
    for _ in 0..LARGE {
        // Knuth's linear congruential generator (MMIX); its upper bits are the better ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&((state >> 18) << 16).to_string());
        text.push('\n');
    }
    text
}

/// Names of the objects of some segments.
fn objects_of(cluster: &Cluster, segments: std::ops::Range<u64>) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for file in std::fs::read_dir(cluster.objects(COLLECTION))? {
        let file = file?.file_name().into_string().ok().context("names are text")?;
        if segments.clone().any(|segment| file.starts_with(&format!("s{segment}."))) {
            names.push(format!("{COLLECTION}/{file}"));
        }
    }
    ensure!(names.len() as u64 == segments.end - segments.start, "{names:?}");
    Ok(names)
}

fn set(objects: &ObjectServer, names: &[String], object: Object) {
    objects.set(names.iter().map(String::as_str), object);
}

/// Registers the load of both groups.
fn load(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.run(&["load", COLLECTION, "--resource-groups", "east,west"]).map(drop)
}

/// What `status` says about the collection.
fn status(cluster: &Cluster) -> anyhow::Result<Value> {
    let loads: Value = serde_json::from_str(&cluster.run(&["status", COLLECTION, "--json"])?)?;
    Ok(loads[0].clone())
}

/// What it says about a group.
fn group(cluster: &Cluster, name: &str) -> anyhow::Result<Value> {
    let status = status(cluster)?;
    let mut groups = status["groups"].as_array().into_iter().flatten();
    let group = groups.find(|group| group["resource_group"] == name);
    group.cloned().with_context(|| format!("no group {name}: {status}"))
}

/// Waits until a group is as far as this, and ready or not.
fn wait_for(cluster: &Cluster, name: &str, percent: u64, ready: bool) -> anyhow::Result<Value> {
    eventually(&format!("group {name} at {percent}"), LIMIT, || {
        let group = group(cluster, name)?;
        ensure!(group["percent"] == percent && group["ready"] == ready, "{group}");
        Ok(group)
    })
}

/// The sum of the collection, asked in the scope of a group, or the code of the refusal.
fn ask(cluster: &Cluster, scope: &str) -> anyhow::Result<Result<Value, i64>> {
    let answer = cluster.sql().ask(&format!("SET resource_group = '{scope}'; {SUM}"))?;
    Ok(match answer.exceptions.first() {
        Some(exception) => Err(exception.error_code),
        None => Ok(answer.result_table.context("rows")?.rows[0][0].clone()),
    })
}

/// Waits until a group answers whole.
fn wait_answer(cluster: &Cluster, scope: &str) -> anyhow::Result<()> {
    let sum = json!((1 << SEGMENTS) - 1);
    eventually(&format!("answers of {scope}"), LIMIT, || {
        let answer = ask(cluster, scope)?;
        ensure!(answer == Ok(sum.clone()), "{answer:?}");
        Ok(())
    })
}

/// One group answers while the other one is on its way, and each says of itself how far it is.
#[test]
fn groups_progress_on_their_own() -> anyhow::Result<()> {
    let (cluster, objects) = cluster("10m", &[])?;
    let held = objects_of(&cluster, 3..SEGMENTS)?;
    set(&objects, &held, Object::Held);
    load(&cluster)?;
    wait_for(&cluster, "east", 100, true)?;
    let west = wait_for(&cluster, "west", 40, false)?;
    ensure!(west["reason"] != "" && west["phase"] == "loading", "{west}");
    wait_answer(&cluster, "east")?;
    ensure!(ask(&cluster, "west")? == Err(410), "103, which may be retried, is 410 in an answer");
    let output = cluster.pointsman(&["ready", COLLECTION, "--resource-group", "west"]).output()?;
    ensure!(output.status.code() == Some(75), "{output:?}");

    set(&objects, &held, Object::Served);
    wait_for(&cluster, "west", 100, true)?;
    wait_answer(&cluster, "west")
}

/// A segment that one group cannot load ends that group's load, with its cause, and costs the other one nothing. What was
/// wrong is mended, and loading again works.
fn fails_alone(settings: &[(&str, &str)], object: Object, causes: &[&str]) -> anyhow::Result<()> {
    let (mut cluster, objects) = cluster("3s", settings)?;
    let broken = objects_of(&cluster, 7..8)?;
    set(&objects, &broken, object);
    load(&cluster)?;
    wait_for(&cluster, "east", 100, true)?;
    wait_answer(&cluster, "east")?;
    eventually("the end of the load in west", LIMIT, || {
        let status = status(&cluster)?;
        let dropped = &status["dropped_groups"][0];
        ensure!(dropped["resource_group"] == "west", "{status}");
        let why = dropped["why"].as_str().context("why")?;
        ensure!(causes.iter().all(|cause| why.contains(cause)), "{why}");
        Ok(())
    })?;
    ensure!(group(&cluster, "east")?["percent"] == 100, "it goes on");
    wait_answer(&cluster, "east")?;
    let refused = ask(&cluster, "west")?;
    ensure!(refused.is_err(), "{refused:?}");

    set(&objects, &broken, Object::Served);
    if !settings.is_empty() {
        restart_west(&mut cluster, &objects, &[])?;
    }
    load(&cluster)?;
    wait_for(&cluster, "west", 100, true)?;
    wait_answer(&cluster, "west")
}

#[test]
fn a_corrupt_segment_fails_its_group_alone() -> anyhow::Result<()> {
    fails_alone(&[], Object::Corrupt, &["s7", "checksum", "west"])
}

#[test]
fn a_deleted_segment_fails_its_group_alone() -> anyhow::Result<()> {
    fails_alone(&[], Object::Missing, &["s7", "no object", "west"])
}

#[test]
fn a_cache_that_is_too_small_fails_its_group_alone() -> anyhow::Result<()> {
    fails_alone(&[SMALL_CACHE], Object::Served, &["s7", "needs", "node.cache_limit", "west"])
}

/// Nodes give a segment up after a few tries. Who pushes it again, or asks for the load again, has mended something.
#[test]
fn what_was_mended_is_tried_again() -> anyhow::Result<()> {
    let (cluster, objects) = cluster("10m", &[])?;
    set(&objects, &objects_of(&cluster, 7..9)?, Object::Corrupt);
    load(&cluster)?;
    let given_up = |names: &[&str]| {
        eventually("nodes to give up", LIMIT, || {
            let west = group(&cluster, "west")?;
            let failures = west["failures"].as_array().context("failures")?;
            let of = |name: &str| {
                failures.iter().filter(|one| one["segment"] == name && one["tries"] == 3).count()
            };
            ensure!(names.iter().all(|name| of(name) == 2) && failures.len() == 2 * names.len(), "{west}");
            Ok(())
        })
    };
    given_up(&["s7", "s8"])?;
    set(&objects, &objects_of(&cluster, 7..8)?, Object::Served);
    let file = cluster.data_dir().join("csv/s7.csv");
    cluster.run(&["segment", "push", "--collection", COLLECTION, &file.to_string_lossy()])?;
    given_up(&["s8"])?;
    set(&objects, &objects_of(&cluster, 8..9)?, Object::Served);
    load(&cluster)?;
    wait_for(&cluster, "west", 100, true)?;
    wait_answer(&cluster, "west")
}
