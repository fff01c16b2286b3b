//! Which copies should be there now.

use pointsman_ids::{NodeName, SegmentId};
use smallvec::SmallVec;

use super::{Glance, Seats};
use crate::{Changes, NodeIndex, Replica, Row, SegmentReport, Slot, Stores, retains};

/// Few enough to be kept where they are listed.
pub(crate) type Slots = SmallVec<[Slot; 4]>;

/// A node that should hold a segment from now on, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The node.
    pub node: NodeIndex,
    /// The segment.
    pub segment: SegmentId,
    /// Whether it should.
    pub wanted: bool,
}

/// The slots of a row whose nodes should hold the segment for one replica: the one of the node that placement wants it on,
/// and until that one has it every other copy that the replica still has. What is only being fetched is kept while
/// nothing is decided, since it may yet become the place. What no target has any more stays where it is held while it is
/// `retained`.
fn chosen(
    row: &Row,
    is_in: impl Fn(NodeIndex) -> bool,
    is_known: impl Fn(NodeIndex) -> bool,
    retained: impl FnOnce() -> bool,
) -> Slots {
    let mut own: Slots = row.slots().filter(|slot| is_in(slot.node())).collect();
    if !row.is_wanted() {
        let stays = own.iter().any(|slot| slot.holds()) && retained();
        own.retain(|slot| stays && slot.holds());
    }
    let decided = own.iter().any(|slot| slot.is_placed());
    let arrived = own.iter().any(|slot| slot.is_placed() && slot.holds() && is_known(slot.node()));
    own.retain(|slot| match slot.report() {
        _ if slot.is_placed() => true,
        Some(SegmentReport::Held) => !arrived,
        Some(SegmentReport::Fetching) => !decided,
        Some(SegmentReport::Failed) | None => false,
    });
    own
}

/// The same for the replica at a place of the list that the seats are of.
pub(crate) fn copies_of(
    glance: &Glance,
    seats: &Seats,
    replica: usize,
    row: &Row,
    retained: impl FnOnce() -> bool,
) -> Slots {
    chosen(row, |node| seats.is_in(node, replica), |node| glance.is_known(node), retained)
}

/// The nodes of a replica that should hold a segment, by name.
pub fn copies<'a>(stores: &'a Stores, replica: &Replica, segment: SegmentId) -> Vec<&'a NodeName> {
    let Some(row) = stores.whereabouts.row(segment) else { return Vec::new() };
    let asked = |node, ask: &dyn Fn(&str) -> bool| {
        stores.whereabouts.name(node).is_some_and(|name| ask(name.as_str()))
    };
    let is_in = |node| asked(node, &|name| replica.contains(name));
    let is_known = |node| asked(node, &|name| stores.is_known(name));
    let mut names: Vec<&NodeName> = chosen(row, is_in, is_known, || retains(stores, replica, segment))
        .into_iter()
        .filter_map(|slot| stores.whereabouts.name(slot.node()))
        .collect();
    names.sort_unstable();
    names
}

/// Segments that a node should hold for a replica, ascending. Costs what has to do with the node.
pub fn copies_on(stores: &Stores, replica: &Replica, node: &NodeName) -> Vec<SegmentId> {
    let Some(index) = stores.whereabouts.index(node.as_str()) else { return Vec::new() };
    let of_replica = |segment: &SegmentId| {
        let row = stores.whereabouts.row(*segment);
        row.is_some_and(|row| row.is_described() && row.collection() == replica.collection)
    };
    let segments = stores.whereabouts.on(index).filter(of_replica);
    segments.filter(|segment| copies(stores, replica, *segment).contains(&node)).collect()
}

/// What nodes are to be told otherwise than before, of what changed.
pub fn wish(stores: &mut Stores, changes: &Changes) -> Vec<Wish> {
    let glance = Glance::of(stores);
    let mut wishes = Vec::new();
    for (collection, change) in changes.iter() {
        let replicas = stores.replicas.of(collection).to_vec();
        let seats = Seats::of(stores, &replicas);
        for segment in stores.concerned(collection, change) {
            let Some(row) = stores.whereabouts.row(segment) else { continue };
            let mut wanted: SmallVec<[NodeIndex; 4]> = SmallVec::new();
            for (at, replica) in replicas.iter().enumerate() {
                let retained = || retains(stores, replica, segment);
                wanted.extend(copies_of(&glance, &seats, at, row, retained).into_iter().map(Slot::node));
            }
            for slot in row.slots().filter(|slot| slot.is_wished() != wanted.contains(&slot.node())) {
                wishes.push(Wish { node: slot.node(), segment, wanted: !slot.is_wished() });
            }
        }
    }
    for Wish { node, segment, wanted } in &wishes {
        stores.whereabouts.wish(*node, *segment, *wanted);
    }
    wishes
}
