//! What goes into the detector and what comes out.

use pointsman_ids::{Incarnation, NodeKey};

use crate::Key;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call died with its connection, or no connection could be made.
    Failed {
        /// Who.
        key: Key,
        /// The process that was called; `None` where the reporter does not know.
        incarnation: Option<Incarnation>,
        /// What was seen, for people.
        evidence: String,
    },
    /// Somebody says that a node is well: an operator, not a query.
    Recovered {
        /// Who.
        key: Key,
    },
    /// There is reason to look at a node, and no call that died: an idle connection dropped, or the coordinator has
    /// lost it. One probe decides.
    Suspected {
        /// Who.
        node: NodeKey,
    },
    /// A probe that the detector asked for has ended.
    Probed {
        /// Who.
        key: Key,
        /// How.
        outcome: Outcome,
    },
    /// A node is a member, in this state.
    Member {
        /// Who.
        node: NodeKey,
        /// Its process.
        incarnation: Incarnation,
        /// Whether queries may go to it.
        enabled: bool,
    },
    /// A node is no member any more.
    Removed {
        /// Who.
        node: NodeKey,
    },
    /// Time has passed.
    Tick,
}

/// How a probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node serves.
    Healthy,
    /// The node does not, with what was seen.
    Unhealthy(String),
    /// A connection stands, and the node has no opinion. Counts as healthy: a query would tell.
    Unknown,
    /// The probe itself failed, with how. Counts as unhealthy.
    Error(String),
    /// Nobody has the node enabled, so no call was made. Counts as unhealthy.
    NotEnabled,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell every routing manager to route around it.
    Exclude(Key),
    /// Tell every routing manager to route to it again.
    Include(Key),
    /// Probe it and report [`Event::Probed`], exactly once.
    Probe(Key),
}

/// Why an excluded node came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inclusion {
    /// A probe found it well.
    Probe,
    /// Its tries were used up.
    Forced,
    /// Somebody said so.
    Reported,
    /// It became enabled, or started anew.
    ReEnabled,
    /// It left its cluster.
    Removed,
}

impl Inclusion {
    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Forced => "forced",
            Self::Reported => "reported",
            Self::ReEnabled => "re_enabled",
            Self::Removed => "removed",
        }
    }
}
