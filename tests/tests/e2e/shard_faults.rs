//! Requests by shard while leaders go: every answer is whole and right, or an honest refusal where a scope has nobody left.

mod load;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use arrow::{
    array::{ArrayRef, FixedSizeListArray, Int64Array, RecordBatch},
    datatypes::Float32Type,
};
use pointsman_engine::ingest::write_parquet;
use pointsman_testkit::{Cluster, ClusterOptions, Network, Relay, eventually};
use serde_json::{Value, json};

use self::load::{JUST_GONE, Load, SCOPES, WAIT};
use super::{LIMIT, set};

const COLLECTION: &str = "points";
const SEGMENTS: i64 = 8;
const ROWS: i64 = 25;

/// So many versions of the content have numbers of their own.
const VERSIONS: i64 = 1_000;

/// Answers of every scope between two changes.
const SOME: usize = 9;

/// How soon the coordinator misses a node.
const LEASE: (&str, &str) = ("POINTSMAN_COORDINATOR__NODE_LEASE_TTL", "5s");

/// Files with `id`, a vector that lies at `id` on the first axis, and a number that tells the version.
fn files(cluster: &Cluster, version: i64) -> anyhow::Result<Vec<PathBuf>> {
    let folder = cluster.data_dir().join("points");
    std::fs::create_dir_all(&folder)?;
    let file = |segment: i64| {
        let ids = segment * ROWS..(segment + 1) * ROWS;
        let vectors = ids.clone().map(|id| Some([id as f32, 1.0, 0.0, 0.0].map(Some)));
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
            ("v", Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, 4))),
            ("n", Arc::new(Int64Array::from_iter_values(ids.map(|id| id * VERSIONS + version)))),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))?;
        let path = folder.join(format!("v{version}-{segment}.parquet"));
        write_parquet(&path, batch.schema(), [batch])?;
        Ok(path)
    };
    (0..SEGMENTS).map(file).collect()
}

/// Four nodes in two groups and the points in four shards, with replicas in these groups.
fn start(groups: &str) -> anyhow::Result<Cluster> {
    let variables = vec![(LEASE.0.to_owned(), LEASE.1.to_owned())];
    let cluster = Cluster::start(ClusterOptions { variables, ..ClusterOptions::default() })?;
    let files = files(&cluster, 0)?;
    let files: Vec<_> = files.iter().map(|path| path.to_string_lossy()).collect();
    let create = ["collection", "create", COLLECTION, "--like", &files[0], "--shards", "4", "--key", "id"];
    cluster.run(&[&create[..], &["--vector-index", "v"]].concat())?;
    let files: Vec<&str> = files.iter().map(AsRef::as_ref).collect();
    cluster.run(&[&["segment", "push", "--collection", COLLECTION], &files[..]].concat())?;
    let load = ["load", COLLECTION, "--resource-groups", groups, "--wait", "--timeout", "60s"];
    cluster.run(&load)?;
    Ok(cluster)
}

/// Waits until the broker may ask so many leaders for every shard in each group.
fn wait_leaders(cluster: &Cluster, per_group: usize) -> anyhow::Result<()> {
    let sql = cluster.sql();
    eventually(&format!("{per_group} leaders of every shard in each group"), LIMIT, || {
        let (status, text) = sql.get(&format!("/debug/shards?collection={COLLECTION}"))?;
        ensure!(status == 200, "{status} {text}");
        let page: Value = serde_json::from_str(&text)?;
        let shards = page["shards"].as_array().context("shards")?;
        ensure!(shards.len() == 4, "{text}");
        for shard in shards {
            let mut groups = BTreeMap::<&str, usize>::new();
            let leaders = shard["leaders"].as_array().context("leaders")?;
            let may = leaders.iter().filter(|leader| {
                leader["serviceable"] == true
                    && leader["standing"] == "routable"
                    && leader["unavailable"] == false
            });
            may.for_each(|leader| {
                *groups.entry(leader["group"].as_str().unwrap_or_default()).or_default() += 1
            });
            ensure!(groups == [("east", per_group), ("west", per_group)].into(), "{shard}");
        }
        Ok(())
    })
}

