//! Nodes that had no room.

use std::{collections::BTreeMap, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode, NodeName};

/// How long a node that had no room is given nothing. It says of itself when it has room again only by trying.
pub const PENALTY: Duration = Duration::from_secs(30);

/// Why a node is given nothing for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Penalty {
    /// Until when.
    pub until: MonoTime,
    /// What the node said last.
    pub error: Error,
}

/// Nodes that answered `segment_request_resource_failed` of late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Penalties(BTreeMap<NodeName, Penalty>);

impl Penalties {
    /// Takes the error on which a node's load of a segment ended. Only a lack of room has a penalty; each time it begins
    /// anew.
    pub fn note(&mut self, node: &NodeName, error: &Error, now: MonoTime) {
        if error.code() == ErrorCode::SegmentRequestResourceFailed {
            self.0.insert(node.clone(), Penalty { until: now + PENALTY, error: error.clone() });
        }
    }

    /// The penalty of a node; `None`: it has none.
    pub fn of(&self, node: &str) -> Option<&Penalty> {
        self.0.get(node)
    }

    /// Forgets a node: it is gone, or started anew.
    pub fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// Ends penalties whose time is over; whose they were.
    pub fn expire(&mut self, now: MonoTime) -> Vec<NodeName> {
        let over: Vec<NodeName> =
            self.0.iter().filter(|(_, penalty)| penalty.until <= now).map(|(node, _)| node.clone()).collect();
        over.iter().for_each(|node| drop(self.0.remove(node)));
        over
    }

    /// All of them, by node.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, &Penalty)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_room_puts_a_node_aside_for_a_while_and_nothing_else_does() {
        let (node, mut penalties) = (NodeName::new("n1").unwrap(), Penalties::default());
        let at = |seconds| MonoTime::from_start(Duration::from_secs(seconds));
        penalties.note(&node, &Error::new(ErrorCode::SegmentLoadFailed, "checksum"), at(0));
        assert_eq!(penalties.of("n1"), None);
        let full = Error::new(ErrorCode::SegmentRequestResourceFailed, "disk full");
        penalties.note(&node, &full, at(0));
        penalties.note(&node, &full, at(10));
        assert_eq!(penalties.expire(at(39)), []);
        assert_eq!(penalties.of("n1").unwrap().error, full);
        assert_eq!(penalties.expire(at(40)), [node]);
        assert_eq!(penalties.of("n1"), None);
    }
}
