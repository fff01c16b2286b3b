//! Handing out segments among the nodes of a replica.

use std::cmp::Reverse;

use pointsman_ids::SegmentId;

use super::{BalanceSettings, NodeLoad, score::Scores};

/// A segment that needs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The segment.
    pub segment: SegmentId,
    /// Its rows.
    pub rows: u64,
    /// The place of the node that it leaves; `None`: it has none.
    pub from: Option<usize>,
}

/// A segment with the node that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentMove {
    /// The segment.
    pub segment: SegmentId,
    /// The place of the node that it leaves; `None`: it had none.
    pub from: Option<usize>,
    /// The place of the node that takes it.
    pub to: usize,
}

/// Hands out all of the pieces, those with most rows first, each to the node of the lowest priority that `takes` it.
/// Shares are computed anew after each batch. What nobody takes is not in the answer. Costs the number of pieces by
/// that of nodes.
///
/// What leaves a node that may not keep it is taken from it whether that pays or not.
pub fn assign(
    settings: &BalanceSettings,
    nodes: &[NodeLoad],
    mut pieces: Vec<Piece>,
    takes: impl Fn(SegmentId, usize) -> bool,
) -> Vec<SegmentMove> {
    let mut scores = Scores::new(settings, nodes);
    sort(&mut pieces);
    let mut moves = Vec::with_capacity(pieces.len());
    for batch in pieces.chunks(settings.segment_batch.max(1)) {
        scores.renew();
        moves.extend(assign_batch(&mut scores, batch, &takes));
    }
    moves
}

/// Hands out one batch, which is in order. What is taken from another candidate moves only if that pays.
pub(super) fn assign_batch(
    scores: &mut Scores<'_>,
    batch: &[Piece],
    takes: impl Fn(SegmentId, usize) -> bool,
) -> Vec<SegmentMove> {
    let mut moves = Vec::with_capacity(batch.len());
    for piece in batch {
        let Some(to) = scores.roomiest(|node| takes(piece.segment, node)) else { continue };
        let source = piece.from.filter(|from| scores.is_candidate(*from));
        if source.is_some_and(|source| !scores.pays(source, to, piece.rows)) {
            continue;
        }
        scores.shift(piece.from, to, piece.rows);
        moves.push(SegmentMove { segment: piece.segment, from: piece.from, to });
    }
    moves
}

/// The order in which pieces are handed out: by rows descending, then by number.
pub(super) fn sort(pieces: &mut [Piece]) {
    pieces.sort_unstable_by_key(|piece| (Reverse(piece.rows), piece.segment));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(rows: u64) -> NodeLoad {
        NodeLoad { writable: true, normal: true, memory: None, rows, all_rows: rows, leads: 0 }
    }

    fn pieces(rows: &[u64]) -> Vec<Piece> {
        let piece = |(id, rows): (u64, &u64)| Piece { segment: SegmentId(id), rows: *rows, from: None };
        (1..).zip(rows).map(piece).collect()
    }

    fn targets(
        nodes: &[NodeLoad],
        rows: &[u64],
        takes: impl Fn(SegmentId, usize) -> bool,
    ) -> Vec<(u64, usize)> {
        let moves = assign(&BalanceSettings::default(), nodes, pieces(rows), takes);
        moves.iter().map(|made| (made.segment.0, made.to)).collect()
    }

    #[test]
    fn the_largest_goes_first_to_the_node_with_most_room_and_equals_to_the_first() {
        let placed = targets(&[node(0), node(0)], &[10, 30, 20, 10], |_, _| true);
        // 30 to the first, 20 to the second, 10 to the second (22 below 33), 10 to the first by name.
        assert_eq!(placed, [(2, 0), (3, 1), (1, 1), (4, 0)]);
    }

    #[test]
    fn what_is_there_counts_and_nodes_that_may_not_be_given_anything_get_nothing() {
        assert_eq!(targets(&[node(100), node(0)], &[10], |_, _| true), [(1, 1)]);
        let read_only = NodeLoad { writable: false, ..node(0) };
        let stopping = NodeLoad { normal: false, ..node(0) };
        assert_eq!(targets(&[read_only, stopping, node(500)], &[10, 10], |_, _| true), [(1, 2), (2, 2)]);
        assert_eq!(targets(&[read_only, stopping], &[10], |_, _| true), []);
    }

    #[test]
    fn a_node_that_does_not_take_a_segment_is_passed_over() {
        let not_first = |segment: SegmentId, node: usize| segment != SegmentId(1) || node != 0;
        assert_eq!(targets(&[node(0), node(90)], &[10, 10], not_first), [(1, 1), (2, 0)]);
        assert_eq!(targets(&[node(0), node(90)], &[10], |_, _| false), []);
    }

    #[test]
    fn memory_counts_from_the_second_batch_on_although_nothing_was_there() {
        let small = NodeLoad { memory: Some(100), ..node(0) };
        let large = NodeLoad { memory: Some(300), ..node(0) };
        let placed = targets(&[small, large], &[10; 40], |_, _| true);
        let on_small = placed.iter().filter(|(_, node)| *node == 0).count();
        assert!((9..=12).contains(&on_small), "{on_small}");
    }
}
