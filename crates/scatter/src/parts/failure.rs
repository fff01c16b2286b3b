//! How parts fail, and what comes of it.

use std::collections::BTreeSet;

use pointsman_ids::{Error, NodeKey};

use super::{PartNumber, Place};

/// How a part failed. A failure that is the query's own does not belong here: it is the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The node broke off, is overloaded, starting or draining, or answered with an error of its own. It is out for
    /// the rest of the query.
    Node(Error),
    /// The node does not hold all that it was asked for. It is out for what it lacks alone.
    NotLoaded {
        /// Its answer.
        error: Error,
        /// What it lacks.
        lacking: Lacking,
    },
}

impl Failure {
    /// What was answered or seen.
    pub fn error(&self) -> &Error {
        match self {
            Self::Node(error) | Self::NotLoaded { error, .. } => error,
        }
    }
}

/// Which segments of a part a node says it does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// It may lack any of them: its list was cut short, or names nothing.
    All,
    /// These. A list that names none, or one that is not in the part, is not to be relied on and means all.
    These(BTreeSet<Place>),
}

/// What a failed part leads to. It is to be carried out before the next event is handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The part was given up before. Whatever came of it does not count.
    Ignored,
    /// The query goes on.
    GoOn {
        /// What is to be routed and sent again; empty when there is nothing to be asked again.
        again: Vec<RouteAgain>,
        /// Parts whose rows are to be thrown away: the failed one and those whose segments move with its own.
        discarded: Vec<PartNumber>,
    },
    /// The query runs again from its beginning, with new scans and without the nodes that failed.
    StartOver,
    /// The failure is the answer.
    GiveUp(Error),
}

/// Segments of one scan that are to be routed again, with the request's own id and options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteAgain {
    /// The scan.
    pub scan: usize,
    /// Places in its list, in the order of the request.
    pub segments: Vec<usize>,
    /// Nodes that are not to be chosen, by fail-open neither.
    pub without: BTreeSet<NodeKey>,
}
