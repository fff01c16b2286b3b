//! What goes into the detector and what comes out.

use std::time::Duration;

use pointsman_ids::{Incarnation, NodeKey};

use crate::{Key, Probe};

/// Something that happened. What is about a process carries its incarnation: news of one that has been followed by
/// another is dropped and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call died with its connection, or no connection could be made: the node is excluded at once.
    Failed {
        /// Who.
        key: Key,
        /// The process that was called; `None` where the reporter does not know.
        incarnation: Option<Incarnation>,
        /// What was seen, for people.
        evidence: String,
    },
    /// A call ended in a way that may be the node's fault. Several in a row exclude it.
    Suspicious {
        /// Who.
        node: NodeKey,
        /// The process that was called.
        incarnation: Incarnation,
        /// What is held against it.
        cause: SuspicionCause,
        /// What was seen, for people.
        evidence: String,
    },
    /// A node answered completely, if only with an error that is the query's fault: its row of suspicions ends.
    /// Nobody is included for it. Cheap where [`Detector::has_suspicions`](crate::Detector::has_suspicions) is
    /// false, and of no effect.
    Answered {
        /// Who.
        node: NodeKey,
        /// The process that answered.
        incarnation: Incarnation,
    },
    /// Somebody says that a node is well: an operator, not a query.
    Recovered {
        /// Who.
        key: Key,
    },
    /// There is reason to look at a node and no call that ended: an idle connection dropped, or the coordinator has
    /// lost it. One probe decides, and only its answer [`Outcome::Unhealthy`] excludes.
    ProbeWanted {
        /// Who.
        node: NodeKey,
        /// The process that the connection led to, or that was lost.
        incarnation: Incarnation,
    },
    /// A probe that the detector asked for has ended.
    Probed {
        /// Which.
        probe: Probe,
        /// How.
        outcome: Outcome,
    },
    /// A node is a member, in this state. One that becomes enabled by it (a newcomer, an operator's word, another
    /// incarnation) starts with a clean record.
    Member {
        /// Who.
        node: NodeKey,
        /// Its process.
        incarnation: Incarnation,
        /// Whether queries may go to it.
        enabled: bool,
    },
    /// The same, said by a manager that only now comes up: the node is news to the manager alone, so what the
    /// detector holds against it stands.
    KnownMember {
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

/// What is held against a node that did not break off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SuspicionCause {
    /// The query's deadline passed, and the node was the only one that had not answered.
    Silent,
    /// It answered with an error that is its own fault.
    Fault,
}

impl SuspicionCause {
    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Fault => "fault",
        }
    }
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
    /// The probe itself failed, with how. Counts as unhealthy for a node that is excluded, and excludes nobody.
    Error(String),
    /// Nobody has the node enabled, so no call was made. Counts as unhealthy.
    NotEnabled,
}

impl Outcome {
    /// The same answer, if it was formed while the probe ran. One that is older repeats what was known before: it is
    /// no evidence of health, and counts as unhealthy.
    ///
    /// `age` is how long ago the node formed the answer, `took` how long the probe ran.
    #[must_use]
    pub fn aged(self, age: Duration, took: Duration) -> Self {
        match self {
            Self::Healthy | Self::Unknown if age > took => {
                Self::Unhealthy(format!("its answer is {age:?} old, from before the probe"))
            }
            fresh => fresh,
        }
    }

    /// The word in metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy(_) => "unhealthy",
            Self::Unknown => "unknown",
            Self::Error(_) => "error",
            Self::NotEnabled => "not_enabled",
        }
    }

    /// What speaks against a node that is excluded; `None` when nothing does.
    pub(crate) fn evidence(self) -> Option<String> {
        match self {
            Self::Healthy | Self::Unknown => None,
            Self::Unhealthy(evidence) | Self::Error(evidence) => Some(evidence),
            Self::NotEnabled => Some("nobody has it enabled".to_owned()),
        }
    }
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell every routing manager to route around it.
    Exclude(Key),
    /// Tell every routing manager to route to it again.
    Include(Key),
    /// Carry out a probe, at most [`PROBES_SIDE_BY_SIDE`](crate::PROBES_SIDE_BY_SIDE) at once and the others in
    /// order, and report [`Event::Probed`].
    Probe(Probe),
}

/// Why an excluded node came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
