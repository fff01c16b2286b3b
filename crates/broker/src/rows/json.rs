//! Answers and errors of requests by shard as JSON.

use arrow::{array::AsArray, datatypes::UInt32Type, error::ArrowError};
use pointsman_engine::rows::QUERY_COLUMN;
use pointsman_shard_client::ShardError;
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap},
};

use super::{Coverage, Merged, RowsAnswer};
use crate::answer::{Cell, CellColumn};

/// An answer: `rows`, for a search one list of them per vector, and `coverage`.
#[derive(Debug)]
pub(crate) struct RowsBody<'a>(pub(crate) &'a RowsAnswer);

#[derive(Serialize)]
struct Body<'a> {
    rows: Rows<'a>,
    coverage: &'a Coverage,
}

impl Serialize for RowsBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RowsAnswer { rows, coverage } = self.0;
        Body { rows: Rows(rows), coverage }.serialize(serializer)
    }
}

struct Rows<'a>(&'a Merged);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table = Table::of(self.0).map_err(S::Error::custom)?;
        let count = self.0.batch().num_rows();
        match self.0.vectors() {
            None => serializer.collect_seq((0..count).map(|row| Row { table: &table, row })),
            Some(vectors) => serializer
                .collect_seq(table.by_vector(vectors).into_iter().map(|rows| Group { table: &table, rows })),
        }
    }
}

/// The columns, in the layouts that cells are written from.
struct Table<'a> {
    names: Vec<&'a str>,
    columns: Vec<CellColumn>,
    /// For each row of a search the place of its vector, ascending.
    places: Vec<u32>,
}

impl<'a> Table<'a> {
    fn of(merged: &'a Merged) -> Result<Self, ArrowError> {
        let (batch, is_search) = (merged.batch(), merged.vectors().is_some());
        let mut table = Self { names: vec![], columns: vec![], places: vec![] };
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            // The list that a row stands in says it.
            if is_search && field.name() == QUERY_COLUMN {
                table.places = array.as_primitive::<UInt32Type>().values().to_vec();
                continue;
            }
            table.names.push(field.name());
            table.columns.push(CellColumn::new(field, array)?);
        }
        Ok(table)
    }

    /// The rows of each vector; a vector may have none.
    fn by_vector(&self, vectors: usize) -> Vec<std::ops::Range<usize>> {
        let start = |vector: usize| self.places.partition_point(|place| (*place as usize) < vector);
        (0..vectors).map(|vector| start(vector)..start(vector + 1)).collect()
    }
}

struct Group<'a> {
    table: &'a Table<'a>,
    rows: std::ops::Range<usize>,
}

impl Serialize for Group<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.clone().map(|row| Row { table: self.table, row }))
    }
}

struct Row<'a> {
    table: &'a Table<'a>,
    row: usize,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(Some(self.table.names.len()))?;
        for (name, column) in self.table.names.iter().zip(&self.table.columns) {
            row.serialize_entry(name, &Cell { column, row: self.row })?;
        }
        row.end()
    }
}

/// An error as clients read it.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorBody<'a> {
    error: Told<'a>,
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    code: u32,
    name: &'static str,
    class: &'static str,
    retriable: bool,
    message: &'a str,
    /// When trying again makes sense, if somebody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl<'a> From<&'a ShardError> for ErrorBody<'a> {
    fn from(error: &'a ShardError) -> Self {
        let code = error.code();
        Self {
            error: Told {
                code: code.number(),
                name: code.name(),
                class: error.class().as_str(),
                retriable: error.is_retriable(),
                message: error.message(),
                retry_after_ms: error.retry_after().map(crate::millis),
            },
        }
    }
}
