//! Segments: push, lists, drop and purge.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{
    CollectionId, Epoch, PartitionName, SegmentId, SegmentName, ShardName,
    catalog::{Checksum, ColumnStatistics, NewSegment, Segment, Value},
};
use serde::Serialize;
use sqlx::FromRow;

use crate::{
    PushOutcome, Result,
    catalog::{exists, not_found},
    dialect::Dialect,
    session::Session,
    statistics::{read_statistics, statistics},
    store::Store,
    stored::{Origin, int, json, refusal, text},
};

const TABLE: &str = "segments";

/// Segments per statement: few round trips, and each of them far within a statement's limit.
const BATCH: usize = 5_000;

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
        let number = Origin::new("counters", "segment").number("last", number)?;
        added.push(Segment { id: SegmentId(number), collection, shard, created_at, content });
    }
    insert(&mut session, id, &added, time).await?;
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
        let names = json(&batch.iter().map(|segment| segment.name.as_str()).collect::<Vec<_>>())?;
        let values = [collection.into(), names.as_str().into()];
        present.extend(session.rows::<(String, Vec<u8>)>(TABLE, session.dialect().checksums, &values).await?);
    }
    Ok(present)
}

/// A segment as a statement takes it; fields are named like their columns.
#[derive(Serialize)]
struct PushedSegment<'a> {
    id: i64,
    name: &'a str,
    partition_name: &'a str,
    shard: &'a str,
    object: &'a str,
    row_count: i64,
    byte_count: i64,
    /// Hexadecimal.
    checksum: String,
    statistics: String,
}

impl<'a> PushedSegment<'a> {
    fn of(segment: &'a Segment) -> Result<Self> {
        let digit = |four_bits: u8| char::from_digit(four_bits.into(), 16).unwrap_or_default();
        let checksum =
            segment.content.checksum.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        Ok(Self {
            id: int("the segment's id", segment.id.0)?,
            name: segment.content.name.as_str(),
            partition_name: segment.content.partition.as_str(),
            shard: segment.shard.as_str(),
            object: &segment.content.object,
            row_count: int("the number of rows", segment.content.rows)?,
            byte_count: int("the length", segment.content.bytes)?,
            checksum: checksum.collect(),
            statistics: statistics(&segment.content.statistics)?,
        })
    }
}

async fn insert(session: &mut Session, collection: i64, segments: &[Segment], created_at: i64) -> Result<()> {
    for batch in segments.chunks(BATCH) {
        let pushed = json(&batch.iter().map(PushedSegment::of).collect::<Result<Vec<_>>>()?)?;
        let values = [pushed.as_str().into(), collection.into(), created_at.into()];
        session.execute(session.dialect().insert_segments, &values).await?;
    }
    Ok(())
}

/// Marks segments as dropped.
pub(crate) async fn drop_some(store: &Store, epoch: Epoch, segments: &[SegmentId]) -> Result<()> {
    for_each_batch(store, epoch, |dialect| dialect.drop_segments, segments).await
}

/// Removes dropped segments; those that are not dropped stay.
pub(crate) async fn purge(store: &Store, epoch: Epoch, segments: &[SegmentId]) -> Result<()> {
    for_each_batch(store, epoch, |dialect| dialect.purge_segments, segments).await
}

async fn for_each_batch(
    store: &Store,
    epoch: Epoch,
    statement: fn(&Dialect) -> &'static str,
    segments: &[SegmentId],
) -> Result<()> {
    let mut session = store.writing(epoch).await?;
    for batch in segments.chunks(BATCH) {
        // An id that the databases cannot even hold is unknown for certain.
        let ids = json(&batch.iter().filter_map(|id| i64::try_from(id.0).ok()).collect::<Vec<_>>())?;
        session.execute(statement(session.dialect()), &[ids.as_str().into()]).await?;
    }
    session.commit().await
}
