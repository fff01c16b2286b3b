//! Vectors from a file to an answer: pushed, loaded in two groups, searched, got and listed by the command line and over
//! HTTP, equal to what a loop over all of them finds.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, ensure};
use arrow::{
    array::{ArrayRef, FixedSizeListArray, Int64Array, ListArray, RecordBatch, StringArray},
    datatypes::{Float32Type, Float64Type},
};
use pointsman_engine::ingest::write_parquet;
use pointsman_testkit::{Cluster, ClusterOptions, eventually};
use serde_json::{Value, json};

use super::LIMIT;

const DIMENSIONS: usize = 8;
const POINTS: usize = 3_000;
const SEGMENTS: usize = 7;
const METRICS: [&str; 3] = ["l2", "inner_product", "cosine"];

/// Points around a few centres, the same in every run.
fn points() -> Vec<[f32; DIMENSIONS]> {
    let mut state = 7_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // 24 bits: what a single number holds.
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let centres: Vec<[f32; DIMENSIONS]> = (0..20).map(|_| std::array::from_fn(|_| 4.0 * next())).collect();
    (0..POINTS).map(|at| std::array::from_fn(|axis| centres[at % centres.len()][axis] + next())).collect()
}

fn word(id: usize) -> &'static str {
    ["even", "odd"][id % 2]
}

fn distance(metric: &str, a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    match metric {
        "l2" => a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum(),
        "inner_product" => -dot(a, b),
        _ => 1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt(),
    }
}

/// Ids with their distances, nearest first.
fn nearest(
    points: &[[f32; DIMENSIONS]],
    query: &[f32],
    metric: &str,
    k: usize,
    odd_only: bool,
) -> Vec<(u64, f64)> {
    let ids = (0..points.len()).filter(|id| !odd_only || id % 2 == 1);
    let mut all: Vec<(u64, f64)> = ids.map(|id| (id as u64, distance(metric, &points[id], query))).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    all.truncate(k);
    all
}

/// Files with `id`, `word` and `embedding`; the last one has lists of double numbers, as pandas writes them.
fn files(cluster: &Cluster, points: &[[f32; DIMENSIONS]]) -> anyhow::Result<Vec<PathBuf>> {
    let folder = cluster.data_dir().join("vectors");
    std::fs::create_dir_all(&folder)?;
    let ids: Vec<usize> = (0..points.len()).collect();
    let file = |(at, ids): (usize, &[usize])| {
        let vectors = ids.iter().map(|id| Some(points[*id].map(Some).to_vec()));
        let vectors: ArrayRef = if at + 1 == SEGMENTS {
            let vectors =
                ids.iter().map(|id| Some(points[*id].map(|number| Some(f64::from(number))).to_vec()));
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(vectors))
        } else {
            Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, DIMENSIONS as i32))
        };
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(Int64Array::from_iter_values(ids.iter().map(|id| *id as i64)))),
            ("word", Arc::new(StringArray::from_iter_values(ids.iter().map(|id| word(*id))))),
            ("embedding", vectors),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))?;
        let path = folder.join(format!("part-{at}.parquet"));
        write_parquet(&path, batch.schema(), [batch])?;
        anyhow::Ok(path)
    };
    ids.chunks(points.len().div_ceil(SEGMENTS)).enumerate().map(file).collect()
}

/// Two groups of two nodes, with the points in three shards of collection `docs`.
fn start(points: &[[f32; DIMENSIONS]], options: &[&str]) -> anyhow::Result<Cluster> {
    let cluster = Cluster::start(ClusterOptions::default())?;
    let files = files(&cluster, points)?;
    let files: Vec<_> = files.iter().map(|path| path.to_string_lossy()).collect();
    let create = ["collection", "create", "docs", "--like", &files[0], "--shards", "3", "--key", "id"];
    cluster.run(&[&create, options].concat())?;
    let push = |shard: &str, files: &[std::borrow::Cow<'_, str>]| {
        let files: Vec<&str> = files.iter().map(AsRef::as_ref).collect();
        cluster.run(&[&["segment", "push", "--collection", "docs", "--shard", shard], &files[..]].concat())
    };
    // No shard is empty, and none has all.
    push("shard-0", &files[..3])?;
    push("shard-1", &files[3..5])?;
    push("shard-2", &files[5..])?;
    cluster.run(&["load", "docs", "--resource-groups", "east,west", "--wait", "--timeout", "60s"])?;
    Ok(cluster)
}

fn json_of(cluster: &Cluster, args: &[&str]) -> anyhow::Result<Value> {
    let text = cluster.run(args)?;
    serde_json::from_str(&text).with_context(|| format!("{args:?} prints no JSON: {text}"))
}

/// What a command says that ends with this status.
fn ends_with(cluster: &Cluster, args: &[&str], status: i32) -> anyhow::Result<String> {
    let output = cluster.pointsman(args).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(status), "{args:?}: {} {text}", output.status);
    Ok(text)
}

