//! Which segments of a replica move.

use pointsman_ids::SegmentId;

use super::{
    assign::{Piece, SegmentMove, assign_batch, sort},
    score::Scores,
};

/// Moves at most one batch from nodes above their share to nodes with room. `movable` gives what may leave a node: only
/// segments that a target lists, that the replica has exactly once, and that are not moving already; `takes` whether a node may be given a segment.
pub(super) fn balance_segments(
    scores: &mut Scores<'_>,
    limit: usize,
    mut movable: impl FnMut(usize) -> Vec<(SegmentId, u64)>,
    takes: impl Fn(SegmentId, usize) -> bool,
) -> Vec<SegmentMove> {
    let Some(roomiest) = scores.roomiest(|_| true) else { return Vec::new() };
    let mut batch = Vec::with_capacity(limit);
    let sources: Vec<usize> = scores.candidates().filter(|node| scores.above(*node) > 0.0).collect();
    for from in sources {
        if batch.len() >= limit {
            break;
        }
        // Where not even one row pays, nothing does.
        if !scores.pays(from, roomiest, 1) {
            continue;
        }
        let mut excess = scores.above(from);
        let mut segments = movable(from);
        segments.sort_unstable_by_key(|(segment, rows)| (*rows, *segment));
        for (segment, rows) in segments {
            if excess <= 0.0 || batch.len() >= limit {
                break;
            }
            // What does not pay with the roomiest node never will in this round, and must not take others' places.
            if scores.pays(from, roomiest, rows) {
                excess -= scores.weight(rows);
                batch.push(Piece { segment, rows, from: Some(from) });
            }
        }
    }
    sort(&mut batch);
    assign_batch(scores, &batch, takes)
}
