//! Millions of segments in and out of the metastore, against what the databases do with the same bytes alone. Figures are
//! told as lines of JSON.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark fails by a panic and tells its figures"
)]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures::TryStreamExt as _;
use pointsman_ids::{
    CollectionId, Epoch,
    catalog::{Checksum, Column, ColumnStatistics, NewSegment, Value, shard_name},
};
use pointsman_metastore::{
    LeaseOutcome, NewCollection, OpenOptions, SegmentsHeld, SharedMetastore, backup, check, open, restore,
};
use pointsman_testkit::Postgres;
use sqlx::{Connection as _, Executor as _, PgConnection};

/// Segments of the large push, unless the first argument says another number.
const MANY: u32 = 1_000_000;

/// Segments that change beside them.
const FEW: u32 = 100;

/// How often.
const ROUNDS: u32 = 5;

/// Columns with statistics.
const COLUMNS: i128 = 8;

/// The plain form of a segment's row.
const ROWS: &str = "id, collection, name, partition_name, shard, object, row_count, byte_count, checksum, statistics, \
                    created_at, dropped, dropped_at";

fn main() {
    let many = std::env::args().nth(1).and_then(|argument| argument.parse().ok()).unwrap_or(MANY);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Postgres::start().unwrap();
    runtime.block_on(async {
        let metastore = open(&server.url(), OpenOptions::default()).await.unwrap();
        measure("postgres", &metastore, many).await;
        floors(&server.url(), many).await;
        backups(&server.url(), many).await;
        drop(metastore);
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}/meta.db", folder.path().display());
        let metastore = open(&url, OpenOptions::default()).await.unwrap();
        measure("sqlite", &metastore, many).await;
    });
}

fn tell(figure: &str, value: f64, unit: &str) {
    println!("{}", serde_json::json!({ "figure": figure, "value": value, "unit": unit }));
}

fn rate(count: u32, took: Duration) -> f64 {
    f64::from(count) / took.as_secs_f64()
}

fn segment(number: u32) -> NewSegment {
    let bounds = |column: i128| {
        let low = i128::from(number) * 1000 + column;
        let (min, max) = match column % 4 {
            0 | 1 => (Value::Integer(low), Value::Integer(low + 999)),
            2 => (Value::Float(0.25), Value::Float(f64::from(number))),
            _ => (Value::Text(format!("a{number}")), Value::Text(format!("z{number}"))),
        };
        ColumnStatistics { nulls: Some(0), min: Some(min), max: Some(max) }
    };
    let mut checksum = [7; 32];
    checksum[..4].copy_from_slice(&number.to_le_bytes());
    NewSegment {
        name: format!("day-{:04}-part-{number:07}", number / 1000).parse().unwrap(),
        partition: format!("day-{:04}", number / 1000).parse().unwrap(),
        shard: Some(shard_name(number % 8)),
        object: format!("events/day-{:04}/part-{number:07}.parquet", number / 1000),
        rows: 100_000,
        bytes: 12_345_678,
        checksum: Checksum(checksum),
        statistics: (0..COLUMNS).map(|column| (format!("column_{column}"), bounds(column))).collect(),
    }
}

async fn collection(metastore: &SharedMetastore) -> (CollectionId, Epoch) {
    let outcome = metastore.take_lease("bench", Duration::from_secs(3600), Epoch(0)).await.unwrap();
    let LeaseOutcome::Taken(lease) = outcome else { panic!("{outcome:?}") };
    let column = Column { name: "x".into(), data_type: "Int64".into(), nullable: false };
    let new = NewCollection {
        name: "events".parse().unwrap(),
        columns: vec![column],
        options: Default::default(),
        created_at: 1,
    };
    (metastore.create_collection(lease.epoch, new).await.unwrap().id, lease.epoch)
}

