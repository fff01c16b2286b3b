//! The answer of a node to a question, from the segments that it holds.

use std::{num::NonZero, sync::Arc};

use arrow::{
    array::{ArrayRef, Float32Array, RecordBatch, UInt32Array, UInt64Array},
    compute::take_record_batch,
};
use datafusion::common::runtime::SpawnedTask;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use pointsman_ids::{Error, ErrorCode, Result, SegmentId, request::Looked};

use super::{
    RowStore,
    checked::{Checked, Kind},
    get::{Get, Hit},
    limits::{MAX_ROWS, answer_fits, at_most},
    memory::Memory,
    part::Part,
    pause,
    query::Query,
    search::{Nearest, Search},
    segment::Segment,
    smallest::Smallest,
    ties::{Bounds, winners},
};
use crate::size::batch_bytes;

/// Where segments come from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) store: Arc<dyn RowStore>,
    pub(super) memory: Memory,
}

/// A row of a segment that is in the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Winner {
    /// Place of the vector or the key in the request, else 0.
    pub(super) place: u32,
    /// Of searches alone.
    pub(super) distance: f32,
    pub(super) row: u32,
}

impl Checked {
    /// Answers from segments that the node holds. Rows come as they are merged with those of other segments.
    ///
    /// Work is spread over the threads of the runtime that this runs on, and gives way every few milliseconds; dropping
    /// the future ends it there.
    ///
    /// # Errors
    /// `segment_not_loaded` for a segment that the store does not open, `node_io_error` for one that cannot be read, of
    /// which the store hears; `service_too_many_requests` when memory is short; `sql_invalid` for a condition that cannot
    /// be computed over the rows; `parameter_too_large` for an answer that is too large.
    pub async fn answer(
        &self,
        segments: &[SegmentId],
        store: &Arc<dyn RowStore>,
        memory: &Memory,
    ) -> Result<(Part, Looked)> {
        let mut ids = segments.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let source = Source { store: Arc::clone(store), memory: memory.clone() };
        let opening = each(ids, {
            let (checked, source) = (self.clone(), source.clone());
            move |id| open(checked.clone(), id, source.clone())
        });
        let segments: Vec<Arc<Segment>> = opening.try_collect().await?;
        let mut looked = Looked { segments: segments.len() as u64, ..Looked::default() };
        let winners = match self.kind() {
            Kind::Search(search) => self.search(search, &segments, &source, &mut looked).await?,
            Kind::Get(get) => gets(get, &segments, &source, &mut looked).await?,
            Kind::Query(query) => queries(query, &segments, &source, &mut looked).await?,
        };
        let chosen = segments.into_iter().zip(winners).filter(|(_, winners)| !winners.is_empty()).collect();
        let fetching = each(chosen, {
            let checked = self.clone();
            let source = source.clone();
            move |(segment, winners)| fetch(checked.clone(), segment, winners, source.clone())
        });
        let mut parts = vec![];
        let mut bytes = 0;
        let mut fetching = std::pin::pin!(fetching);
        while let Some(rows) = fetching.try_next().await? {
            bytes += batch_bytes(&rows);
            answer_fits(bytes)?;
            parts.push(Part::new(rows));
        }
        Ok((self.merge(parts)?, looked))
    }

    async fn search(
        &self,
        search: &Arc<Search>,
        segments: &[Arc<Segment>],
        source: &Source,
        looked: &mut Looked,
    ) -> Result<Vec<Vec<Winner>>> {
        let searching = each(segments.to_vec(), {
            let (search, source) = (Arc::clone(search), source.clone());
            move |segment| search_one(Arc::clone(&search), segment, source.clone())
        });
        let mut bounds = Bounds::new(search.queries()?.rows(), search.k);
        let mut nearest: Vec<Nearest> = vec![];
        let mut searching = std::pin::pin!(searching);
        while let Some(mut found) = searching.try_next().await? {
            looked.indexed_segments += u64::from(found.indexed);
            looked.rows += found.rows;
            bounds.cut(&mut found);
            nearest.push(found);
        }
        winners(search, self.key(), segments, &nearest, source).await
    }
}

async fn gets(
    get: &Arc<Get>,
    segments: &[Arc<Segment>],
    source: &Source,
    looked: &mut Looked,
) -> Result<Vec<Vec<Winner>>> {
    let getting = each(segments.to_vec(), {
        let (get, source) = (Arc::clone(get), source.clone());
        move |segment| get_one(Arc::clone(&get), segment, source.clone())
    });
    let mut winners = vec![];
    let mut rows = 0;
    let mut getting = std::pin::pin!(getting);
    while let Some((hits, read)) = getting.try_next().await? {
        looked.rows += read;
        rows += hits.len();
        at_most("rows of these keys", rows, MAX_ROWS)?;
        let winner = |Hit { place, row }| Winner { place, distance: 0.0, row };
        winners.push(hits.into_iter().map(winner).collect());
    }
    Ok(winners)
}

