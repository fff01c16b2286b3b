//! What a copy of all segments lacks.
//!
//! Numbers grow and writers take turns, so what is new has a higher number than everything that the copy knows. What was
//! dropped stays until it is purged. A segment that was dropped and purged after the copy was made is the one thing
//! that leaves no trace; then everything is read.

use std::collections::BTreeMap;

use pointsman_ids::{CollectionId, SegmentId};

use super::rows::{Key, Read, pages};
use crate::{
    Result,
    changes::{self, SegmentChanges, SegmentsHeld},
    session::Session,
    store::Store,
    stored::{Origin, int},
};

pub(crate) async fn since(store: &Store, held: Option<&SegmentsHeld>) -> Result<Option<SegmentChanges>> {
    let mut session = store.snapshot().await?;
    let revision = changes::newest(store, &mut session).await?;
    if held.is_some_and(|held| held.revision == revision) {
        session.finish_unchanged().await?;
        return Ok(None);
    }
    let purged = purged(&mut session).await?;
    let known =
        held.filter(|held| held.revision.lineage == revision.lineage && purged <= held.revision.number);
    let last = known.map_or(Ok(0), |held| int("the segment's number", held.last.0))?;
    let read = pages(&mut session, include_str!("changed.sql"), &[], Key::Number(last)).await?;
    let (dropped, live): (Vec<Read>, Vec<Read>) = read.into_iter().partition(|(_, dropped)| *dropped);
    let all_dropped = all_dropped(&mut session).await?;
    session.finish_unchanged().await?;
    let segments = |read: Vec<Read>| read.into_iter().map(|(segment, _)| segment).collect();
    Ok(Some(SegmentChanges {
        revision,
        anew: known.is_none(),
        live: segments(live),
        dropped: segments(dropped),
        all_dropped,
    }))
}

/// The latest revision that dropped a segment of which nothing is known any more.
async fn purged(session: &mut Session) -> Result<u64> {
    let sql = "SELECT last FROM counters WHERE kind = 'purge'";
    let row: Option<(i64,)> = session.row("counters", sql, &[]).await?;
    Origin::new("counters", "purge").number("last", row.ok_or_else(|| changes::missing("purge"))?.0)
}

async fn all_dropped(session: &mut Session) -> Result<BTreeMap<SegmentId, CollectionId>> {
    let sql = "SELECT id, collection FROM segments WHERE dropped ORDER BY id";
    let rows: Vec<(i64, i64)> = session.rows(super::TABLE, sql, &[]).await?;
    let read = |(id, collection): (i64, i64)| {
        let origin = Origin::new(super::TABLE, id);
        let collection = CollectionId(origin.number("collection", collection)?);
        Ok((SegmentId(origin.number("id", id)?), collection))
    };
    rows.into_iter().map(read).collect()
}
