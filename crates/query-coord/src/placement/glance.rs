//! Nodes at a glance: what is asked of them for every segment, looked up once.

use std::sync::Arc;

use pointsman_ids::{NodeId, NodeName};

use crate::{NodeIndex, Replica, SessionState, Stores};

/// All nodes that have to do with segments.
pub(crate) struct Glance(Vec<NodeGlance>);

/// One of them.
#[derive(Clone, Copy)]
pub(crate) struct NodeGlance {
    /// Its number; `None`: it was not heard yet.
    pub(crate) id: Option<NodeId>,
    pub(crate) session: SessionState,
    /// Whether queries can count on what it holds.
    pub(crate) known: bool,
    /// Whether it may be given segments.
    pub(crate) takes: bool,
    pub(crate) memory: Option<u64>,
}

impl Glance {
    pub(crate) fn of(stores: &Stores) -> Self {
        let node = |name: &NodeName| NodeGlance {
            id: stores.observed.get(name).map(|seen| seen.id),
            session: stores.session(name.as_str()),
            known: stores.is_known(name.as_str()),
            takes: stores.takes_segments(name.as_str()),
            memory: stores.observed.get(name).and_then(|seen| seen.memory),
        };
        Self(stores.whereabouts.names().map(node).collect())
    }

    pub(crate) fn node(&self, node: NodeIndex) -> Option<&NodeGlance> {
        self.0.get(node.get())
    }

    pub(crate) fn session(&self, node: NodeIndex) -> SessionState {
        self.node(node).map_or(SessionState::Lost, |node| node.session)
    }

    pub(crate) fn id(&self, node: NodeIndex) -> Option<NodeId> {
        self.node(node)?.id
    }

    pub(crate) fn is_known(&self, node: NodeIndex) -> bool {
        self.node(node).is_some_and(|node| node.known)
    }

    pub(crate) fn takes(&self, node: NodeIndex) -> bool {
        self.node(node).is_some_and(|node| node.takes)
    }
}

/// Which replica of one collection each node is in. A node is in one of them at most.
pub(crate) struct Seats(Vec<Option<Seat>>);

/// A node's place in a replica.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The place of the replica in the list of those of its collection.
    pub(crate) replica: usize,
    pub(crate) writable: bool,
}

impl Seats {
    /// The seats of nodes that have an index; others have nothing to do with segments.
    pub(crate) fn of(stores: &Stores, replicas: &[Arc<Replica>]) -> Self {
        let mut seats = vec![None; stores.whereabouts.names().count()];
        for (replica, of) in replicas.iter().enumerate() {
            for (node, writable) in
                of.nodes.iter().map(|n| (n, true)).chain(of.ro_nodes.iter().map(|n| (n, false)))
            {
                let index = stores.whereabouts.index(node.as_str());
                if let Some(seat) = index.and_then(|index| seats.get_mut(index.get())) {
                    *seat = Some(Seat { replica, writable });
                }
            }
        }
        Self(seats)
    }

    pub(crate) fn seat(&self, node: NodeIndex) -> Option<Seat> {
        self.0.get(node.get()).copied().flatten()
    }

    /// Whether the node is in the replica at this place.
    pub(crate) fn is_in(&self, node: NodeIndex, replica: usize) -> bool {
        self.seat(node).is_some_and(|seat| seat.replica == replica)
    }

    /// Whether it takes new work there.
    pub(crate) fn is_writable(&self, node: NodeIndex, replica: usize) -> bool {
        self.seat(node) == Some(Seat { replica, writable: true })
    }
}
