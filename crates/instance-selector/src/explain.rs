//! How a selection came about: the candidates of a segment, what ruled each out, and the rule that picked.

use std::collections::BTreeMap;

use pointsman_ids::{Error, GroupNumber, UnavailableCause, feed::CopyState};

use crate::{
    Candidate, CopyInput, FailOpenGate, NodeIndex, Nodes, Request, Rule, Scores, Selection, Standing, States,
    select::{Scope, Watch, select_watched},
};

/// A selection that remembers how it came about.
#[derive(Debug)]
pub struct Explained<'a> {
    states: &'a States,
    nodes: &'a Nodes,
    request: &'a Request<'a>,
    selection: Result<Selection, Error>,
    rules: BTreeMap<u32, Rule>,
    fates: BTreeMap<u32, Fate>,
}

/// How one segment fared in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Its position.
    pub segment: u32,
    /// Whether it is new; `None`: it is not part of the universe.
    pub new: Option<bool>,
    /// Its candidates by node name, then the nodes that hold or should hold it without being candidates.
    pub nodes: Vec<NodeVerdict>,
    /// The rule that made the pick; `None`: there was no pick.
    pub rule: Option<Rule>,
    /// What became of it.
    pub fate: Fate,
    /// How far fail-open came in the request.
    pub fail_open: FailOpenGate,
}

/// A node that a segment has to do with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeVerdict {
    /// The node.
    pub node: NodeIndex,
    /// The resource group of its replica.
    pub group: GroupNumber,
    /// The node's pool when the collection last changed.
    pub pool: GroupNumber,
    /// Its standing in adaptive selection; `None`: that is off.
    pub standing: Option<Standing>,
    /// Whether it can be chosen, or what rules it out.
    pub verdict: Verdict,
}

impl Eq for NodeVerdict {}
