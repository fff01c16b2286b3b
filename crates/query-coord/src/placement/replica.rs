//! Handing out segments in one replica.

use pointsman_ids::{CollectionId, NodeName, SegmentId};

use super::{Glance, Seats, Tried};
use crate::{
    NodeIndex, Replica, SessionState, Slot, Stores,
    balance::{
        Eligible, Moving, NodeLoad, Piece, ReplicaLoad, ReplicaPlan, SegmentMove, assign, plan_replica,
    },
};

/// Nodes of a replica by name, with their load.
pub(super) struct Load {
    indexes: Vec<NodeIndex>,
    pub(super) nodes: Vec<NodeLoad>,
    /// For each shard of the replica's collection the place of the node that leads it.
    pub(super) leads: Vec<Option<usize>>,
}

impl Load {
    pub(super) fn of(stores: &Stores, glance: &Glance, seats: &Seats, at: usize, replica: &Replica) -> Self {
        let mut names: Vec<&NodeName> = replica.all_nodes().collect();
        names.sort_unstable();
        let shards = stores.shards_of_targets(replica.collection).into_iter();
        let leader = |shard| names.binary_search(&stores.leads.get(&(replica.id, shard))?).ok();
        let leads: Vec<Option<usize>> = shards.map(leader).collect();
        let mut load = Self { indexes: Vec::new(), nodes: Vec::new(), leads };
        for (place, name) in names.iter().enumerate() {
            let Some(node) = stores.whereabouts.index(name.as_str()) else { continue };
            let (rows, all_rows) = stores.placement.rows_on(replica.collection, node);
            let led = load.leads.iter().filter(|leader| **leader == Some(place)).count();
            load.indexes.push(node);
            load.nodes.push(NodeLoad {
                writable: seats.is_writable(node, at) && glance.session(node) != SessionState::Stopping,
                normal: glance.takes(node),
                memory: glance.node(node).and_then(|node| node.memory),
                rows,
                all_rows,
                leads: u32::try_from(led).unwrap_or(u32::MAX),
            });
        }
        load
    }

    /// The node at a place of the list.
    pub(super) fn node(&self, at: usize) -> Option<NodeIndex> {
        self.indexes.get(at).copied()
    }
}

/// Finds places for what needs one. What nobody takes keeps the place that it had, so that a node that comes back finds
/// itself as it was; but not one that failed to load it.
pub(super) fn settle(stores: &mut Stores, glance: &Glance, seats: &Seats, at: usize, replica: &Replica) {
    let seeking: Vec<SegmentId> = stores.placement.seeking_in(replica).collect();
    if seeking.is_empty() {
        return;
    }
    let former: Vec<(SegmentId, NodeIndex)> = seeking
        .iter()
        .filter_map(|segment| Some((*segment, stores.placed_in(seats, at, *segment)?)))
        .collect();
    // What it weighed where it was does not count any more.
    former.iter().for_each(|(segment, node)| stores.put(*segment, *node, false));
    let (moves, kept) = {
        let load = Load::of(stores, glance, seats, at, replica);
        let tried = Tried::of(stores, glance, seats, replica.collection, at);
        let takes = |segment, place| load.node(place).is_some_and(|node| tried.tries_next(segment, node));
        let pieces = seeking.iter().map(|segment| Piece {
            segment: *segment,
            rows: stores.weight(*segment),
            from: None,
        });
        let moves = assign(&stores.rules.balance, &load.nodes, pieces.collect(), takes);
        let moves: Vec<_> =
            moves.into_iter().filter_map(|made| Some((made.segment, load.node(made.to)?))).collect();
        let kept: Vec<_> =
            former.into_iter().filter(|(segment, node)| tried.times(*segment, *node) == 0).collect();
        (moves, kept)
    };
    for (segment, node) in moves {
        stores.put_in(glance, replica, segment, node);
    }
    for (segment, node) in kept {
        if stores.placed_in(seats, at, segment).is_none() {
            stores.put(segment, node, true);
        }
    }
}

/// Takes from nodes that became read-only what they have.
pub(super) fn drain(stores: &mut Stores, glance: &Glance, seats: &Seats, at: usize, replica: &Replica) {
    let moves = {
        let load = Load::of(stores, glance, seats, at, replica);
        if load.nodes.iter().all(|node| node.writable) {
            return;
        }
        let tried = Tried::of(stores, glance, seats, replica.collection, at);
        let moving = Moving::default();
        let state = ReplicaLoad { nodes: load.nodes.clone(), leads: load.leads.clone(), moving };
        let on = |place: usize| {
            load.node(place).map_or_else(Vec::new, |node| stores.placed_on(replica.collection, node))
        };
        let takes = |segment, place| load.node(place).is_some_and(|node| tried.tries_next(segment, node));
        let plan = plan_replica(&stores.rules.balance, Eligible::Drain, &state, on, takes);
        let ReplicaPlan::Segments(moves) = plan else { return };
        let named = |made: SegmentMove| Some((made.segment, load.node(made.from?)?, load.node(made.to)?));
        moves.into_iter().filter_map(named).collect::<Vec<_>>()
    };
    for (segment, from, to) in moves {
        stores.put(segment, from, false);
        stores.put_in(glance, replica, segment, to);
    }
}

impl Stores {
    /// Makes a node the place of a segment that needed one.
    fn put_in(&mut self, glance: &Glance, replica: &Replica, segment: SegmentId, node: NodeIndex) {
        self.put(segment, node, true);
        let slot = self.whereabouts.row(segment).and_then(|row| row.slot(node));
        let arrived = glance.is_known(node) && slot.is_some_and(Slot::holds);
        self.placement.note(replica, segment, false, !arrived);
    }

    /// The place of a segment in the replica at this place.
    fn placed_in(&self, seats: &Seats, replica: usize, segment: SegmentId) -> Option<NodeIndex> {
        let slots = self.whereabouts.row(segment)?.slots().filter(|slot| slot.is_placed());
        slots.map(|slot| slot.node()).find(|node| seats.is_in(*node, replica))
    }

    /// Segments of a collection whose place a node is, with what they weigh.
    pub(super) fn placed_on(&self, collection: CollectionId, node: NodeIndex) -> Vec<(SegmentId, u64)> {
        let placed = |segment: SegmentId| {
            let row = self.whereabouts.row(segment).filter(|row| row.collection() == collection)?;
            row.slot(node).filter(|slot| slot.is_placed()).map(|_| (segment, row.weight()))
        };
        self.whereabouts.on(node).filter_map(placed).collect()
    }

    fn weight(&self, segment: SegmentId) -> u64 {
        self.whereabouts.row(segment).map_or(1, |row| row.weight())
    }
}
