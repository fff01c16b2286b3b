//! The decisions of one request for one shard: who is left out of the next attempt, and which error is told.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::{ErrorCode, NodeId};

use crate::{Leader, ShardError};

/// What a request remembers between its attempts.
#[derive(Debug)]
pub(crate) struct OneShard {
    pub(crate) leaders: Arc<[Leader]>,
    /// Nodes that failed retriably in this request, with what they said last.
    pub(crate) out: BTreeMap<NodeId, ErrorCode>,
    /// The last error of a node.
    last: Option<ShardError>,
}

/// What a node's error means for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The request is wrong, and no node is to blame.
    Request,
    /// Another leader may try.
    LeaveOut,
    /// Nobody should try this one for a while.
    Blacklist,
}

impl Blame {
    /// The class decides before the bit, and both before the code.
    pub(crate) fn of(error: &ShardError) -> Self {
        match () {
            () if error.is_input() => Self::Request,
            () if error.is_retriable() => Self::LeaveOut,
            () => Self::Blacklist,
        }
    }
}

impl OneShard {
    pub(crate) fn new(leaders: Arc<[Leader]>) -> Self {
        Self { leaders, out: BTreeMap::new(), last: None }
    }

    /// Whether all leaders in scope may have failed, so that a fresh list is wanted.
    pub(crate) fn wants_fresh_leaders(&self, group: &str) -> bool {
        if self.out.is_empty() {
            return false;
        }
        let scoped = self.leaders.iter().filter(|leader| leader.is_in(group)).count();
        scoped > 0 && self.out.len() >= scoped
    }

    /// Takes a fresh list. When nobody else is in scope, those that failed are tried again.
    pub(crate) fn refreshed(&mut self, leaders: Arc<[Leader]>, group: &str) {
        let mut scoped = leaders.iter().filter(|leader| leader.is_in(group));
        if scoped.all(|leader| self.out.contains_key(&leader.node)) {
            self.out.clear();
        }
        self.leaders = leaders;
    }

    /// The error of an attempt that got no fresh list.
    pub(crate) fn not_refreshed(&self, error: ShardError) -> ShardError {
        self.last.clone().unwrap_or(error)
    }

    /// The error of an attempt that found nobody to ask. What a node said tells more, with one exception: in a scope that
    /// lost its leader after a terminal failure "wait" is the truth by now, and "stop" is not.
    pub(crate) fn not_selected(&self, error: ShardError, group: &str) -> ShardError {
        let Some(last) = &self.last else { return error };
        let waits = !group.is_empty() && error.code() == ErrorCode::CollectionNotFullyLoaded;
        if waits && !last.is_retriable() { error } else { last.clone() }
    }

    /// Takes a node's error, with shard and node in its text; it is the attempt's error.
    pub(crate) fn failed(&mut self, error: ShardError, shard: &str, node: NodeId) -> ShardError {
        let error = error.context(format_args!("shard '{shard}' on node {node}"));
        self.last = Some(error.clone());
        error
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::ErrorClass;

    use super::*;

    fn error(code: ErrorCode) -> ShardError {
        ShardError::new(code, "it")
    }

    fn leaders(nodes: &[(u64, &str)]) -> Arc<[Leader]> {
        let leader = |(node, group): &(u64, &str)| Leader {
            node: NodeId(*node),
            address: "a".into(),
            serviceable: true,
            resource_group: (*group).into(),
        };
        nodes.iter().map(leader).collect()
    }

    #[test]
    fn the_class_decides_before_the_bit_and_both_before_the_code() {
        let busy = error(ErrorCode::ServiceUnavailable);
        assert_eq!(Blame::of(&busy), Blame::LeaveOut);
        assert_eq!(Blame::of(&busy.clone().with_class(ErrorClass::Input)), Blame::Request);
        assert_eq!(Blame::of(&busy.with_retriable(false)), Blame::Blacklist);
        assert_eq!(Blame::of(&ShardError::foreign("disk on fire")), Blame::Blacklist);
        assert_eq!(
            Blame::of(&error(ErrorCode::ParameterInvalid).with_class(ErrorClass::System)),
            Blame::Blacklist
        );
    }

    #[test]
    fn only_a_scope_without_leader_hides_only_a_terminal_error() {
        use ErrorCode::{
            ChannelNotAvailable as NoCandidate, CollectionNotFullyLoaded as Wait,
            CollectionNotLoaded as NotLoaded, SegmentNotLoaded as Terminal, ServiceUnavailable as Busy,
        };
        for (last, selection, group, told) in [
            (None, Wait, "east", Wait),
            (None, NoCandidate, "", NoCandidate),
            (Some(Terminal), Wait, "east", Wait),
            (Some(Terminal), Wait, "", Terminal),
            (Some(Busy), Wait, "east", Busy),
            (Some(Terminal), Busy, "east", Terminal),
            (Some(Terminal), NotLoaded, "east", Terminal),
            (Some(Terminal), NoCandidate, "", Terminal),
        ] {
            let mut request = OneShard::new(leaders(&[(1, "east")]));
            if let Some(code) = last {
                request.failed(error(code), "s0", NodeId(1));
            }
            assert_eq!(request.not_selected(error(selection), group).code(), told, "{last:?} {selection:?}");
        }
    }

    #[test]
    fn a_fresh_list_is_wanted_when_as_many_failed_as_the_scope_has() {
        let mut request = OneShard::new(leaders(&[(1, "east"), (2, "west"), (3, "west")]));
        assert!(!request.wants_fresh_leaders("east"));
        request.out.insert(NodeId(1), ErrorCode::NodeNotServing);
        assert!(request.wants_fresh_leaders("east"));
        assert!(!request.wants_fresh_leaders("west"));
        assert!(!request.wants_fresh_leaders("north"), "nobody there to be asked");
        // Somebody new can be asked: those that failed stay out.
        request.refreshed(leaders(&[(1, "east"), (4, "east")]), "east");
        assert!(request.out.keys().eq(&[NodeId(1)]));
        request.refreshed(leaders(&[(1, "east"), (4, "west")]), "east");
        assert_eq!(request.out, BTreeMap::new());
    }

    #[test]
    fn a_nodes_error_keeps_its_identity_and_names_the_place() {
        let mut request = OneShard::new(leaders(&[]));
        let told = request.failed(error(ErrorCode::SegmentLack).with_retriable(true), "s0", NodeId(7));
        assert_eq!((told.code(), told.is_retriable()), (ErrorCode::SegmentLack, true));
        assert_eq!(told.message(), "shard 's0' on node 7: it");
    }
}
