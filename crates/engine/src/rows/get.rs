//! The rows of one segment that have one of some keys.

use arrow::{
    array::{AsArray, UInt32Array},
    compute::filter,
    datatypes::UInt32Type,
};
use pointsman_ids::Result;

use super::{
    key::{Asked, KeyColumn},
    limits::{MAX_ROWS, at_most},
    pause,
    prune::by_keys,
    segment::Segment,
};

/// A request for rows by key, checked.
#[derive(Clone, Debug)]
pub(super) struct Get {
    pub(super) key: KeyColumn,
    pub(super) asked: Asked,
}

/// A row that has a key of the request, with the place of that key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) place: u32,
    pub(super) row: u32,
}

impl Get {
    /// The rows of a segment, in its order, with how many were read.
    pub(super) async fn hits(&self, segment: &Segment) -> Result<(Vec<Hit>, u64)> {
        let mut hits = vec![];
        let mut read = 0;
        let ranges = by_keys(segment, &self.key, &self.asked);
        let mut numbers = ranges.iter().cloned().flatten();
        let mut pick = segment.pick_ranges(&self.key.schema(), &ranges)?;
        while let Some(batch) = pick.next()? {
            read += batch.num_rows() as u64;
            let rows: UInt32Array = numbers.by_ref().take(batch.num_rows()).collect::<Vec<_>>().into();
            let held = self.asked.held(&batch)?;
            let (rows, keys) = (filter(&rows, &held), filter(batch.column(0), &held));
            let (rows, keys) = (rows.map_err(super::broken)?, keys.map_err(super::broken)?);
            let rows = rows.as_primitive::<UInt32Type>().values();
            let keys = self.key.ordered(&keys)?;
            let rows = rows.iter().zip(keys.iter());
            hits.extend(
                rows.filter_map(|(row, key)| Some(Hit { place: self.asked.place(key.data())?, row: *row })),
            );
            at_most("rows of these keys", hits.len(), MAX_ROWS)?;
            pause().await;
        }
        Ok((hits, read))
    }
}
