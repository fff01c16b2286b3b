//! The vectors of a segment's column, decoded.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, FixedSizeListArray},
    datatypes::{Field, Float32Type, Schema, SchemaRef},
};
use pointsman_ids::{Error, ErrorCode, Result};
use pointsman_vectors::{RowSet, Vectors};

use super::{
    memory::{Kept, Key, Memory, What},
    pause,
    segment::Segment,
};

/// Vectors one after the other, with zeros where a row has none.
#[derive(Debug)]
pub(super) struct Decoded {
    values: Vec<f32>,
    dims: usize,
    /// Rows that have a vector; `None`: all.
    present: Option<RowSet>,
}

impl Decoded {
    /// Bytes that the vectors of so many rows take.
    pub(super) fn bytes(rows: usize, dims: usize) -> u64 {
        let bits = rows.div_ceil(8);
        (rows.saturating_mul(dims).saturating_mul(size_of::<f32>()).saturating_add(bits)) as u64
    }

    pub(super) fn vectors(&self) -> Result<Vectors<'_>> {
        Vectors::new(&self.values, self.dims).map_err(super::broken)
    }

    pub(super) fn present(&self) -> Option<&RowSet> {
        self.present.as_ref()
    }

    /// The vectors of one batch alone.
    pub(super) fn of(lists: &FixedSizeListArray) -> Result<Self> {
        let dims = usize::try_from(lists.value_length()).map_err(super::broken)?;
        let mut filling = Filling::new(lists.len(), dims)?;
        filling.append(lists)?;
        Ok(filling.finish())
    }

    /// Reads all of a column, and gives way between batches.
    pub(super) async fn read(segment: &Segment, column: &Field, dims: usize) -> Result<Self> {
        let rows = segment.rows() as usize;
        let mut filling = Filling::new(rows, dims)?;
        let groups: Vec<usize> = (0..segment.groups().len()).collect();
        let mut scan = segment.scan(&alone(column), &groups);
        while let Some((_, batch)) = scan.next()? {
            filling.append(lists(batch.column(0))?)?;
            pause().await;
        }
        Ok(filling.finish())
    }

    /// As [`Self::read`], kept for others. `None` when there is no room for them.
    pub(super) async fn kept(
        segment: &Segment,
        column: &Field,
        dims: usize,
        memory: &Memory,
    ) -> Result<Option<Arc<Kept<Self>>>> {
        let key = Key { segment: segment.id, what: What::Vectors { column: column.name().clone() } };
        let bytes = Self::bytes(segment.rows() as usize, dims);
        memory.get(&key, bytes, Self::read(segment, column, dims), |_| bytes).await
    }
}

/// `service_too_many_requests`: what others use now may be free later.
pub(super) fn no_memory(what: &str) -> Error {
    Error::new(ErrorCode::ServiceTooManyRequests, format!("there is no memory for {what} now; try again"))
}

/// A schema of one column.
pub(super) fn alone(column: &Field) -> SchemaRef {
    Arc::new(Schema::new(vec![column.clone()]))
}

pub(super) fn lists(column: &dyn Array) -> Result<&FixedSizeListArray> {
    let lists = column.as_fixed_size_list_opt();
    lists.ok_or_else(|| super::broken(format!("a column of vectors is {}", column.data_type())))
}

/// Vectors while they are read.
pub(super) struct Filling {
    decoded: Decoded,
    absent: Vec<u32>,
}

impl Filling {
    /// Room for so many rows.
    ///
    /// # Errors
    /// `service_too_many_requests` when the system has no memory for them.
    pub(super) fn new(rows: usize, dims: usize) -> Result<Self> {
        let mut values = Vec::new();
        let room = rows.checked_mul(dims).map(|room| values.try_reserve_exact(room));
        if !matches!(room, Some(Ok(()))) {
            return Err(no_memory(&format!("{rows} vectors of {dims} dimensions")));
        }
        Ok(Self { decoded: Decoded { values, dims, present: None }, absent: vec![] })
    }

    pub(super) fn append(&mut self, lists: &FixedSizeListArray) -> Result<()> {
        let Decoded { values, dims, .. } = &mut self.decoded;
        let numbers = lists.values().as_primitive_opt::<Float32Type>();
        let numbers = numbers.ok_or_else(|| super::broken("components of vectors are no Float32"))?;
        if usize::try_from(lists.value_length()) != Ok(*dims) {
            return Err(super::broken("vectors of a column differ in their dimensions"));
        }
        let first = values.len() / *dims;
        values.extend_from_slice(numbers.values());
        if lists.null_count() == 0 && numbers.null_count() == 0 {
            return Ok(());
        }
        for row in 0..lists.len() {
            // A vector that lacks a component is none.
            let holes = numbers.nulls().is_some_and(|nulls| nulls.slice(row * *dims, *dims).null_count() > 0);
            if lists.is_null(row) || holes {
                values[(first + row) * *dims..][..*dims].fill(0.0);
                self.absent.push(u32::try_from(first + row).map_err(super::broken)?);
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Decoded {
        if !self.absent.is_empty() {
            let rows = self.decoded.values.len() / self.decoded.dims;
            let mut absent = self.absent.iter().peekable();
            let is_present = |row: usize| absent.next_if(|gone| **gone as usize == row).is_none();
            self.decoded.present = Some(RowSet::new(rows, is_present));
        }
        self.decoded
    }
}