/// Ids and distances of the rows of an answer.
fn found(rows: &Value) -> anyhow::Result<Vec<(u64, f64)>> {
    let pair = |row: &Value| Some((row["id"].as_u64()?, row["_distance"].as_f64()?));
    rows.as_array()
        .and_then(|rows| rows.iter().map(pair).collect())
        .with_context(|| format!("no pairs: {rows}"))
}

fn is_same(found: &[(u64, f64)], expected: &[(u64, f64)], what: &str) -> anyhow::Result<()> {
    let alike =
        |(a, b): (&(u64, f64), &(u64, f64))| a.0 == b.0 && (a.1 - b.1).abs() <= 1e-4 * (1.0 + b.1.abs());
    let same = found.len() == expected.len() && found.iter().zip(expected).all(alike);
    ensure!(same, "{what}: {found:?}, and a loop finds {expected:?}");
    Ok(())
}

#[test]
fn searches_find_what_a_loop_over_all_vectors_finds() -> anyhow::Result<()> {
    let points = points();
    let cluster = start(&points, &[])?;
    let query = points[17].map(|number| number + 0.3);
    let vector = json!(query).to_string();
    for (metric, odd_only, group) in METRICS.iter().flat_map(|metric| {
        [(metric, false, None), (metric, true, Some("east")), (metric, false, Some("west"))]
    }) {
        let mut args = vec![
            "search",
            "docs",
            "--vector",
            &vector,
            "--k",
            "12",
            "--metric",
            metric,
            "--columns",
            "id,word",
            "--json",
        ];
        args.extend(odd_only.then_some(["--filter", "word = 'odd'"]).into_iter().flatten());
        args.extend(group.map(|group| ["--resource-group", group]).into_iter().flatten());
        let answer = json_of(&cluster, &args)?;
        let expected = nearest(&points, &query, metric, 12, odd_only);
        is_same(&found(&answer["rows"][0])?, &expected, &args.join(" "))?;
        let shards = answer["coverage"]["shards"].as_array().context("who answered")?;
        ensure!(shards.len() == 3 && answer["coverage"]["segments"] == SEGMENTS, "{answer}");
        ensure!(
            shards.iter().all(|shard| group.is_none_or(|group| shard["resource_group"] == group)),
            "{answer}"
        );

        let body = json!({
            "collection": "docs", "vector": query, "k": 12, "metric": metric, "columns": ["id"],
            "filter": odd_only.then_some("word = 'odd'"), "resource_group": group,
        });
        let (status, text) = cluster.sql().post("/v1/search", &body.to_string())?;
        ensure!(status == 200, "{status}: {text}");
        let answer: Value = serde_json::from_str(&text)?;
        is_same(&found(&answer["rows"][0])?, &expected, &body.to_string())?;
    }

    let several = cluster.data_dir().join("queries.json");
    std::fs::write(&several, json!([points[3], points[4]]).to_string())?;
    let several = several.to_string_lossy().into_owned();
    let answer = json_of(&cluster, &["search", "docs", "--vector-file", &several, "--k", "1", "--json"])?;
    assert_eq!((&answer["rows"][0][0]["id"], &answer["rows"][1][0]["id"]), (&json!(3), &json!(4)));
    let csv = cluster.run(&["search", "docs", "--vector-file", &several, "--k", "1", "--format", "csv"])?;
    assert_eq!(csv.lines().next(), Some("_query,_distance,id"));
    let shown = cluster.run(&["search", "docs", "--vector", &vector, "--columns", "id,embedding"])?;
    assert!(shown.contains("... ") == (DIMENSIONS > 8) && !shown.contains("_query"), "{shown}");
    Ok(())
}

#[test]
fn rows_are_got_by_key_and_listed_by_condition() -> anyhow::Result<()> {
    let points = points();
    let cluster = start(&points, &[])?;
    let got = json_of(&cluster, &["get", "docs", "2999", "0", "77777", "--columns", "id,word", "--json"])?;
    assert_eq!(got["rows"], json!([{"id": 2999, "word": "odd"}, {"id": 0, "word": "even"}]));
    let got = json_of(&cluster, &["get", "docs", "--key", "5", "--json"])?;
    let vector: Vec<f32> = serde_json::from_value(got["rows"][0]["embedding"].clone())?;
    assert_eq!(vector, points[5]);
    let listed = [
        "rows",
        "docs",
        "--filter",
        "word = 'odd' AND id > 100",
        "--columns",
        "id",
        "--limit",
        "3",
        "--json",
    ];
    assert_eq!(json_of(&cluster, &listed)?["rows"], json!([{"id": 101}, {"id": 103}, {"id": 105}]));

    let sql = cluster.sql().query("SELECT embedding FROM docs WHERE id = 2999")?;
    let vector: Vec<f32> = serde_json::from_value(sql.rows()?[0][0].clone())?;
    assert_eq!(vector, points[2999]);
    Ok(())
}

