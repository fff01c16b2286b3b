//! Segments: push, lists, drop and purge.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{
    CollectionId, Epoch, PartitionName, SegmentId, SegmentName, ShardName,
    catalog::{Checksum, ColumnStatistics, NewSegment, Segment, Value},
};
use sqlx::{AssertSqlSafe, FromRow};

use crate::{
    PushOutcome, Result,
    catalog::{exists, not_found},
    session::{Bind, Session},
    statistics::{read_statistics, statistics},
    store::Store,
    stored::{Origin, int, refusal, text},
};

const TABLE: &str = "segments";

/// Rows per statement: well below the 32,766 values that SQLite takes, with 11 values a row.
const BATCH: usize = 1_000;

#[derive(FromRow)]
struct SegmentRow {
    id: i64,
    collection: i64,
    name: String,
    partition_name: String,
    shard: String,
    object: String,
    row_count: i64,
    byte_count: i64,
    checksum: Vec<u8>,
    statistics: String,
    created_at: i64,
}

impl SegmentRow {
    fn segment(self) -> Result<Segment> {
        let origin = Origin::new(TABLE, self.id);
        let shard = origin.read("shard", ShardName::new(&self.shard))?;
        Ok(Segment {
            id: SegmentId(origin.number("id", self.id)?),
            collection: CollectionId(origin.number("collection", self.collection)?),
            shard: shard.clone(),
            created_at: origin.number("created_at", self.created_at)?,
            content: NewSegment {
                name: origin.read("name", SegmentName::new(&self.name))?,
                partition: origin.read("partition_name", PartitionName::new(&self.partition_name))?,
                shard: Some(shard),
                object: self.object,
                rows: origin.number("row_count", self.row_count)?,
                bytes: origin.number("byte_count", self.byte_count)?,
                checksum: read_checksum(&origin, &self.checksum)?,
                statistics: read_statistics(&origin, &self.statistics)?,
            },
        })
    }
}

fn read_checksum(origin: &Origin, bytes: &[u8]) -> Result<Checksum> {
    let wrong = |_| format!("it has {} bytes instead of 32", bytes.len());
    origin.read("checksum", <[u8; 32]>::try_from(bytes).map_err(wrong)).map(Checksum)
}

/// Segments of a collection that are not dropped, by name.
pub(crate) async fn live(store: &Store, collection: CollectionId) -> Result<Vec<Segment>> {
    let collection = int("the collection's id", collection.0)?;
    let mut session = store.reading().await?;
    let rows: Vec<SegmentRow> =
        session.rows(TABLE, include_str!("segments_live.sql"), &[collection.into()]).await?;
    session.finish().await;
    rows.into_iter().map(SegmentRow::segment).collect()
}

/// Segments that wait for their purge, by id.
pub(crate) async fn dropped(store: &Store) -> Result<Vec<Segment>> {
    let mut session = store.reading().await?;
    let sql = "SELECT id, collection, name, partition_name, shard, object, row_count, byte_count, checksum, \
               statistics, created_at FROM segments WHERE dropped ORDER BY id";
    let rows: Vec<SegmentRow> = session.rows(TABLE, sql, &[]).await?;
    session.finish().await;
    rows.into_iter().map(SegmentRow::segment).collect()
}

/// Adds those of the segments that are not there yet, all or none.
pub(crate) async fn push(
    store: &Store,
    epoch: Epoch,
    collection: CollectionId,
    segments: Vec<NewSegment>,
    created_at: u64,
) -> Result<PushOutcome> {
    check(&segments)?;
    let (id, time) = (int("the collection's id", collection.0)?, int("the time", created_at)?);
    let mut session = store.writing(epoch).await?;
    if !exists(&mut session, id).await? {
        return Err(session.refuse(not_found(collection)).await);
    }
    let present = checksums(&mut session, id, &segments).await?;
    if let Err(conflict) = check_conflicts(&segments, &present) {
        return Err(session.refuse(conflict).await);
    }
    let pushed = segments.len();
    let fresh: Vec<_> =
        segments.into_iter().filter(|segment| !present.contains_key(segment.name.as_str())).collect();
    let count = int("the number of segments", fresh.len() as u64)?;
    let first = session.new_numbers("segment", count).await?;
    let mut added = Vec::with_capacity(fresh.len());
    for (number, content) in (first..).zip(fresh) {
        let shard = content.shard.clone().ok_or_else(|| no_shard(&content))?;
        let id = SegmentId(Origin::new("counters", "segment").number("last", number)?);
        added.push(Segment { id, collection, shard, created_at, content });
    }
    for batch in added.chunks(BATCH) {
        insert(&mut session, batch, time).await?;
    }
    session.commit().await?;
    let unchanged = (pushed - added.len()) as u64;
    Ok(PushOutcome { added, unchanged })
}

