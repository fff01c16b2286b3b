//! What stays where it is, and what needs a place.

use std::sync::Arc;

use pointsman_ids::{CollectionId, SegmentId};

use super::{Glance, Seats, Tried};
use crate::{NodeIndex, Replica, Row, SegmentReport, SessionState, Slot, Stores};

/// Looks at segments of one collection.
pub(super) struct Homes<'a> {
    collection: CollectionId,
    replicas: Vec<Arc<Replica>>,
    seats: &'a Seats,
    glance: &'a Glance,
    settled: &'a [bool],
    frozen: bool,
}

impl<'a> Homes<'a> {
    pub(super) fn new(
        stores: &Stores,
        collection: CollectionId,
        seats: &'a Seats,
        glance: &'a Glance,
        settled: &'a [bool],
        frozen: bool,
    ) -> Self {
        let replicas = stores.replicas.of(collection).to_vec();
        Self { collection, replicas, seats, glance, settled, frozen }
    }

    /// Notes of every settled replica where the segment stays, or that it needs a place.
    pub(super) fn look(&self, stores: &mut Stores, segment: SegmentId) {
        let Some(row) = stores.whereabouts.row(segment).cloned() else { return self.forget(stores, segment) };
        let placed = || row.slots().filter(|slot| slot.is_placed()).map(Slot::node);
        if !row.is_wanted() {
            placed().for_each(|node| stores.put(segment, node, false));
            return self.forget(stores, segment);
        }
        placed()
            .filter(|node| self.seats.seat(*node).is_none())
            .for_each(|node| stores.put(segment, node, false));
        for (at, replica) in self.replicas.iter().enumerate() {
            if self.settled.get(at) == Some(&true) {
                let home = self.home(stores, at, &row, segment);
                self.note(stores, at, replica, &row, segment, home);
            } else {
                // Nothing is decided before all were heard.
                let arrived = row.slots().any(|slot| slot.is_placed() && self.has_arrived(at, slot));
                stores.placement.note(replica, segment, false, !arrived);
            }
        }
    }

    fn forget(&self, stores: &mut Stores, segment: SegmentId) {
        self.replicas.iter().for_each(|replica| stores.placement.note(replica, segment, false, false));
    }

    fn note(
        &self,
        stores: &mut Stores,
        at: usize,
        replica: &Replica,
        row: &Row,
        segment: SegmentId,
        home: Option<NodeIndex>,
    ) {
        let placed = || row.slots().filter(|slot| slot.is_placed() && self.seats.is_in(slot.node(), at));
        // A node that came from another replica has brought places along.
        let stays = home.or_else(|| first(stores, placed()).map(Slot::node));
        for slot in placed().filter(|slot| Some(slot.node()) != stays) {
            stores.put(segment, slot.node(), false);
        }
        let Some(home) = home else { return stores.placement.note(replica, segment, true, true) };
        stores.put(segment, home, true);
        let arrived = row.slot(home).is_some_and(|slot| self.has_arrived(at, slot));
        stores.placement.note(replica, segment, false, !arrived);
    }

    fn has_arrived(&self, at: usize, slot: Slot) -> bool {
        slot.holds() && self.seats.is_in(slot.node(), at) && self.glance.is_known(slot.node())
    }

    /// Where a segment stays without being moved, if anywhere.
    fn home(&self, stores: &Stores, at: usize, row: &Row, segment: SegmentId) -> Option<NodeIndex> {
        let own = || row.slots().filter(|slot| self.seats.is_in(slot.node(), at));
        let was = first(stores, own().filter(|slot| slot.is_placed()));
        if let Some(was) = was.filter(|was| self.frozen || self.stays(stores, at, *was, segment)) {
            return Some(was.node());
        }
        let lives = |slot: &Slot| {
            self.seats.is_writable(slot.node(), at) && self.glance.session(slot.node()) == SessionState::Live
        };
        let reporting =
            |report| first(stores, own().filter(lives).filter(|slot| slot.report() == Some(report)));
        // A move that cannot be ended is taken back. Where nothing was decided in this coordinator's time, what nodes
        // have is as good a place as any.
        let held = reporting(SegmentReport::Held);
        let fetching = || {
            let undecided = reporting(SegmentReport::Fetching).filter(|_| was.is_none());
            undecided.filter(|slot| self.glance.takes(slot.node()) && self.stays(stores, at, *slot, segment))
        };
        held.or_else(fetching).map(Slot::node)
    }

    fn stays(&self, stores: &Stores, at: usize, place: Slot, segment: SegmentId) -> bool {
        let node = place.node();
        match self.glance.session(node) {
            SessionState::Lost | SessionState::Gone => false,
            // What a node that is to be emptied holds stays until it is moved; what it does not hold it need not fetch.
            SessionState::Stopping => place.holds(),
            SessionState::Live | SessionState::Awaited if !self.seats.is_writable(node, at) => place.holds(),
            SessionState::Live | SessionState::Awaited if !stores.failures.contains_key(&segment) => true,
            SessionState::Live | SessionState::Awaited => {
                let tried = Tried::of(stores, self.glance, self.seats, self.collection, at);
                tried.times(segment, node) == 0 || tried.tries_next(segment, node)
            }
        }
    }
}

/// The slot whose node comes first by name.
fn first(stores: &Stores, slots: impl Iterator<Item = Slot>) -> Option<Slot> {
    slots.min_by_key(|slot| stores.whereabouts.name(slot.node()))
}