#[test]
fn what_makes_no_sense_or_is_not_there_yet_is_told() -> anyhow::Result<()> {
    let cluster = start(&points(), &[])?;
    for (args, status, told) in [
        (&["search", "docs", "--vector", "1,x"][..], 2, "component 1 ('x')"),
        (&["search", "docs", "--vector", "1,2"], 1, "8"),
        (&["search", "dogs", "--vector", "1,2"], 1, "docs"),
        (&["search", "docs", "--vector", "1,2,3,4,5,6,7,8", "--columns", "wort"], 1, "word"),
        (&["rows", "docs", "--filter", "wort = 1"], 1, "wort"),
        (&["rows", "docs", "--resource-group", "nowhere"], 1, "nowhere"),
        (&["get", "docs", "x"], 1, "id"),
    ] {
        let text = ends_with(&cluster, args, status)?;
        assert!(text.contains(told), "{args:?}: {text}");
    }
    cluster.run(&["collection", "alter", "docs", "--no-key"])?;
    eventually("a broker without the key", LIMIT, || {
        let text = ends_with(&cluster, &["get", "docs", "1"], 1)?;
        ensure!(text.contains("key"), "{text}");
        Ok(())
    })?;
    for (options, told) in [
        (&["--key", "idd"][..], "did you mean id?"),
        (&["--vector-index", "word"], "holds no vectors"),
        (&["--vector-index", "embedding:euclid"], "inner_product"),
    ] {
        let output = cluster.pointsman(&[&["collection", "alter", "docs"], options].concat()).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(told), "{options:?}: {text}");
    }
    let file = files(&cluster, &points())?.pop().context("a file")?;
    let list = file.to_string_lossy();
    cluster.run(&[
        "collection",
        "create",
        "narrow",
        "--column",
        "id bigint",
        "--column",
        "word text",
        "--column",
        "embedding vector(4)",
    ])?;
    let text = ends_with(&cluster, &["segment", "push", "--collection", "narrow", &list], 1)?;
    assert!(text.contains("a vector of 8 components, and those of the collection have 4"), "{text}");
    Ok(())
}

/// Of ten nearest rows each, how many an index finds.
fn recall(cluster: &Cluster, points: &[[f32; DIMENSIONS]], metric: &str) -> anyhow::Result<f64> {
    let queries: Vec<Vec<f32>> =
        (0..20).map(|at| points[at * 149].iter().map(|number| number + 0.1).collect()).collect();
    let file = cluster.data_dir().join("queries.json");
    std::fs::write(&file, json!(queries).to_string())?;
    let args = ["search", "docs", "--vector-file", &file.to_string_lossy(), "--metric", metric, "--json"];
    let answer = json_of(cluster, &args)?;
    let rows = answer["rows"].as_array().context("rows")?;
    let mut same = 0;
    for (at, query) in queries.iter().enumerate() {
        let expected = nearest(points, query, metric, 10, false);
        let found = rows[at].as_array().context("rows")?;
        same += found.iter().filter(|row| expected.iter().any(|(id, _)| row["id"] == *id)).count();
    }
    Ok(same as f64 / (queries.len() * 10) as f64)
}

/// Waits until so many segments are searched by index, in each group.
fn indexed(cluster: &Cluster, metric: &str, segments: usize) -> anyhow::Result<()> {
    let vector = json!(vec![0.5; DIMENSIONS]).to_string();
    eventually("indexes on all nodes", LIMIT, || {
        for group in ["east", "west"] {
            let args = [
                "search",
                "docs",
                "--vector",
                &vector,
                "--metric",
                metric,
                "--resource-group",
                group,
                "--json",
            ];
            let answer = json_of(cluster, &args)?;
            ensure!(answer["coverage"]["indexed_segments"] == segments, "{group}: {}", answer["coverage"]);
        }
        Ok(())
    })
}

#[test]
fn an_index_finds_nearly_all_and_changes_while_it_serves() -> anyhow::Result<()> {
    let points = points();
    let cluster = start(&points, &["--vector-index", "embedding:l2"])?;
    indexed(&cluster, "l2", SEGMENTS)?;
    ensure!(recall(&cluster, &points, "l2")? >= 0.95, "it finds too few");
    indexed(&cluster, "cosine", 0)?;
    ensure!(recall(&cluster, &points, "cosine")? >= 1.0, "by another metric it is exact");

    cluster.run(&["collection", "alter", "docs", "--vector-index", "embedding:cosine"])?;
    indexed(&cluster, "cosine", SEGMENTS)?;
    ensure!(recall(&cluster, &points, "cosine")? >= 0.95, "it finds too few");
    let shown = json_of(&cluster, &["collection", "show", "docs", "--json"])?;
    assert_eq!(shown["vector_indexes"], json!([{"column": "embedding", "metric": "cosine"}]));

    cluster.run(&["collection", "alter", "docs", "--no-vector-index", "embedding"])?;
    indexed(&cluster, "cosine", 0)?;
    ensure!(recall(&cluster, &points, "l2")? >= 1.0, "without an index it is exact");
    Ok(())
}
