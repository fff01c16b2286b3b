//! Segments that cannot hold a row of the answer are not asked for.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch, StringArray},
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

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_keeps_what_did_not_change() {
    let cluster = cluster();
    let next = Catalog::build(&cluster.snapshot, Some(&cluster.catalog));
    let (old, new) = (cluster.catalog.entry("numbers"), next.entry("numbers"));
    assert!(Arc::ptr_eq(old.expect("a collection"), new.expect("a collection")));
    assert_eq!(next.snapshot_version(), cluster.snapshot.version);
}
