//! One answer made of those of all shards.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use pointsman_engine::{
    batch_bytes,
    rows::{Checked, encode},
};
use pointsman_ids::{Error, ErrorCode, Result, request::Question};

/// The rows of an answer.
#[derive(Debug)]
pub(crate) struct Merged {
    batch: RecordBatch,
    /// Vectors of the search; `None`: it was none.
    vectors: Option<usize>,
}

impl Merged {
    /// Merges what shards answered, each with its name. `limits` are rows and bytes of an answer.
    ///
    /// # Errors
    /// `service_internal` naming a shard that answered something else; `parameter_too_large` for more than the limits.
    pub(super) fn of(
        checked: &Checked,
        rows: Vec<(Arc<str>, Vec<u8>)>,
        limits: (usize, usize),
    ) -> Result<Self> {
        let part = |(shard, rows): (Arc<str>, Vec<u8>)| {
            let decoded = checked.decode(rows.into());
            decoded.map_err(|error| error.context(format_args!("the answer of shard '{shard}'")))
        };
        let parts = rows.into_iter().map(part).collect::<Result<_>>()?;
        let batch = checked.finish(&checked.merge(parts)?)?;
        let (max_rows, max_bytes) = limits;
        at_most(batch.num_rows(), max_rows, "rows", "max_result_rows")?;
        at_most(batch_bytes(&batch), max_bytes, "bytes", "max_result_bytes")?;
        let vectors = match checked.question() {
            Question::Search(search) => Some(search.vectors.len()),
            Question::Get(_) | Question::Query(_) => None,
        };
        Ok(Self { batch, vectors })
    }

    /// The rows.
    pub(crate) fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Vectors of the search that the rows answer; `None`: it was none.
    pub(super) fn vectors(&self) -> Option<usize> {
        self.vectors
    }

    /// The rows as an Arrow IPC stream.
    ///
    /// # Errors
    /// `service_internal` when the encoder fails.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        encode(&self.batch).map(Into::into)
    }
}

/// An answer is whole or none: what a limit would cut is refused.
fn at_most(have: usize, limit: usize, what: &str, key: &str) -> Result<()> {
    if have <= limit {
        return Ok(());
    }
    let text = format!(
        "the answer has {have} {what}, at most {limit} are given (broker.query.{key}); ask for fewer rows or columns"
    );
    Err(Error::new(ErrorCode::ParameterTooLarge, text))
}
