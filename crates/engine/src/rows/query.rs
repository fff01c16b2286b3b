//! The rows of one segment that meet a condition.

use std::sync::Arc;

use arrow::{
    array::{BooleanArray, RecordBatch},
    compute::filter,
    datatypes::{Schema, SchemaRef},
    row::Rows,
};
use pointsman_ids::Result;

use super::{
    filter::Filter, key::KeyColumn, pause, prune::by_condition, segment::Segment, smallest::Smallest,
};

/// A request for rows by condition, checked.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) filter: Option<Filter>,
    pub(super) key: Option<KeyColumn>,
    pub(super) limit: usize,
    /// What has to be read to choose rows: the condition's columns, then the key.
    schema: SchemaRef,
}

impl Query {
    pub(super) fn new(filter: Option<Filter>, key: Option<KeyColumn>, limit: usize) -> Self {
        let filtered = filter.iter().flat_map(|filter| filter.schema().fields().iter().cloned());
        let fields: Vec<_> = filtered.chain(key.iter().map(|key| Arc::new(key.field.clone()))).collect();
        Self { filter, key, limit, schema: Arc::new(Schema::new(fields)) }
    }

    /// The first `most` rows of a segment, which is the one at `place`, with how many were read.
    pub(super) async fn first(
        &self,
        segment: &Segment,
        place: usize,
        most: usize,
    ) -> Result<(Smallest, u64)> {
        let mut smallest = Smallest::new(most);
        let mut read = 0;
        let pruning = self.filter.as_ref().and_then(Filter::pruning);
        let mut scan = segment.scan(&self.schema, &by_condition(segment, pruning));
        // Without a key the first rows are the first ones.
        while !(self.key.is_none() && smallest.is_full())
            && let Some((first, batch)) = scan.next()?
        {
            read += batch.num_rows() as u64;
            let matches = self.filter.as_ref().map(|filter| filter.matches(&batch)).transpose()?;
            let keys = self.keys(&batch, matches.as_ref())?;
            match &matches {
                Some(matches) => {
                    let rows =
                        (first..).zip(matches.values()).filter_map(|(row, meets)| meets.then_some(row));
                    smallest.offer(place, rows, keys.as_ref())?;
                }
                None => smallest.offer(place, (first..).take(batch.num_rows()), keys.as_ref())?,
            }
            pause().await;
        }
        Ok((smallest, read))
    }

    /// Keys of the rows that meet the condition.
    fn keys(&self, batch: &RecordBatch, matches: Option<&BooleanArray>) -> Result<Option<Rows>> {
        let Some((key, values)) = self.key.as_ref().zip(batch.columns().last()) else { return Ok(None) };
        match matches {
            Some(matches) => key.ordered(&filter(values, matches).map_err(super::broken)?).map(Some),
            None => key.ordered(values).map(Some),
        }
    }
}