async fn measure(database: &str, metastore: &SharedMetastore, many: u32) {
    let (id, epoch) = collection(metastore).await;
    let segments: Vec<NewSegment> = (0..many).map(segment).collect();
    let begin = Instant::now();
    let added = metastore.push_segments(epoch, id, segments, 1).await.unwrap().added;
    tell(&format!("{database}.push"), rate(many, begin.elapsed()), "rows/s");
    let begin = Instant::now();
    let changes = metastore.segment_changes(None).await.unwrap().unwrap();
    tell(&format!("{database}.read"), rate(many, begin.elapsed()), "rows/s");
    assert!(changes.live == added, "what is read is what was pushed");
    let mut held = SegmentsHeld { revision: changes.revision, last: added[added.len() - 1].id };
    drop((changes.live, added));
    // The best of a few: the first one also pays for what was thrown away before it.
    let (mut pushed, mut followed) = (Duration::MAX, Duration::MAX);
    for round in 0..ROUNDS {
        let first = many + round * FEW;
        let few = (first..first + FEW).map(segment).collect();
        let begin = Instant::now();
        let added = metastore.push_segments(epoch, id, few, 1).await.unwrap().added;
        pushed = pushed.min(begin.elapsed());
        let begin = Instant::now();
        let changes = metastore.segment_changes(Some(&held)).await.unwrap().unwrap();
        followed = followed.min(begin.elapsed());
        assert!(!changes.anew && changes.live == added);
        held = SegmentsHeld { revision: changes.revision, last: added[added.len() - 1].id };
    }
    tell(&format!("{database}.push_few"), pushed.as_secs_f64() * 1e3, "ms");
    tell(&format!("{database}.follow"), followed.as_secs_f64() * 1e3, "ms");
    let begin = Instant::now();
    for _ in 0..100 {
        metastore.revision().await.unwrap();
    }
    tell(&format!("{database}.revision"), begin.elapsed().as_secs_f64() * 10.0, "ms");
}

/// The same bytes through `COPY` alone, into a table like that of the segments and out of it.
async fn floors(url: &str, many: u32) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let sql = format!("COPY (SELECT {ROWS} FROM segments ORDER BY id) TO STDOUT (FORMAT BINARY)");
    let begin = Instant::now();
    let bytes: Vec<u8> = {
        let parts = connection.copy_out_raw(&sql).await.unwrap();
        parts
            .try_fold(Vec::new(), async |mut all, part| {
                all.extend(part);
                Ok(all)
            })
            .await
            .unwrap()
    };
    tell("postgres.read_floor", rate(many, begin.elapsed()), "rows/s");
    connection.execute("CREATE TABLE floor (LIKE segments INCLUDING ALL)").await.unwrap();
    let sql = format!("COPY floor ({ROWS}) FROM STDIN (FORMAT BINARY)");
    let begin = Instant::now();
    let mut copy = connection.copy_in_raw(&sql).await.unwrap();
    for part in bytes.chunks(1 << 20) {
        copy.send(part).await.unwrap();
    }
    copy.finish().await.unwrap();
    tell("postgres.push_floor", rate(many, begin.elapsed()), "rows/s");
    connection.execute("DROP TABLE floor").await.unwrap();
    tell("postgres.row", f64::from(u32::try_from(bytes.len()).unwrap()) / f64::from(many), "bytes");
}

async fn backups(url: &str, many: u32) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    connection.execute("UPDATE lease SET holder = NULL").await.unwrap();
    let mut file = Vec::new();
    let begin = Instant::now();
    let summary = backup(url, &mut file).await.unwrap();
    tell("backup", rate(many, begin.elapsed()), "rows/s");
    assert_eq!(summary.rows["segments"], u64::from(many + ROUNDS * FEW));
    tell("backup.file", f64::from(u32::try_from(file.len() >> 10).unwrap()) / 1024.0, "MiB");
    let begin = Instant::now();
    check(&mut file.as_slice()).unwrap();
    tell("backup.check", rate(many, begin.elapsed()), "rows/s");
    let begin = Instant::now();
    restore(url, &mut file.as_slice(), true).await.unwrap();
    tell("restore", rate(many, begin.elapsed()), "rows/s");
    let rows: BTreeMap<String, u64> = check(&mut file.as_slice()).unwrap().rows;
    let (segments,): (i64,) =
        sqlx::query_as("SELECT count(*) FROM segments").fetch_one(&mut connection).await.unwrap();
    assert_eq!(rows["segments"], segments.unsigned_abs());
}
