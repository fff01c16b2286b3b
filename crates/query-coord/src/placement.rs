//! Placement: which node of a replica should hold which segment.
//!
//! What is placed and fine stays. What has no place, or whose node is lost, has gone, or failed to load it, goes to the
//! node of the replica that takes work and has most room by its score; first to one that has not failed to load it. What
//! lies on a node that became read-only goes the same way, at once. The former holder keeps its copy until the new one
//! has it.
//!
//! Only what changed is decided anew, and what found no place before.

mod book;
mod copies;
mod glance;
mod homes;
mod rebalance;
mod replica;
mod tried;

use std::collections::BTreeSet;

use pointsman_ids::{CollectionId, NodeName, SegmentId};

pub use self::{
    book::Placement,
    copies::{Wish, copies, copies_on, wish},
    rebalance::{Rebalanced, rebalance},
};
pub(crate) use self::{
    copies::copies_of,
    glance::{Glance, Seats},
};
use self::{
    homes::Homes,
    replica::{drain, settle},
    tried::Tried,
};
use crate::{Change, Changes, Replica, Scope, SessionState, Stores, balance::BalanceSettings};

/// What placement goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementRules {
    /// How load is weighed and evened out.
    pub balance: BalanceSettings,
    /// `coordinator.segment_load_tries`: how often one node tries to load a segment of one target; at least 1.
    pub segment_load_tries: u32,
}

impl Default for PlacementRules {
    fn default() -> Self {
        Self { balance: BalanceSettings::default(), segment_load_tries: 3 }
    }
}

/// Whether every node of the replica was heard or is known to be away. Until then nothing of it is moved or released:
/// silence is not absence.
pub fn settled(stores: &Stores, replica: &Replica) -> bool {
    replica.all_nodes().all(|node| match stores.session(node.as_str()) {
        SessionState::Awaited => false,
        SessionState::Live | SessionState::Stopping => {
            stores.observed.get(node).is_some_and(|observation| observation.reported)
        }
        SessionState::Lost | SessionState::Gone => true,
    })
}

/// Places the segments of loaded collections of which something changed, and those that found no place before.
/// `frozen`: nothing that has a place is moved, whatever became of its node.
pub fn place(stores: &mut Stores, changes: &Changes, frozen: bool) {
    let glance = Glance::of(stores);
    let mut thawed = Changes::default();
    if std::mem::replace(&mut stores.placement.frozen, frozen) && !frozen {
        // Whatever happened meanwhile was not decided.
        stores.replicas.iter().for_each(|replica| thawed.note_all(replica.collection));
        thawed.extend(changes);
    }
    let changes = if thawed.is_empty() { changes } else { &thawed };
    let mut collections: BTreeSet<CollectionId> = changes.iter().map(|(collection, _)| collection).collect();
    collections.extend(stores.placement.seeking());
    for collection in collections {
        let nothing = Change::default();
        let change = changes.of(collection).unwrap_or(&nothing);
        place_collection(stores, &glance, collection, change, frozen);
    }
}

fn place_collection(
    stores: &mut Stores,
    glance: &Glance,
    collection: CollectionId,
    change: &Change,
    frozen: bool,
) {
    let replicas = stores.replicas.of(collection).to_vec();
    stores.placement.keep_replicas(collection, &replicas);
    let seats = Seats::of(stores, &replicas);
    let settled: Vec<bool> = replicas.iter().map(|replica| settled(stores, replica)).collect();
    let homes = Homes::new(stores, collection, &seats, glance, &settled, frozen);
    for segment in stores.concerned(collection, change) {
        homes.look(stores, segment);
    }
    for (at, replica) in replicas.iter().enumerate().filter(|(at, _)| settled.get(*at) == Some(&true)) {
        settle(stores, glance, &seats, at, replica);
        if !frozen {
            drain(stores, glance, &seats, at, replica);
        }
    }
}

impl Stores {
    /// Segments of a collection that have to be looked at, ascending.
    pub(crate) fn concerned(&self, collection: CollectionId, change: &Change) -> Vec<SegmentId> {
        let mut segments: Vec<SegmentId> = change.segments.iter().copied().collect();
        segments.extend(self.placement.seeking_of(collection));
        // Whether former views still need them shows in what leaders report.
        segments.extend(self.whereabouts.unwanted(collection));
        if change.all {
            let targets = self.targets.candidates(collection, Scope::CurrentFirst);
            segments.extend(targets.flat_map(|target| target.segments()));
        }
        segments.sort_unstable();
        segments.dedup();
        segments
    }

    /// The node of a replica that should hold a segment; `None`: it has no place yet.
    pub fn place_of(&self, replica: &Replica, segment: SegmentId) -> Option<&NodeName> {
        let slots = self.whereabouts.row(segment)?.slots().filter(|slot| slot.is_placed());
        let names = slots.filter_map(|slot| self.whereabouts.name(slot.node()));
        names.filter(|node| replica.contains(node.as_str())).min()
    }

    /// Every segment of a replica that has a place, with it.
    pub fn places(&self, replica: &Replica) -> impl Iterator<Item = (SegmentId, &NodeName)> {
        let wanted = self.wanted(replica.collection).into_iter();
        wanted.filter_map(move |segment| Some((segment, self.place_of(replica, segment)?)))
    }
}
