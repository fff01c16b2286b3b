//! Rows are held back until the last one is there: a query can be run again only while nothing was sent.

use arrow::record_batch::RecordBatch;
use futures::{Stream, StreamExt};
use pointsman_engine::batch_bytes;
use pointsman_settings::QuerySettings;
use tokio::time::Instant;

/// How much one answer may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Rows.
    pub(super) rows: usize,
    /// Bytes in memory.
    pub(super) bytes: usize,
}

impl From<&QuerySettings> for Limits {
    fn from(settings: &QuerySettings) -> Self {
        Self { rows: settings.max_result_rows, bytes: settings.max_result_bytes.as_usize() }
    }
}

/// The rows of an answer.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// All of them, or as many as the limits allow.
    pub(super) batches: Vec<RecordBatch>,
    /// The limit that cut the rows; `None`: they are all here.
    pub(super) cut: Option<Cut>,
    /// When the first rows came; `None`: there are none.
    pub(super) first_at: Option<Instant>,
}

/// Which limit cut the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// `broker.query.max_result_rows`.
    Rows(usize),
    /// `broker.query.max_result_bytes`.
    Bytes(usize),
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (limit, what, key) = match self {
            Self::Rows(limit) => (limit, "rows", "max_result_rows"),
            Self::Bytes(limit) => (limit, "bytes", "max_result_bytes"),
        };
        write!(
            f,
            "the result was cut at {limit} {what} (broker.query.{key}); ask for less, with LIMIT, filters or aggregates"
        )
    }
}

/// Takes rows until their end or a limit; what comes after a limit is not waited for.
///
/// # Errors
/// The first error of the stream.
pub(super) async fn collect<E>(
    mut stream: impl Stream<Item = Result<RecordBatch, E>> + Unpin,
    limits: Limits,
) -> Result<Rows, E> {
    let mut rows = Rows::default();
    let mut left = limits;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        rows.first_at.get_or_insert_with(Instant::now);
        if batch.num_rows() > left.rows {
            rows.batches.push(batch.slice(0, left.rows));
            rows.cut = Some(Cut::Rows(limits.rows));
            break;
        }
        let bytes = batch_bytes(&batch);
        if bytes > left.bytes {
            rows.cut = Some(Cut::Bytes(limits.bytes));
            break;
        }
        left = Limits { rows: left.rows - batch.num_rows(), bytes: left.bytes - bytes };
        rows.batches.push(batch);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc};

    use arrow::array::{Array, ArrayRef, Int64Array, StringViewArray};

    use super::*;

    fn batch(array: impl Array + 'static) -> RecordBatch {
        RecordBatch::try_from_iter([("c", Arc::new(array) as ArrayRef)]).unwrap()
    }

    async fn collected(batches: Vec<RecordBatch>, rows: usize, bytes: usize) -> (usize, Option<Cut>) {
        let stream = futures::stream::iter(batches.into_iter().map(Ok::<_, Infallible>));
        let rows = collect(stream, Limits { rows, bytes }).await.unwrap();
        (rows.batches.iter().map(RecordBatch::num_rows).sum(), rows.cut)
    }

    #[tokio::test]
    async fn rows_up_to_the_limit_are_all_there() {
        let numbers = || vec![batch(Int64Array::from(vec![1, 2])), batch(Int64Array::from(vec![3]))];
        assert_eq!(collected(numbers(), 3, 100).await, (3, None));
        assert_eq!(collected(numbers(), 2, 100).await, (2, Some(Cut::Rows(2))));
        assert_eq!(collected(numbers(), 1, 100).await, (1, Some(Cut::Rows(1))));
    }

    #[tokio::test]
    async fn bytes_are_counted_without_what_a_slice_leaves_out() {
        let whole = batch(Int64Array::from_iter_values(0..1000));
        let slices = (0..4).map(|at| whole.slice(at, 1)).collect();
        assert_eq!(collected(slices, 100, 32).await, (4, None));
        let text = "x".repeat(100);
        let texts = || vec![batch(StringViewArray::from(vec![text.as_str()]))];
        assert_eq!(collected(texts(), 100, 50).await, (0, Some(Cut::Bytes(50))));
        assert_eq!(collected(texts(), 100, 200).await, (1, None));
    }

    #[test]
    fn a_cut_names_the_limit_and_the_remedy() {
        let text = Cut::Rows(7).to_string();
        assert!(
            text.contains('7') && text.contains("broker.query.max_result_rows") && text.contains("LIMIT"),
            "{text}"
        );
    }
}