async fn queries(
    query: &Arc<Query>,
    segments: &[Arc<Segment>],
    source: &Source,
    looked: &mut Looked,
) -> Result<Vec<Vec<Winner>>> {
    let mut smallest = Smallest::new(query.limit);
    if query.key.is_some() {
        let reading = each(segments.iter().cloned().enumerate().collect(), {
            let (query, source) = (Arc::clone(query), source.clone());
            move |(at, segment)| query_one(Arc::clone(&query), at, segment, source.clone(), query.limit)
        });
        let mut reading = std::pin::pin!(reading);
        while let Some((first, read)) = reading.try_next().await? {
            looked.rows += read;
            smallest.take_in(first)?;
        }
    } else {
        // The first segments may have enough.
        for (at, segment) in segments.iter().enumerate() {
            let most = query.limit - smallest.len();
            if most == 0 {
                break;
            }
            let work = query_one(Arc::clone(query), at, Arc::clone(segment), source.clone(), most);
            let (first, read) = work.await?;
            looked.rows += read;
            smallest.take_in(first)?;
        }
    }
    let mut winners: Vec<Vec<Winner>> = vec![vec![]; segments.len()];
    for keyed in smallest.into_sorted() {
        winners[keyed.segment].push(Winner { place: 0, distance: 0.0, row: keyed.row });
    }
    Ok(winners)
}

async fn open(checked: Checked, id: SegmentId, source: Source) -> Result<Arc<Segment>> {
    let opened = Segment::open(id, checked.collection(), &*source.store, &source.memory).await;
    Ok(Arc::new(watched(id, &source, opened)?))
}

async fn search_one(search: Arc<Search>, segment: Arc<Segment>, source: Source) -> Result<Nearest> {
    watched(segment.id, &source, search.nearest(&segment, &source).await)
}

async fn get_one(get: Arc<Get>, segment: Arc<Segment>, source: Source) -> Result<(Vec<Hit>, u64)> {
    watched(segment.id, &source, get.hits(&segment).await)
}

async fn query_one(
    query: Arc<Query>,
    at: usize,
    segment: Arc<Segment>,
    source: Source,
    most: usize,
) -> Result<(Smallest, u64)> {
    watched(segment.id, &source, query.first(&segment, at, most).await)
}

async fn fetch(
    checked: Checked,
    segment: Arc<Segment>,
    winners: Vec<Winner>,
    source: Source,
) -> Result<RecordBatch> {
    watched(segment.id, &source, rows_of(&checked, &segment, &winners).await)
}

/// The columns of the winning rows of a segment.
async fn rows_of(checked: &Checked, segment: &Segment, winners: &[Winner]) -> Result<RecordBatch> {
    let mut rows: Vec<u32> = winners.iter().map(|winner| winner.row).collect();
    rows.sort_unstable();
    rows.dedup();
    let mut batches = vec![];
    let mut bytes = 0;
    let mut pick = segment.pick(&checked.layout().fetched, &rows)?;
    while let Some(batch) = pick.next()? {
        bytes += batch_bytes(&batch);
        answer_fits(bytes)?;
        batches.push(batch);
        pause().await;
    }
    let fetched =
        arrow::compute::concat_batches(&checked.layout().fetched, &batches).map_err(super::broken)?;
    let at = winners.iter().map(|winner| rows.binary_search(&winner.row).map(|at| at as u32));
    let at: UInt32Array = at.collect::<Result<Vec<_>, _>>().map_err(super::broken)?.into();
    if rows.len() < winners.len() {
        repeated_fits(&fetched, &at)?;
    }
    let fetched = take_record_batch(&fetched, &at).map_err(super::broken)?;
    let places: ArrayRef = Arc::new(winners.iter().map(|winner| winner.place).collect::<UInt32Array>());
    let distances = Arc::new(winners.iter().map(|winner| winner.distance).collect::<Float32Array>());
    let segments = Arc::new(UInt64Array::from_value(segment.id.0, winners.len()));
    let numbers = Arc::new(winners.iter().map(|winner| winner.row).collect::<UInt32Array>());
    checked.layout().assemble(places, distances, segments, numbers, &fetched)
}

/// Whether an answer that has rows several times is not too large, before it is made.
fn repeated_fits(rows: &RecordBatch, at: &UInt32Array) -> Result<()> {
    let mut bytes = 0;
    let each: Vec<usize> = (0..rows.num_rows()).map(|row| batch_bytes(&rows.slice(row, 1))).collect();
    for at in at.values() {
        bytes += each.get(*at as usize).copied().unwrap_or_default();
        answer_fits(bytes)?;
    }
    Ok(())
}

/// Tells the store when a segment cannot be read.
pub(super) fn watched<T>(segment: SegmentId, source: &Source, result: Result<T>) -> Result<T> {
    result.inspect_err(|error| {
        if error.code() == ErrorCode::NodeIoError {
            tracing::warn!(%segment, %error, "a segment is suspected");
            source.store.suspect(segment);
        }
    })
}

/// Runs `work` for each on the threads of the runtime, as many at a time as there are cores, and gives what comes out in
/// order. Dropping the stream ends it.
fn each<T, R, F>(items: Vec<T>, mut work: impl FnMut(T) -> F) -> impl Stream<Item = Result<R>>
where
    R: Send + 'static,
    F: Future<Output = Result<R>> + Send + 'static,
{
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let running = stream::iter(items).map(move |item| {
        let task = SpawnedTask::spawn(work(item));
        async {
            task.join().await.unwrap_or_else(|error| {
                Err(Error::new(ErrorCode::ServiceInternal, format!("work on a segment broke off: {error}")))
            })
        }
    });
    running.buffered(cores)
}
