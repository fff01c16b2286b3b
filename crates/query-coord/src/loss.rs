//! The guard against mass loss: a coordinator that loses most nodes at once is more likely cut off itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_clock::MonoTime;
use pointsman_ids::NodeName;

use crate::{SessionState, Stores};

/// Decides whether the coordinator suspects itself. While it does, it places nothing anew.
#[derive(Clone, Debug, Default)]
pub struct LossGuard {
    lost_at: BTreeMap<NodeName, MonoTime>,
    /// How many were lost when the suspicion arose; 0: there is none.
    suspected: usize,
    /// Lost nodes of which an operator says that they are not coming back.
    accepted: BTreeSet<NodeName>,
}

impl LossGuard {
    /// Looks at the members again. The suspicion arises when more than `limit` (a part of 1) of all members were lost
    /// within one `lease`, and ends when half of those that were lost are back. One that has left its group because it
    /// was lost counts as long as a member would.
    pub fn update(&mut self, stores: &Stores, now: MonoTime, lease: Duration, limit: f64) {
        let members: BTreeSet<&NodeName> = stores.groups.values().flat_map(|group| &group.members).collect();
        let before = std::mem::take(&mut self.lost_at);
        let counts = |node: &NodeName, at: MonoTime| {
            let recent = now - at <= lease || self.suspected > 0;
            stores.session(node.as_str()) == SessionState::Lost && (members.contains(node) || recent)
        };
        let lost = members.iter().map(|node| ((*node).clone(), before.get(*node).copied().unwrap_or(now)));
        let left =
            before.iter().filter(|(node, _)| !members.contains(node)).map(|(node, at)| (node.clone(), *at));
        self.lost_at = lost.chain(left).filter(|(node, at)| counts(node, *at)).collect();
        if self.suspected > 0 && self.lost_at.len() * 2 > self.suspected {
            self.suspected = self.suspected.max(self.lost_at.len());
            return;
        }
        self.accepted.retain(|node| self.lost_at.contains_key(node));
        let waited_for =
            |(node, at): &(&NodeName, &MonoTime)| now - **at <= lease && !self.accepted.contains(*node);
        let recent = self.lost_at.iter().filter(waited_for).count();
        let left = self.lost_at.keys().filter(|node| !members.contains(node)).count();
        #[expect(clippy::cast_precision_loss, reason = "numbers of nodes are small")]
        let beyond = recent as f64 > limit * (members.len() + left) as f64;
        self.suspected = if beyond { recent } else { 0 };
    }

    /// Whether the coordinator suspects itself.
    pub fn is_suspicious(&self) -> bool {
        self.suspected > 0
    }

    /// Nodes that are lost, by name.
    pub fn lost(&self) -> impl Iterator<Item = &NodeName> {
        self.lost_at.keys()
    }

    /// Ends the suspicion: an operator says that the nodes that are lost now are not coming back. Each counts again once
    /// it was heard.
    pub fn accept(&mut self) {
        self.accepted.extend(self.lost_at.keys().cloned());
        self.suspected = 0;
    }
}
