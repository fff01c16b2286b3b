//! One round of evening out load.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use pointsman_ids::{CollectionId, NodeName, ReplicaId, SegmentId, ShardName};

use super::{Glance, Seats, Tried, replica::Load, settled};
use crate::{
    LoadStatus, NodeIndex, Replica, Slot, Stores,
    balance::{CollectionState, Eligible, Moving, ReplicaLoad, ReplicaPlan, eligible, plan_replica},
    ready::leader_of,
    serves_alone,
};

/// What one round of balance moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebalanced {
    /// Segments with the nodes that they leave and go to.
    pub segments: Vec<(SegmentId, NodeIndex, NodeIndex)>,
    /// Leads with the nodes that they go to.
    pub leads: Vec<(ReplicaId, ShardName, NodeName)>,
}

impl Rebalanced {
    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.leads.is_empty()
    }

    /// Makes the moves: decisions alone; the rest follows from them.
    pub fn apply(self, stores: &mut Stores) {
        for (segment, from, to) in self.segments {
            stores.put(segment, from, false);
            stores.put(segment, to, true);
        }
        for (replica, shard, node) in self.leads {
            stores.leads.insert((replica, shard), node);
        }
    }
}

/// Plans one round of evening out load: larger collections first, and the nodes of a replica that something moves in
/// wait with their smaller ones for the next round, since what they have then is another thing.
pub fn rebalance(stores: &Stores) -> Rebalanced {
    let glance = Glance::of(stores);
    let mut busy: BTreeSet<&NodeName> = BTreeSet::new();
    let mut round = Rebalanced::default();
    for collection in stores.largest_first() {
        if eligible(&stores.rules.balance, stores.balance_state(&glance, collection)) < Eligible::Balance {
            continue;
        }
        let replicas = stores.replicas.of(collection);
        let seats = Seats::of(stores, replicas);
        let coming = |replica: &Arc<Replica>| stores.placement.coming_to(replica).next().is_some();
        let leads = replicas.iter().any(|replica| stores.leads_move(replica));
        let mut moving = Moving { leads, segments: replicas.iter().any(coming) };
        for (at, replica) in replicas.iter().enumerate() {
            if replica.all_nodes().any(|node| busy.contains(node)) {
                continue;
            }
            let load = Load::of(stores, &glance, &seats, at, replica);
            match plan(stores, &glance, &seats, at, replica, &load, moving) {
                ReplicaPlan::Rest => continue,
                ReplicaPlan::Leads(moves) => {
                    moving.leads = true;
                    let shards: Vec<ShardName> = stores.shards_of_targets(collection).into_iter().collect();
                    let name = |place| stores.whereabouts.name(load.node(place)?);
                    let named =
                        moves.iter().filter_map(|made| Some((shards.get(made.shard)?, name(made.to)?)));
                    round.leads.extend(named.map(|(shard, node)| (replica.id, shard.clone(), node.clone())));
                }
                ReplicaPlan::Segments(moves) => {
                    moving.segments = true;
                    let named = moves
                        .iter()
                        .filter_map(|made| Some((made.segment, load.node(made.from?)?, load.node(made.to)?)));
                    round.segments.extend(named);
                }
            }
            busy.extend(replica.all_nodes());
        }
    }
    round
}

fn plan(
    stores: &Stores,
    glance: &Glance,
    seats: &Seats,
    at: usize,
    replica: &Replica,
    load: &Load,
    moving: Moving,
) -> ReplicaPlan {
    let state = ReplicaLoad { nodes: load.nodes.clone(), leads: load.leads.clone(), moving };
    let tried = Tried::of(stores, glance, seats, replica.collection, at);
    let settings = &stores.rules.balance;
    let movable = |place: usize| {
        load.node(place).map_or_else(Vec::new, |node| movable(stores, seats, at, replica, node))
    };
    let takes = |segment, place| load.node(place).is_some_and(|node| tried.times(segment, node) == 0);
    plan_replica(settings, Eligible::Balance, &state, movable, takes)
}

/// Segments that may leave a node: those that it holds alone in the replica.
fn movable(
    stores: &Stores,
    seats: &Seats,
    at: usize,
    replica: &Replica,
    node: NodeIndex,
) -> Vec<(SegmentId, u64)> {
    let movable = |segment: SegmentId| {
        let row = stores.whereabouts.row(segment).filter(|row| row.collection() == replica.collection)?;
        let is_placed = row.slot(node).is_some_and(Slot::is_placed);
        let mut holders =
            row.slots().filter(|slot| slot.holds() && seats.is_in(slot.node(), at)).map(Slot::node);
        let alone = holders.next() == Some(node) && holders.next().is_none();
        (is_placed && alone).then(|| (segment, row.weight()))
    };
    stores.whereabouts.on(node).filter_map(movable).collect()
}

impl Stores {
    /// Collections that are loaded, those with most rows first.
    fn largest_first(&self) -> Vec<CollectionId> {
        let rows = |collection| Reverse(self.placement.rows_of(collection));
        let mut order: Vec<(Reverse<u64>, CollectionId)> =
            self.loads.iter().map(|load| (rows(load.collection), load.collection)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, collection)| collection).collect()
    }

    /// Whether a lead is on its way: somebody else still answers for the shard.
    pub(super) fn leads_move(&self, replica: &Replica) -> bool {
        let shards = self.shards_of_targets(replica.collection).into_iter();
        let mut leads = shards.filter_map(|shard| Some((leader_of(self, replica, &shard)?, shard)));
        leads.any(|(leader, shard)| {
            self.leads.get(&(replica.id, shard)).is_some_and(|node| *node != leader.node)
        })
    }

    /// Whether whoever says that it leads a shard of the replica is serviceable, and not only who stands for it.
    fn all_serviceable(&self, replica: &Replica) -> bool {
        self.shards_of_targets(replica.collection).into_iter().all(|shard| {
            let reported = self.distribution.leaders(replica.collection, &shard).iter();
            let mut ours = reported.filter(|leader| replica.contains(leader.node.as_str()));
            ours.all(|leader| leader.serviceable)
        })
    }

    fn balance_state(&self, glance: &Glance, collection: CollectionId) -> CollectionState {
        let current = self.targets.current(collection);
        let replicas = self.replicas.of(collection);
        let seats = Seats::of(self, replicas);
        // What has come where it should be is there.
        let is_there = |at: usize, segment: SegmentId| {
            let Some(row) = self.whereabouts.row(segment).filter(|row| row.is_current()) else { return true };
            row.slots()
                .any(|slot| slot.holds() && seats.is_in(slot.node(), at) && glance.is_known(slot.node()))
        };
        let has_all = |(at, replica): (usize, &Arc<Replica>)| {
            settled(self, replica) && self.placement.coming_to(replica).all(|segment| is_there(at, segment))
        };
        CollectionState {
            has_target: current.is_some() || self.targets.next(collection).is_some(),
            loaded: self.loads.get(collection).is_some_and(|load| load.status == LoadStatus::Loaded),
            complete: current.is_some() && replicas.iter().enumerate().all(has_all),
            leaders_serviceable: replicas
                .iter()
                .all(|replica| serves_alone(self, replica) && self.all_serviceable(replica)),
        }
    }
}
