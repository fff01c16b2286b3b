//! What the owner of the client knows about nodes.

use std::{fmt, sync::Arc};

use pointsman_ids::{CollectionId, NodeId};

use crate::Leader;

/// What is known of a node, beside what the coordinator lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing against it.
    #[default]
    Routable,
    /// The failure detector has excluded it: it is tried only when all serviceable leaders are.
    Excluded,
    /// An operator has disabled it: it is never asked.
    Disabled,
}

/// A view of nodes, which changes while requests run.
pub trait NodeView: Send + Sync + fmt::Debug {
    /// What is known of a node.
    fn standing(&self, node: NodeId) -> Standing;

    /// Whether the process of this number has been followed by another, or has left for good: a health check of it has
    /// failed without a call. One that the view has yet to hear of is not gone.
    fn is_gone(&self, _node: NodeId) -> bool {
        false
    }

    /// What is held against an excluded node, for people.
    fn why_excluded(&self, _node: NodeId) -> Option<String> {
        None
    }

    /// Whether a request to this collection fails rather than goes to an excluded node.
    fn is_fail_closed(&self, _collection: CollectionId) -> bool {
        false
    }
}

/// The view of somebody who knows nothing against any node.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllRoutable;

impl NodeView for AllRoutable {
    fn standing(&self, _node: NodeId) -> Standing {
        Standing::Routable
    }
}

/// The leaders that are not on disabled nodes, in their order.
pub(crate) fn enabled(view: &dyn NodeView, leaders: Arc<[Leader]>) -> Arc<[Leader]> {
    let is_disabled = |leader: &Leader| view.standing(leader.node) == Standing::Disabled;
    if !leaders.iter().any(is_disabled) {
        return leaders;
    }
    leaders.iter().filter(|leader| !is_disabled(leader)).cloned().collect()
}
