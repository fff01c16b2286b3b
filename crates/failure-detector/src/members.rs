//! Who belongs to the clusters, as far as verdicts depend on it.

use std::collections::BTreeMap;

use pointsman_ids::{Incarnation, NodeKey, NodeName};

/// The state of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) incarnation: Incarnation,
    pub(crate) enabled: bool,
}

/// The members of all clusters whose managers run.
#[derive(Debug, Default)]
pub(crate) struct Members(BTreeMap<NodeKey, Member>);

impl Members {
    /// Puts a member in place, and says what it was before; `None`: a newcomer.
    pub(crate) fn set(&mut self, node: NodeKey, member: Member) -> Option<Member> {
        self.0.insert(node, member)
    }

    pub(crate) fn remove(&mut self, node: &NodeKey) {
        self.0.remove(node);
    }

    /// Whether the process has been followed by another. Of a node that is no member nothing is known.
    pub(crate) fn is_followed(&self, node: &NodeKey, incarnation: Incarnation) -> bool {
        self.0.get(node).is_some_and(|member| incarnation < member.incarnation)
    }

    pub(crate) fn is_enabled(&self, node: &NodeKey) -> bool {
        self.0.get(node).is_some_and(|member| member.enabled)
    }

    /// Whether any cluster has a member of this name.
    pub(crate) fn have_name(&self, name: &NodeName) -> bool {
        self.0.keys().any(|member| member.node == *name)
    }
}
