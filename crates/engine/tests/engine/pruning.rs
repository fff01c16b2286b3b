//! Segments that cannot hold a row of the answer are not asked for.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, LargeStringArray, RecordBatch, StringArray},
    datatypes::SchemaRef,
};
use pointsman_engine::{Catalog, EngineSettings, WorkerSettings, ingest};

use crate::{
    cluster::Cluster,
    compare,
    data::{self, Table},
};

fn numbers(folder: &std::path::Path) -> Table {
    let folder = folder.join("numbers");
    std::fs::create_dir_all(&folder).expect("a folder");
    let paths = (0..4_i64).map(|part| {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(part * 10..part * 10 + 10));
        // The second segment lays text out differently, the third has no text at all.
        let texts: ArrayRef = match part {
            1 => Arc::new(LargeStringArray::from_iter_values((0..10).map(|n| format!("t{part}{n}")))),
            2 => Arc::new(StringArray::from(vec![None::<&str>; 10])),
            _ => Arc::new(StringArray::from_iter_values((0..10).map(|n| format!("t{part}{n}")))),
        };
        let batch = RecordBatch::try_from_iter_with_nullable([("k", keys, false), ("t", texts, true)])
            .expect("a batch");
        let path = folder.join(format!("part-{part}.parquet"));
        let schema: SchemaRef = batch.schema();
        ingest::write_parquet(&path, schema, [batch]).expect("a file");
        path
    });
    let paths = paths.collect();
    data::from_files("numbers", paths)
}

fn cluster() -> Cluster {
    let folder = tempfile::tempdir().expect("a folder");
    let table = numbers(folder.path());
    Cluster::start(folder, vec![table], 2, 1, EngineSettings::default(), WorkerSettings::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_leave_segments_out() {
    let cluster = cluster();
    let cases: [(&str, &[u32]); 9] = [
        ("k = 15", &[1]),
        ("k < 10 OR k >= 35", &[0, 3]),
        ("k > 100", &[]),
        ("k BETWEEN 8 AND 12", &[0, 1]),
        ("k IN (3, 33)", &[0, 3]),
        ("t = 't01'", &[0]),
        ("t IS NULL", &[2]),
        ("t IS NOT NULL", &[0, 1, 3]),
        ("k + 1 = 16", &[0, 1, 2, 3]),
    ];
    for (filter, asked) in cases {
        let planned = cluster.plan(&format!("SELECT * FROM numbers WHERE {filter}")).await.expect("a plan");
        if filter != "k + 1 = 16" {
            assert_eq!(planned.scans()[0].asked, asked, "{filter}");
            assert_eq!(planned.scans()[0].pruned as usize, 4 - asked.len(), "{filter}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pruned_and_mixed_files_are_read_right() {
    let cluster = cluster();
    let plain = compare::plain(&cluster).await;
    for sql in [
        "SELECT * FROM numbers",
        "SELECT * FROM numbers WHERE t >= 't15'",
        "SELECT count(*), min(t), max(t), count(t) FROM numbers",
        "SELECT * FROM numbers WHERE k > 100",
        "SELECT a.k, b.t FROM numbers a JOIN numbers b ON a.k = b.k + 1 WHERE b.k < 12",
        "SELECT a.k FROM numbers a LEFT JOIN (SELECT * FROM numbers WHERE k > 100) b ON a.k = b.k",
        "SELECT k FROM numbers WHERE t LIKE 't3%' ORDER BY k LIMIT 3",
    ] {
        compare::same(&cluster, &plain, sql).await;
    }
}

/// Two files of numbers and NaN: one as any writer leaves it, with bounds that leave NaN out, and one of ours.
fn with_nan(folder: &std::path::Path) -> Table {
    let folder = folder.join("nan");
    std::fs::create_dir_all(&folder).expect("a folder");
    let batch = |values: Vec<Option<f64>>| {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..values.len() as i64));
        let values: ArrayRef = Arc::new(Float64Array::from(values));
        RecordBatch::try_from_iter_with_nullable([("k", keys, false), ("v", values, true)]).expect("a batch")
    };
    let theirs = batch(vec![Some(f64::NAN), Some(1.0), Some(2.0), None]);
    let ours = batch(vec![Some(-f64::NAN), Some(-0.0), Some(f64::INFINITY), Some(f64::NAN), Some(5.0)]);
    let tame = batch(vec![Some(7.0), Some(8.0)]);
    let paths = ["theirs", "ours", "tame"].map(|name| folder.join(format!("{name}.parquet")));
    let file = std::fs::File::create(&paths[0]).expect("a file");
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, theirs.schema(), None).expect("a writer");
    writer.write(&theirs).expect("written");
    writer.close().expect("closed");
    ingest::write_parquet(&paths[1], ours.schema(), [ours]).expect("a file");
    ingest::write_parquet(&paths[2], tame.schema(), [tame]).expect("a file");
    data::from_files("nan", paths.to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_with_nan_are_not_pruned() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = with_nan(folder.path());
    let cluster =
        Cluster::start(folder, vec![table], 2, 1, EngineSettings::default(), WorkerSettings::default());
    let mut found = 0;
    for condition in [
        "= 'NaN'",
        "> 100",
        ">= 100",
        "> 1.5",
        "!= 1",
        "< 0",
        "<= -1",
        "= 2",
        "IN (2, 'NaN')",
        "BETWEEN 3 AND 'NaN'",
        "> 100 AND k >= 0",
        "IS NULL",
        "IS NOT NULL",
        "IS DISTINCT FROM 2",
        "> 6 OR v = 'NaN'",
    ] {
        let count = async |column: &str| {
            let sql = format!("SELECT k, v FROM nan WHERE {}", format!("v {condition}").replace('v', column));
            compare::rows(&cluster.run(&sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}")))
        };
        let (pruned, whole) = (count("v").await, count("(v + 0)").await);
        assert_eq!(pruned, whole, "v {condition}");
        found += usize::from(pruned.iter().any(|row| row.contains("NaN")));
    }
    assert!(found >= 8, "the cases must meet NaN");
    let planned = cluster.plan("SELECT * FROM nan WHERE v > 100").await.expect("a plan");
    assert_eq!(planned.scans()[0].asked, [0, 1], "bounds without NaN still prune");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_keeps_what_did_not_change() {
    let cluster = cluster();
    let next = Catalog::build(&cluster.snapshot, Some(&cluster.catalog));
    let (old, new) = (cluster.catalog.entry("numbers"), next.entry("numbers"));
    assert!(Arc::ptr_eq(old.expect("a collection"), new.expect("a collection")));
    assert_eq!(next.snapshot_version(), cluster.snapshot.version);
}
