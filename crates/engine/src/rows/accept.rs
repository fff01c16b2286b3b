//! Which rows of a segment meet a condition.

use pointsman_ids::Result;
use pointsman_vectors::RowSet;

use super::{filter::Filter, pause, prune::by_condition, segment::Segment};

/// The rows, with how many were read to know them; `None`: all.
pub(super) async fn accepted(segment: &Segment, filter: Option<&Filter>) -> Result<(Option<RowSet>, u64)> {
    let Some(filter) = filter else { return Ok((None, 0)) };
    let mut bits = vec![0_u64; (segment.rows() as usize).div_ceil(64)];
    let mut read = 0;
    let mut scan = segment.scan(filter.schema(), &by_condition(segment, filter.pruning()));
    while let Some((first, batch)) = scan.next()? {
        read += batch.num_rows() as u64;
        let matches = filter.matches(&batch)?;
        for row in matches.values().set_indices() {
            let row = first as usize + row;
            if let Some(word) = bits.get_mut(row / 64) {
                *word |= 1 << (row % 64);
            }
        }
        pause().await;
    }
    let accepted = RowSet::new(segment.rows() as usize, |row| bits[row / 64] >> (row % 64) & 1 == 1);
    Ok((Some(accepted), read))
}
