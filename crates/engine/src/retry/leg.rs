//! One task of a part: it runs on one node, and its rows count when it ended well.

use std::{collections::BTreeSet, sync::Arc};

use datafusion::{
    arrow::record_batch::RecordBatch,
    common::{DataFusionError, Result},
    physical_plan::ExecutionPlan,
};
use futures::{
    StreamExt,
    future::{join_all, try_join_all},
    stream::{BoxStream, select_all},
};
use url::Url;

use super::{
    Batches,
    outlet::{Outlet, Rows},
    part::Loss,
    room::Room,
};
use crate::{first::First, location::SegmentPath, size::batch_bytes};

/// Some segments of a part on one node.
#[derive(Debug)]
pub(super) struct Leg {
    /// Its worker.
    pub(super) url: Url,
    /// How often these segments were routed again.
    pub(super) hop: usize,
    pub(super) segments: BTreeSet<SegmentPath>,
    pub(super) plan: Arc<dyn ExecutionPlan>,
}

/// How a task ended otherwise than well.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Nobody has seen a row of it.
    Unseen(Arc<DataFusionError>),
    /// Some of its rows were handed over: they cannot be taken back.
    Seen(Arc<DataFusionError>),
    /// Its rows are not waited for any more, and nobody has seen one.
    Late,
}

impl Failure {
    /// A failure before any row was handed over.
    pub(super) fn unseen(error: impl Into<Arc<DataFusionError>>) -> Self {
        Self::Unseen(error.into())
    }
}

/// What may end a task before its rows do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched<'a> {
    /// Its node was lost.
    pub(super) loss: &'a Loss,
    /// The query's time has passed.
    pub(super) late: &'a First<()>,
}

/// Rows with the number of their partition.
type Numbered = BoxStream<'static, (usize, Result<RecordBatch>)>;

/// Reads a task to its end, holds its rows back for as long as there is room, and hands them over: all when it has
/// ended well, or as they come once there is no room.
pub(super) async fn run(
    partitions: Vec<Batches>,
    outlets: &[Outlet],
    mut room: Room,
    Watched { loss, late }: Watched<'_>,
) -> Result<(), Failure> {
    let numbered = |(number, rows): (usize, Batches)| rows.map(move |batch| (number, batch)).boxed();
    let mut rows = select_all(partitions.into_iter().enumerate().map(numbered));
    let mut held: Vec<Vec<RecordBatch>> = vec![vec![]; outlets.len()];
    let mut fits = true;
    while fits {
        let next = tokio::select! {
            biased;
            next = rows.next() => next,
            error = loss.wait() => return Err(Failure::unseen(error)),
            () = late.wait() => return Err(Failure::Late),
        };
        let Some((partition, batch)) = next else { break };
        let batch = batch.map_err(Failure::unseen)?;
        fits = room.grow(batch_bytes(&batch));
        held[partition].push(batch);
    }
    let room = Arc::new(room);
    let release = held.into_iter().zip(outlets).map(|(batches, outlet)| {
        let room = Some(Arc::clone(&room));
        outlet.rows(Rows { batches, room })
    });
    join_all(release).await;
    drop(room);
    let passing = try_join_all(rows.into_iter().map(|partition| pass(partition, outlets)));
    let passed = tokio::select! {
        biased;
        passed = passing => passed.map(drop).map_err(Arc::new),
        error = loss.wait() => Err(error),
    };
    passed.map_err(Failure::Seen)
}

/// Hands over what does not fit, batch by batch, for as long as it is wanted.
async fn pass(mut rows: Numbered, outlets: &[Outlet]) -> Result<()> {
    while let Some((partition, batch)) = rows.next().await {
        if !outlets[partition].rows(Rows { batches: vec![batch?], room: None }).await {
            break;
        }
    }
    Ok(())
}
