//! What moves in one replica.

use pointsman_ids::SegmentId;

use super::{
    BalanceSettings, Eligible, LeadMove, NodeLoad, Piece, SegmentMove, assign,
    leads::{balance_leads, drain_leads},
    score::Scores,
    segments::balance_segments,
};

/// A replica as balance sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLoad {
    /// Its nodes, writable and read-only, in the order of names.
    pub nodes: Vec<NodeLoad>,
    /// For each shard of the target, in order, the place of the node that leads it.
    pub leads: Vec<Option<usize>>,
    /// What moves in the collection already.
    pub moving: Moving,
}

/// What moves in a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moving {
    /// A lead.
    pub leads: bool,
    /// A segment.
    pub segments: bool,
}

/// What is to move in a replica: leads or segments, never both at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaPlan {
    /// Nothing.
    Rest,
    /// Leads.
    Leads(Vec<LeadMove>),
    /// Segments.
    Segments(Vec<SegmentMove>),
}

/// Plans one round of a replica. `movable` gives the segments with their rows that may leave a node: those that a
/// target lists, that the replica has exactly once, and that are not moving already; of read-only nodes everything that
/// is not moving already. `takes`: whether a node may be given a segment.
///
/// A replica with read-only nodes is drained and not evened out: leads first, and segments when no lead is left to
/// move. All of it moves at once, and without waiting for what moves already, since who waits for a drain has a deadline.
/// Evening out is leads first as well, at most a batch in a round.
pub fn plan_replica(
    settings: &BalanceSettings,
    eligible: Eligible,
    replica: &ReplicaLoad,
    movable: impl FnMut(usize) -> Vec<(SegmentId, u64)>,
    takes: impl Fn(SegmentId, usize) -> bool,
) -> ReplicaPlan {
    let ReplicaLoad { nodes, leads, moving } = replica;
    if eligible == Eligible::No || !nodes.iter().any(NodeLoad::is_candidate) {
        return ReplicaPlan::Rest;
    }
    if nodes.iter().any(|node| !node.writable) {
        return if settings.drain_stopping {
            drain(settings, replica, movable, takes)
        } else {
            ReplicaPlan::Rest
        };
    }
    if eligible < Eligible::Balance {
        return ReplicaPlan::Rest;
    }
    let led = if settings.leaders { balance_leads(nodes, leads, settings.leader_batch) } else { Vec::new() };
    if !led.is_empty() {
        return if moving.segments { ReplicaPlan::Rest } else { ReplicaPlan::Leads(led) };
    }
    if moving.leads {
        return ReplicaPlan::Rest;
    }
    let moves = balance_segments(&mut Scores::new(settings, nodes), settings.segment_batch, movable, takes);
    if moves.is_empty() { ReplicaPlan::Rest } else { ReplicaPlan::Segments(moves) }
}

fn drain(
    settings: &BalanceSettings,
    replica: &ReplicaLoad,
    mut movable: impl FnMut(usize) -> Vec<(SegmentId, u64)>,
    takes: impl Fn(SegmentId, usize) -> bool,
) -> ReplicaPlan {
    let ReplicaLoad { nodes, leads, .. } = replica;
    let led = drain_leads(nodes, leads);
    if !led.is_empty() {
        return ReplicaPlan::Leads(led);
    }
    let mut pieces = Vec::new();
    for (from, _) in nodes.iter().enumerate().filter(|(_, node)| !node.writable) {
        let leaving = movable(from).into_iter();
        pieces.extend(leaving.map(|(segment, rows)| Piece { segment, rows, from: Some(from) }));
    }
    let moves = assign(settings, nodes, pieces, takes);
    if moves.is_empty() { ReplicaPlan::Rest } else { ReplicaPlan::Segments(moves) }
}
