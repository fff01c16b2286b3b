//! Copies of a segment: four parallel lists on the wire.

use pointsman_ids::{
    Error, NodeId,
    feed::{CopyEntry, CopyState},
};

use super::invalid;
use crate::broker::v1 as pb;

/// Copies as they travel: entry i of each list describes the same copy.
#[derive(Debug, Default)]
pub(super) struct CopyLists {
    pub(super) nodes: Vec<u64>,
    pub(super) replicas: Vec<u32>,
    pub(super) assigned: Vec<i32>,
    pub(super) observed: Vec<i32>,
}

impl From<&[CopyEntry]> for CopyLists {
    fn from(copies: &[CopyEntry]) -> Self {
        Self {
            nodes: copies.iter().map(|copy| copy.node.0).collect(),
            replicas: copies.iter().map(|copy| copy.replica).collect(),
            assigned: copies.iter().map(|copy| state_to_proto(copy.assigned).into()).collect(),
            observed: copies.iter().map(|copy| state_to_proto(copy.observed).into()).collect(),
        }
    }
}

impl CopyLists {
    /// # Errors
    /// `parameter_invalid` naming the segment when the lists are not parallel.
    pub(super) fn read(&self, segment: &str) -> Result<Vec<CopyEntry>, Error> {
        let copies = self.nodes.len();
        if [self.replicas.len(), self.assigned.len(), self.observed.len()].iter().any(|len| *len != copies) {
            return Err(invalid(format!("the lists of copies of segment '{segment}' differ in length")));
        }
        let places = self.nodes.iter().zip(&self.replicas);
        let states = self.assigned.iter().zip(&self.observed);
        let copy = |((node, replica), (assigned, observed)): ((&u64, &u32), (&i32, &i32))| CopyEntry {
            node: NodeId(*node),
            replica: *replica,
            assigned: state_from_proto(*assigned),
            observed: state_from_proto(*observed),
        };
        Ok(places.zip(states).map(copy).collect())
    }
}

fn state_to_proto(state: Option<CopyState>) -> pb::CopyState {
    match state {
        None => pb::CopyState::Unspecified,
        Some(CopyState::Online) => pb::CopyState::Online,
        Some(CopyState::Consuming) => pb::CopyState::Consuming,
        Some(CopyState::Offline) => pb::CopyState::Offline,
        Some(CopyState::Error) => pb::CopyState::Error,
    }
}

/// A number that is not known is read like none.
fn state_from_proto(state: i32) -> Option<CopyState> {
    match pb::CopyState::try_from(state).unwrap_or_default() {
        pb::CopyState::Unspecified => None,
        pb::CopyState::Online => Some(CopyState::Online),
        pb::CopyState::Consuming => Some(CopyState::Consuming),
        pb::CopyState::Offline => Some(CopyState::Offline),
        pb::CopyState::Error => Some(CopyState::Error),
    }
}
