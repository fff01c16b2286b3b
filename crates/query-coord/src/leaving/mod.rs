//! Leaving without gaps: what queries would miss without a node, leases to stop, and how far a node that leaves is.
//!
//! Who leaves: a node that an operator drains, and one whose process says that it stops. Either gets nothing new, its
//! leads go to others, and its copies stay in service until others have them. Who may stop is asked apart from that: a
//! node is missed when it has the last copy of something.

mod departure;
mod last;
mod serving;

use std::collections::{BTreeMap, BTreeSet};

pub use departure::{Departure, Move, departures};
pub use last::{LastCopies, LastCopy, Served, last_copies};
use pointsman_clock::MonoTime;
use pointsman_ids::{Incarnation, NodeName};

use crate::{SessionState, Stores};

/// Nodes that are to leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Nodes that an operator drains, with the time when that was asked for, nanoseconds since the Unix epoch.
    pub drains: BTreeMap<NodeName, u64>,
    /// Leases to stop.
    pub leases: BTreeMap<NodeName, StopLease>,
    /// Until when nodes whose process stops wait for others to take over what they serve. One without an entry does
    /// not wait.
    pub stops: BTreeMap<NodeName, MonoTime>,
    /// Nodes that leave and that queries need until others have taken over, as was decided last.
    pub needed: BTreeSet<NodeName>,
}

/// A lease to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopLease {
    /// The process that it was granted to.
    pub incarnation: Incarnation,
    /// When it ends by itself.
    pub until: MonoTime,
}

impl Leaving {
    /// Forgets a node.
    pub fn forget(&mut self, node: &NodeName) {
        self.drains.remove(node);
        self.leases.remove(node);
        self.stops.remove(node);
        self.needed.remove(node);
    }
}

impl Stores {
    /// Whether a node leaves: an operator drains it, or its process says that it stops.
    pub fn is_leaving(&self, node: &str) -> bool {
        let stops = self.observed.get(node).is_some_and(|seen| seen.state == SessionState::Stopping);
        stops || self.leaving.drains.contains_key(node)
    }

    /// The lease to stop of a node that is in force: neither over by time, nor by the return of the node, which is when
    /// a newer process of it has said all that it holds.
    pub fn stop_lease(&self, node: &str, now: MonoTime) -> Option<&StopLease> {
        let lease = self.leaving.leases.get(node)?;
        let returned =
            self.observed.get(node).is_some_and(|seen| seen.incarnation > lease.incarnation && seen.reported);
        (now < lease.until && !returned).then_some(lease)
    }

    /// Nodes that queries can count on, with none that leaves or may stop: members that live, are switched on and have
    /// no lease to stop.
    fn staying(&self, now: MonoTime) -> BTreeSet<&NodeName> {
        let members = self.groups.values().flat_map(|group| &group.members);
        let stays = |node: &&NodeName| {
            self.takes_work(node.as_str()) && self.stop_lease(node.as_str(), now).is_none()
        };
        members.filter(stays).collect()
    }
}
