//! Pushes and replacements: which of the segments are new, and that all of them come in or none.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{
    CollectionId, Epoch, Error as Refusal, ErrorCode, SegmentId,
    catalog::{Checksum, ColumnStatistics, NewSegment, Segment, Value},
};

use super::{drop_within, insert, stage};
use crate::{
    Error, PushOutcome, Result,
    catalog::{exists, not_found},
    session::Session,
    statistics::statistics,
    store::Store,
    stored::{Origin, int, refusal, text},
};

/// Segments that go to the database together: few round trips, and each statement far within its limit.
const BATCH: usize = 20_000;

/// What is known of a batch, by place in it: the checksums of segments that are there already.
pub(super) type Present = BTreeMap<usize, Vec<u8>>;

/// Where a batch goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination {
    pub(super) collection: i64,
    pub(super) created_at: i64,
    /// Number of the first segment of the batch that is new; those after it follow.
    pub(super) first: i64,
}

/// Whether segments of a push may be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// With the same checksum they are left alone.
    LeftAlone,
    /// They refuse it.
    Refused,
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
    let mut session = store.writing(epoch).await?;
    let added = add_all(&mut session, collection, segments, created_at, Known::LeftAlone).await;
    end(session, added).await
}

/// Takes segments of a collection out and adds others, all of it or nothing.
pub(crate) async fn replace(
    store: &Store,
    epoch: Epoch,
    collection: CollectionId,
    old: &[SegmentId],
    new: Vec<NewSegment>,
    created_at: u64,
) -> Result<Vec<Segment>> {
    check(&new)?;
    let mut session = store.writing(epoch).await?;
    let replaced = async {
        let outcome = add_all(&mut session, collection, new, created_at, Known::Refused).await?;
        take_out(&mut session, old).await?;
        Ok(outcome.added)
    };
    let replaced = replaced.await;
    end(session, replaced).await
}

/// Makes a change last; undoes one that was refused.
async fn end<T>(session: Session, changed: Result<T>) -> Result<T> {
    match changed {
        Ok(done) => {
            session.commit().await?;
            Ok(done)
        }
        Err(refusal @ Error::Refused(_)) => Err(session.refuse(refusal).await),
        Err(error) => Err(error),
    }
}

async fn take_out(session: &mut Session, segments: &[SegmentId]) -> Result<()> {
    let dropped = drop_within(session, segments).await?;
    if dropped == segments.len() as u64 {
        return Ok(());
    }
    let text = format!("of {} segments to take out only {dropped} are there", segments.len());
    Err(Refusal::new(ErrorCode::SegmentNotFound, text).into())
}

async fn add_all(
    session: &mut Session,
    collection: CollectionId,
    segments: Vec<NewSegment>,
    created_at: u64,
    known: Known,
) -> Result<PushOutcome> {
    let (id, time) = (int("the collection's id", collection.0)?, int("the time", created_at)?);
    if !exists(session, id).await? {
        return Err(not_found(collection).into());
    }
    let mut outcome = PushOutcome { added: Vec::with_capacity(segments.len()), unchanged: 0 };
    let (mut rest, mut is_first) = (segments.into_iter(), true);
    loop {
        let batch: Vec<NewSegment> = rest.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let present = look(session, id, &batch, is_first).await?;
        is_first = false;
        check_conflicts(&batch, &present, known)?;
        outcome.unchanged += present.len() as u64;
        let count = int("the number of segments", (batch.len() - present.len()) as u64)?;
        if count == 0 {
            continue;
        }
        let first = session.new_numbers("segment", count).await?;
        let destination = Destination { collection: id, created_at: time, first };
        add(session, destination, &batch, &present).await?;
        let fresh = batch.into_iter().enumerate().filter(|(at, _)| !present.contains_key(at));
        for (number, (_, content)) in (first..).zip(fresh) {
            let number = Origin::new("counters", "segment").number("last", number)?;
            let shard = content.shard.clone().ok_or_else(|| no_shard(&content))?;
            outcome.added.push(Segment { id: SegmentId(number), collection, shard, created_at, content });
        }
    }
    Ok(outcome)
}

/// Finds out which segments of a batch are there already. PostgreSQL has the batch from then on.
async fn look(
    session: &mut Session,
    collection: i64,
    batch: &[NewSegment],
    is_first: bool,
) -> Result<Present> {
    if session.postgres().is_some() {
        stage::fill(session, batch, is_first).await?;
        stage::present(session, collection).await
    } else {
        insert::present(session, collection, batch).await
    }
}

/// Adds the segments of a batch that are not there yet.
async fn add(
    session: &mut Session,
    destination: Destination,
    batch: &[NewSegment],
    present: &Present,
) -> Result<()> {
    if session.postgres().is_some() {
        stage::add(session, destination, present).await
    } else {
        insert::add(session, destination, batch, present).await
    }
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
        int("the number of rows", segment.rows)?;
        int("the length", segment.bytes)?;
        if let Some((column, _)) = segment.statistics.iter().find(|(_, known)| has_nan(known)) {
            let text = format!("a bound of column '{column}' of segment '{}' is not a number", segment.name);
            return Err(refusal(text));
        }
    }
    Ok(())
}

fn no_shard(segment: &NewSegment) -> Error {
    refusal(format!("segment '{}' names no shard", segment.name))
}

/// Bounds that are no number bound nothing.
fn has_nan(known: &ColumnStatistics) -> bool {
    let is_nan = |bound: &Option<Value>| matches!(bound, Some(Value::Float(value)) if value.is_nan());
    is_nan(&known.min) || is_nan(&known.max)
}

fn check_conflicts(batch: &[NewSegment], present: &Present, known: Known) -> Result<()> {
    for (at, checksum) in present {
        let Some(segment) = batch.get(*at) else { continue };
        if known == Known::Refused {
            return Err(refusal(format!("segment '{}' is there already", segment.name)));
        }
        if *checksum != segment.checksum.0 {
            let text = format!(
                "segment '{}' is there with another checksum than {}; drop it first, or push under another name",
                segment.name, segment.checksum
            );
            return Err(refusal(text));
        }
    }
    Ok(())
}

/// A segment's values as the databases take them.
#[derive(Debug)]
pub(super) struct Values<'a> {
    pub(super) name: &'a str,
    pub(super) partition: &'a str,
    pub(super) shard: &'a str,
    pub(super) object: &'a str,
    pub(super) rows: i64,
    pub(super) bytes: i64,
    pub(super) checksum: &'a Checksum,
    pub(super) statistics: Vec<u8>,
}

impl<'a> Values<'a> {
    pub(super) fn of(segment: &'a NewSegment) -> Result<Self> {
        let mut stored = Vec::new();
        statistics(&segment.statistics, &mut stored);
        Ok(Self {
            name: segment.name.as_str(),
            partition: segment.partition.as_str(),
            shard: segment.shard.as_ref().ok_or_else(|| no_shard(segment))?.as_str(),
            object: &segment.object,
            rows: int("the number of rows", segment.rows)?,
            bytes: int("the length", segment.bytes)?,
            checksum: &segment.checksum,
            statistics: stored,
        })
    }
}
