//! Columns of answers: those that the caller sees, and before them hidden ones by which parts are merged.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
    row::{RowConverter, Rows},
};
use pointsman_ids::{Error, ErrorCode, Result};

use super::key::{KeyColumn, last_nulls};

/// Name of the column with the place of the vector in the request.
pub const QUERY_COLUMN: &str = "_query";
/// Name of the column with the distance.
pub const DISTANCE_COLUMN: &str = "_distance";

/// What is asked for, as far as columns depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    Search,
    Get,
    Query,
}

/// Where what stands.
#[derive(Clone)]
pub(super) struct Layout {
    asking: Asking,
    /// Whether the key is among the hidden columns.
    has_key: bool,
    /// What is read from segments: the hidden key, then the columns that were asked for.
    pub(super) fetched: SchemaRef,
    /// Columns of a part.
    pub(super) part: SchemaRef,
    /// Columns of the finished answer.
    pub(super) finished: SchemaRef,
    /// By which columns of a part its rows are in order.
    by: Vec<usize>,
    order: Arc<RowConverter>,
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout").field("part", &self.part).field("by", &self.by).finish_non_exhaustive()
    }
}

impl Layout {
    /// # Errors
    /// `parameter_invalid` for a column whose name an answer has for itself.
    pub(super) fn new(asking: Asking, key: Option<&KeyColumn>, columns: Vec<Field>) -> Result<Self> {
        let key = key.filter(|_| asking != Asking::Get).map(|key| key.field.clone().with_nullable(true));
        let has_key = key.is_some();
        let numbers =
            [Field::new("segment", DataType::UInt64, false), Field::new("row", DataType::UInt32, false)];
        let place = || Field::new(QUERY_COLUMN, DataType::UInt32, false);
        let own = match asking {
            Asking::Search => vec![place(), Field::new(DISTANCE_COLUMN, DataType::Float32, false)],
            Asking::Get | Asking::Query => vec![],
        };
        if let Some(taken) = columns.iter().find(|column| own.iter().any(|own| own.name() == column.name())) {
            let name = taken.name();
            let why =
                format!("column '{name}' cannot be in the answer of a search, which has its own '{name}'");
            return Err(Error::new(ErrorCode::ParameterInvalid, why));
        }
        let (hidden, by) = match asking {
            Asking::Search if has_key => (vec![], vec![3, 4, 2, 0, 1]),
            Asking::Search => (vec![], vec![2, 3, 0, 1]),
            Asking::Get => (vec![place()], vec![0, 1, 2]),
            Asking::Query if has_key => (vec![], vec![2, 0, 1]),
            Asking::Query => (vec![], vec![0, 1]),
        };
        let schema = |fields: Vec<Field>| Arc::new(Schema::new(fields));
        let finished: Vec<Field> = own.into_iter().chain(columns.iter().cloned()).collect();
        let hidden = hidden.into_iter().chain(numbers).chain(key.iter().cloned());
        let part = schema(hidden.chain(finished.iter().cloned()).collect());
        let sorted = by.iter().map(|at| last_nulls(part.field(*at).data_type().clone())).collect();
        let order = Arc::new(RowConverter::new(sorted).map_err(super::broken)?);
        let fetched = schema(key.into_iter().chain(columns).collect());
        Ok(Self { asking, has_key, fetched, part, finished: schema(finished), by, order })
    }

    /// A part from what was read and where it was found.
    pub(super) fn assemble(
        &self,
        places: ArrayRef,
        distances: ArrayRef,
        segments: ArrayRef,
        rows: ArrayRef,
        fetched: &RecordBatch,
    ) -> Result<RecordBatch> {
        let (key, columns) = fetched.columns().split_at(usize::from(self.has_key).min(fetched.num_columns()));
        let (before, own) = match self.asking {
            Asking::Search => (vec![], vec![places, distances]),
            Asking::Get => (vec![places], vec![]),
            Asking::Query => (vec![], vec![]),
        };
        let numbers = [segments, rows];
        let all = before.into_iter().chain(numbers).chain(key.iter().cloned()).chain(own);
        let all = all.chain(columns.iter().cloned()).collect();
        RecordBatch::try_new(Arc::clone(&self.part), all).map_err(super::broken)
    }

    /// The rows of a part as bytes that compare as the rows do.
    pub(super) fn ordered(&self, part: &RecordBatch) -> Result<Rows> {
        let columns: Vec<ArrayRef> = self.by.iter().map(|at| Arc::clone(part.column(*at))).collect();
        self.order.convert_columns(&columns).map_err(super::broken)
    }

    /// Place of the column that says which vector a row is near to.
    pub(super) fn query_column(&self) -> Option<usize> {
        (self.asking == Asking::Search).then(|| self.by[0])
    }

    /// The columns that the caller sees.
    pub(super) fn finish(&self, part: &RecordBatch) -> Result<RecordBatch> {
        let seen: Vec<usize> =
            (self.part.fields().len() - self.finished.fields().len()..part.num_columns()).collect();
        part.project(&seen).map_err(super::broken)
    }
}
