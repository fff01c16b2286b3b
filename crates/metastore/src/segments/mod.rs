//! Segments: lists, drop and purge; pushes and changes are next door.

pub(crate) mod changes;
mod insert;
pub(crate) mod push;
mod rows;
mod stage;

use pointsman_ids::{CollectionId, Epoch, SegmentId, catalog::Segment};

use self::rows::{Key, pages};
use crate::{
    Result,
    session::Session,
    store::Store,
    stored::{int, json},
};

const TABLE: &str = "segments";

/// Numbers of segments per statement.
const BATCH: usize = 5_000;

/// Segments of a collection that are not dropped, by name.
pub(crate) async fn live(store: &Store, collection: CollectionId) -> Result<Vec<Segment>> {
    let collection = int("the collection's id", collection.0)?;
    let mut session = store.snapshot().await?;
    let read = pages(&mut session, include_str!("live.sql"), &[collection], Key::FIRST_NAME).await?;
    session.finish_unchanged().await?;
    Ok(read.into_iter().map(|(segment, _)| segment).collect())
}

/// Segments that wait for their purge, by id.
pub(crate) async fn dropped(store: &Store) -> Result<Vec<Segment>> {
    let mut session = store.snapshot().await?;
    let read = pages(&mut session, include_str!("dropped.sql"), &[], Key::FIRST_NUMBER).await?;
    session.finish_unchanged().await?;
    Ok(read.into_iter().map(|(segment, _)| segment).collect())
}

/// Marks segments as dropped.
pub(crate) async fn drop_some(store: &Store, epoch: Epoch, segments: &[SegmentId]) -> Result<()> {
    let mut session = store.writing(epoch).await?;
    drop_within(&mut session, segments).await?;
    session.commit().await
}

/// The same as a part of a change. Gives how many were there.
async fn drop_within(session: &mut Session, segments: &[SegmentId]) -> Result<u64> {
    let mut dropped = 0;
    for batch in segments.chunks(BATCH) {
        dropped += session.execute(session.dialect().drop_segments, &[ids(batch)?.as_str().into()]).await?;
    }
    Ok(dropped)
}

/// Removes dropped segments; those that are not dropped stay. Who has not seen yet that they were dropped cannot learn
/// it any more, and has to know that.
pub(crate) async fn purge(store: &Store, epoch: Epoch, segments: &[SegmentId]) -> Result<()> {
    let mut session = store.writing(epoch).await?;
    let mut latest = 0;
    for batch in segments.chunks(BATCH) {
        let ids = ids(batch)?;
        let sql = session.dialect().purge_segments;
        let dropped_at: Vec<(i64,)> = session.rows(TABLE, sql, &[ids.as_str().into()]).await?;
        latest = dropped_at.into_iter().map(|(revision,)| revision).fold(latest, i64::max);
    }
    let sql = "UPDATE counters SET last = $1 WHERE kind = 'purge' AND last < $1";
    session.execute(sql, &[latest.into()]).await?;
    session.commit().await
}

/// Numbers as the statements take them. One that the databases cannot even hold is unknown for certain.
fn ids(segments: &[SegmentId]) -> Result<String> {
    json(&segments.iter().filter_map(|id| i64::try_from(id.0).ok()).collect::<Vec<_>>())
}