/// Puts every node behind a relay of its own.
fn behind_relays(cluster: &mut Cluster) -> anyhow::Result<BTreeMap<String, Relay>> {
    let names = cluster.node_names().into_iter();
    names.map(|name| Ok((name.clone(), cluster.relay_node(&name)?))).collect()
}

/// A leader is killed, stopped, cut off in two ways. Each shard has two leaders in every group: no request of any scope fails.
#[test]
fn leaders_that_go_cost_no_request() -> anyhow::Result<()> {
    let mut cluster = start("east,east,west,west")?;
    let relays = behind_relays(&mut cluster)?;
    let load = Load::start(&cluster.sql())?;
    wait_leaders(&cluster, 2)?;
    load.forget();

    cluster.kill_node("n1")?;
    load.wait_for(SOME)?;
    cluster.restart_node("n1")?;
    wait_leaders(&cluster, 2)?;

    cluster.freeze_node("n2")?;
    load.wait_for(SOME)?;
    cluster.thaw_node("n2")?;
    wait_leaders(&cluster, 2)?;

    for (name, network) in [("n3", Network::Refused), ("n4", Network::Silent)] {
        set([&relays[name]], network);
        load.wait_for(SOME)?;
        set([&relays[name]], Network::Up);
        wait_leaders(&cluster, 2)?;
    }
    load.wait_for(SOME)?;
    load.finish()?.nothing_failed(&SCOPES)
}

/// A node is drained and comes back, and its leads move twice. Then it dies with leads that nobody else in its group has:
/// that scope alone waits, says so, and works again by itself.
#[test]
fn leads_move_and_a_scope_without_leaders_comes_back() -> anyhow::Result<()> {
    let mut cluster = start("east,west")?;
    let load = Load::start(&cluster.sql())?;
    load.wait_for(SOME)?;

    cluster.run(&["node", "drain", "n1", "--wait", "--timeout", "60s"])?;
    load.wait_for(SOME)?;
    cluster.run(&["node", "drain", "n1", "--cancel"])?;
    load.wait_for(SOME)?;
    let report = load.finish()?;
    report.nothing_failed(&SCOPES)?;

    // The other node of the group takes its leads over once the lease is over.
    let load = Load::start(&cluster.sql())?;
    cluster.kill_node("n3")?;
    load.wait_refused("east", JUST_GONE)?;
    load.wait_for(SOME)?;
    let report = load.finish()?;
    report.nothing_failed(&["", "west"])?;
    report.refusals_were_honest("east")?;

    // Nobody is left until it comes back.
    let load = Load::start(&cluster.sql())?;
    cluster.kill_node("n1")?;
    load.wait_refused("east", WAIT)?;
    cluster.restart_node("n1")?;
    load.wait_for(SOME)?;
    let report = load.finish()?;
    report.nothing_failed(&["", "west"])?;
    report.refusals_were_honest("east")
}

/// CO-5: all segments are replaced again and again, and then the coordinator is killed on the way. Every answer is all of one
/// version. A group whose leaders were told of a target just before may have to wait for the next coordinator.
#[test]
fn answers_are_of_one_version_while_segments_are_replaced() -> anyhow::Result<()> {
    let mut cluster = start("east,west")?;
    let load = Load::start(&cluster.sql())?;
    for version in 1..=3 {
        replace(&cluster, version)?;
        load.wait_version(version)?;
    }
    let report = load.finish()?;
    report.nothing_failed(&SCOPES)?;
    ensure!(report.versions.len() > 2, "answers of {:?} alone", report.versions);

    let load = Load::start(&cluster.sql())?;
    for version in 4..=5 {
        let (args, files) = (replacement(version), files(&cluster, version)?);
        let mut running = cluster.pointsman(&words(&args, &files)).spawn()?;
        cluster.kill_coordinator()?;
        cluster.restart_coordinator()?;
        // Whether it got through before or not, the next one does.
        running.wait()?;
        replace(&cluster, version)?;
        load.wait_version(version)?;
    }
    load.finish()?.nobody_did_more_than_wait()
}

