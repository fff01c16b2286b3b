//! Rows of some segments, and how they become those of all.

use arrow::{
    array::{AsArray, RecordBatch},
    compute::interleave_record_batch,
    datatypes::UInt32Type,
};
use bytes::Bytes;
use pointsman_ids::Result;

use super::{
    Checked,
    checked::Kind,
    ipc,
    limits::{MAX_ROWS, answer_fits, at_most},
};
use crate::size::batch_bytes;

/// Rows of some of a collection's segments, ready to be merged with those of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Part(RecordBatch);

impl Part {
    pub(super) fn new(rows: RecordBatch) -> Self {
        Self(rows)
    }

    /// How many.
    pub fn rows(&self) -> usize {
        self.0.num_rows()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        batch_bytes(&self.0)
    }

    /// As an Arrow IPC stream, for [`Checked::decode`].
    ///
    /// # Errors
    /// `service_internal` when the encoder fails.
    pub fn encode(&self) -> Result<Bytes> {
        ipc::encode(&self.0)
    }
}

impl Checked {
    /// One part of several: the rows that are left of theirs, in order. The same whichever way parts are put together; of
    /// no parts, no rows.
    ///
    /// # Errors
    /// `parameter_too_large` when the rows take more than an answer may.
    pub fn merge(&self, parts: Vec<Part>) -> Result<Part> {
        let layout = self.layout();
        if parts.iter().all(|part| part.rows() == 0) {
            return Ok(Part(RecordBatch::new_empty(layout.part.clone())));
        }
        let batches: Vec<&RecordBatch> = parts.iter().map(|part| &part.0).collect();
        let ordered = batches.iter().map(|batch| layout.ordered(batch)).collect::<Result<Vec<_>>>()?;
        let rows = ordered
            .iter()
            .enumerate()
            .flat_map(|(part, rows)| (0..rows.num_rows()).map(move |row| (part, row)));
        let mut rows: Vec<(usize, usize)> = rows.collect();
        rows.sort_unstable_by(|a, b| ordered[a.0].row(a.1).cmp(&ordered[b.0].row(b.1)));
        match self.kind() {
            Kind::Search(search) => {
                let column = layout.query_column().unwrap_or_default();
                let queries =
                    batches.iter().map(|batch| batch.column(column).as_primitive_opt::<UInt32Type>());
                let queries = queries.collect::<Option<Vec<_>>>();
                let queries =
                    queries.ok_or_else(|| super::broken("a part does not say what it is near to"))?;
                let (mut last, mut count) = (None, 0);
                rows.retain(|(part, row)| {
                    let query = queries[*part].value(*row);
                    count = if last == Some(query) { count + 1 } else { 1 };
                    last = Some(query);
                    count <= search.k
                });
            }
            Kind::Get(_) => at_most("rows of these keys", rows.len(), MAX_ROWS)?,
            Kind::Query(query) => rows.truncate(query.limit),
        }
        let merged = interleave_record_batch(&batches, &rows).map_err(super::broken)?;
        answer_fits(batch_bytes(&merged))?;
        Ok(Part(merged))
    }

    /// The answer that a client sees, of what was merged from all parts.
    ///
    /// # Errors
    /// `service_internal` for a part of another question.
    pub fn finish(&self, part: &Part) -> Result<RecordBatch> {
        self.layout().finish(&part.0)
    }

    /// A part that a node encoded.
    ///
    /// # Errors
    /// `service_internal` for anything but a part of an answer to this question.
    pub fn decode(&self, bytes: Bytes) -> Result<Part> {
        let wanted = &self.layout().part;
        let rows = ipc::decode(bytes)?;
        if rows.schema_ref() != wanted {
            let why = format!("rows of {} came, rows of {wanted} were asked for", rows.schema_ref());
            return Err(super::broken(why));
        }
        Ok(Part(rows))
    }
}