/// What can be wrong with a push on its own.
fn check(segments: &[NewSegment]) -> Result<()> {
    let mut names = BTreeSet::new();
    for segment in segments {
        if !names.insert(&segment.name) {
            return Err(refusal(format!("segment '{}' stands twice in the push", segment.name)));
        }
        if segment.shard.is_none() {
            return Err(no_shard(segment));
        }
        text("the object", &segment.object)?;
        if let Some((column, _)) = segment.statistics.iter().find(|(_, known)| has_nan(known)) {
            let text = format!("a bound of column '{column}' of segment '{}' is not a number", segment.name);
            return Err(refusal(text));
        }
    }
    Ok(())
}

fn no_shard(segment: &NewSegment) -> crate::Error {
    refusal(format!("segment '{}' names no shard", segment.name))
}

/// Bounds that are no number bound nothing.
fn has_nan(known: &ColumnStatistics) -> bool {
    let is_nan = |bound: &Option<Value>| matches!(bound, Some(Value::Float(value)) if value.is_nan());
    is_nan(&known.min) || is_nan(&known.max)
}

fn check_conflicts(segments: &[NewSegment], present: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    for segment in segments {
        let there = present.get(segment.name.as_str());
        if there.is_some_and(|checksum| *checksum != segment.checksum.0) {
            let text = format!(
                "segment '{}' is there with another checksum than {}; drop it first, or push under another name",
                segment.name, segment.checksum
            );
            return Err(refusal(text));
        }
    }
    Ok(())
}

/// Checksums of those of the segments that are there already, by name.
async fn checksums(
    session: &mut Session,
    collection: i64,
    segments: &[NewSegment],
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut present = BTreeMap::new();
    for batch in segments.chunks(BATCH) {
        let names = places(2, batch.len());
        let sql = format!(
            "SELECT name, checksum FROM segments WHERE collection = $1 AND NOT dropped AND name IN ({names})"
        );
        let mut values = vec![Bind::Int(collection)];
        values.extend(batch.iter().map(|segment| Bind::Text(segment.name.as_str())));
        present.extend(session.rows::<(String, Vec<u8>)>(TABLE, AssertSqlSafe(sql), &values).await?);
    }
    Ok(present)
}

async fn insert(session: &mut Session, segments: &[Segment], created_at: i64) -> Result<()> {
    let statistics = segments.iter().map(|segment| statistics(&segment.content.statistics));
    let statistics = statistics.collect::<Result<Vec<_>>>()?;
    let mut values: Vec<Bind<'_>> = Vec::with_capacity(segments.len() * 11);
    for (segment, statistics) in segments.iter().zip(&statistics) {
        values.extend([
            Bind::Int(int("the segment's id", segment.id.0)?),
            Bind::Int(int("the collection's id", segment.collection.0)?),
            Bind::Text(segment.content.name.as_str()),
            Bind::Text(segment.content.partition.as_str()),
            Bind::Text(segment.shard.as_str()),
            Bind::Text(&segment.content.object),
            Bind::Int(int("the number of rows", segment.content.rows)?),
            Bind::Int(int("the length", segment.content.bytes)?),
            Bind::Bytes(&segment.content.checksum.0),
            Bind::Text(statistics),
            Bind::Int(created_at),
        ]);
    }
    let rows = (0..segments.len()).map(|row| format!("({})", places(1 + row * 11, 11))).collect::<Vec<_>>();
    let sql = format!(
        "INSERT INTO segments (id, collection, name, partition_name, shard, object, row_count, byte_count, checksum, \
         statistics, created_at) VALUES {}",
        rows.join(", ")
    );
    session.execute(AssertSqlSafe(sql), &values).await?;
    Ok(())
}

/// Marks segments as dropped.
pub(crate) async fn drop_some(store: &Store, epoch: Epoch, segments: &[SegmentId]) -> Result<()> {
    for_each_batch(store, epoch, "UPDATE segments SET dropped = TRUE WHERE NOT dropped AND id IN", segments)
        .await
}

/// Removes dropped segments; those that are not dropped stay.
pub(crate) async fn purge(store: &Store, epoch: Epoch, segments: &[SegmentId]) -> Result<()> {
    for_each_batch(store, epoch, "DELETE FROM segments WHERE dropped AND id IN", segments).await
}

async fn for_each_batch(store: &Store, epoch: Epoch, statement: &str, segments: &[SegmentId]) -> Result<()> {
    // An id that the databases cannot even hold is unknown for certain.
    let ids: Vec<Bind<'_>> =
        segments.iter().filter_map(|id| i64::try_from(id.0).ok()).map(Bind::Int).collect();
    let mut session = store.writing(epoch).await?;
    for batch in ids.chunks(BATCH) {
        let sql = format!("{statement} ({})", places(1, batch.len()));
        session.execute(AssertSqlSafe(sql), batch).await?;
    }
    session.commit().await
}

/// `$3, $4` for 2 places from 3 on.
fn places(from: usize, count: usize) -> String {
    (from..from + count).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ")
}