/// CO-1: the coordinator is killed and comes back, twice, and no request notices.
#[test]
fn the_coordinator_dies_under_requests() -> anyhow::Result<()> {
    let mut cluster = start("east,west")?;
    let load = Load::start(&cluster.sql())?;
    for _ in 0..2 {
        cluster.kill_coordinator()?;
        load.wait_for(SOME)?;
        cluster.restart_coordinator()?;
        load.wait_for(SOME)?;
    }
    load.finish()?.nothing_failed(&SCOPES)
}

/// Arguments that replace the segments of the version before, without the files.
fn replacement(version: i64) -> Vec<String> {
    let old: Vec<String> = (0..SEGMENTS).map(|segment| format!("v{}-{segment}", version - 1)).collect();
    let old = old.join(",");
    ["segment", "replace", "--collection", COLLECTION, "--old", &old].map(str::to_owned).to_vec()
}

fn words<'a>(args: &'a [String], files: &'a [PathBuf]) -> Vec<&'a str> {
    args.iter().map(String::as_str).chain(files.iter().filter_map(|file| file.to_str())).collect()
}

/// Replaces the segments of the version before, and waits until queries see it.
fn replace(cluster: &Cluster, version: i64) -> anyhow::Result<()> {
    let (args, files) = (replacement(version), files(cluster, version)?);
    let words = [&words(&args, &files)[..], &["--wait", "--timeout", "60s"]].concat();
    eventually("the replacement", LIMIT, || cluster.run(&words)).map(drop)
}

/// The three questions about the points, with what is right.
fn questions(scope: &str) -> [(&'static str, Value, Vec<i64>); 3] {
    let ask = |more: Value| {
        let mut body = json!({"collection": COLLECTION, "columns": ["id", "n"], "timeout_ms": 30_000});
        let fields = body.as_object_mut().into_iter();
        let scope = (!scope.is_empty()).then(|| ("resource_group".to_owned(), json!(scope)));
        let more = more.as_object().cloned().unwrap_or_default();
        fields.for_each(|fields| fields.extend(more.clone().into_iter().chain(scope.clone())));
        body
    };
    let all = 0..SEGMENTS * ROWS;
    [
        ("/v1/search", ask(json!({"vector": [37.4, 1.0, 0.0, 0.0], "k": 5})), vec![37, 38, 36, 39, 35]),
        ("/v1/get", ask(json!({"keys": [150, 3, 999, 77, 199]})), vec![150, 3, 77, 199]),
        (
            "/v1/query",
            ask(json!({"filter": "id % 9 = 4", "limit": 100})),
            all.filter(|id| id % 9 == 4).collect(),
        ),
    ]
}

/// The version that an answer shows, if it is whole and right.
fn version(answer: &Value, expected: &[i64]) -> anyhow::Result<i64> {
    let rows = answer["rows"].as_array().context("rows")?;
    let rows = rows.first().and_then(Value::as_array).unwrap_or(rows);
    let read = |row: &Value| Some((row["id"].as_i64()?, row["n"].as_i64()?));
    let rows: Vec<(i64, i64)> = rows.iter().map(read).collect::<Option<_>>().context("ids and numbers")?;
    let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
    ensure!(ids == expected, "{ids:?} instead of {expected:?}");
    let version = rows.first().map_or(0, |(id, n)| n - id * VERSIONS);
    ensure!(rows.iter().all(|(id, n)| n - id * VERSIONS == version), "a mix: {rows:?}");
    Ok(version)
}

/// Longest time of a few answers, one that finds out about a fault among them.
const A_FEW: Duration = Duration::from_secs(60);
