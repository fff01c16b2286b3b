//! Groups while nodes are moved among them.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{GroupName, NodeId, NodeName};

use super::{GroupConfig, GroupCounts, GroupMove, Groups, Nodes, counts::accepts};
use crate::{NodeRecord, ResourceGroup};

/// Nodes in the order in which they leave: by id. One that is not known has none and comes last.
type Members = BTreeSet<(NodeId, NodeName)>;

/// Which live nodes of a group may leave.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spare {
    /// Those above its requests.
    AboveRequests,
    /// Those above its limits.
    AboveLimits,
    /// All.
    All,
}

struct Side<'a> {
    config: &'a GroupConfig,
    live: Members,
    dirty: Members,
}

/// Groups with their members by the order in which these leave.
pub(super) struct Plan<'a> {
    nodes: &'a Nodes,
    sides: BTreeMap<&'a GroupName, Side<'a>>,
    /// How often a node was moved.
    pub(super) moved: usize,
}

impl<'a> Plan<'a> {
    pub(super) fn new(groups: &'a Groups, nodes: &'a Nodes) -> Self {
        let id = |node: &NodeName| nodes.get(node).map_or(NodeId(u64::MAX), |record| record.id);
        let side = |group: &'a ResourceGroup| {
            let members = group.members.iter().map(|node| (id(node), node.clone()));
            let (live, dirty) = members.partition(|(_, node)| group.accepts(nodes.get(node)));
            Side { config: &group.config, live, dirty }
        };
        let sides = groups.values().map(|group| (&group.name, side(group))).collect();
        Self { nodes, sides, moved: 0 }
    }

    /// All groups with their figures, by name.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'a GroupName, &'a GroupConfig, GroupCounts)> {
        let counts = |side: &Side<'a>| GroupCounts::new(side.config, side.live.len(), side.dirty.len());
        self.sides.iter().map(move |(name, side)| (*name, side.config, counts(side)))
    }

    /// The figures of one group.
    pub(super) fn of(&self, name: &GroupName) -> GroupCounts {
        self.sides
            .get(name)
            .map(|side| GroupCounts::new(side.config, side.live.len(), side.dirty.len()))
            .unwrap_or_default()
    }

    /// The node that leaves `from` for `to`: a member that `from` does not accept, else one that it can spare, and
    /// which `to` accepts; of either kind the one with the lowest id.
    pub(super) fn leaver(&self, from: &GroupName, to: &GroupName, spare: Spare) -> Option<NodeName> {
        let (source, target) = (self.sides.get(from)?, self.sides.get(to)?);
        let record = |node: &NodeName| -> Option<&NodeRecord> { self.nodes.get(node) };
        let fits = |(_, node): &&(NodeId, NodeName)| accepts(to, target.config, record(node));
        let keeps = match spare {
            Spare::AboveRequests => source.config.requests,
            Spare::AboveLimits => source.config.limits,
            Spare::All => 0,
        };
        let can_spare = self.of(from).live > keeps;
        let live = source.live.iter().filter(|_| can_spare);
        let found = source.dirty.iter().find(fits).or_else(|| live.into_iter().find(fits));
        found.map(|(_, node)| node.clone())
    }

    /// Moves a member from one group to another that accepts it.
    pub(super) fn shift(&mut self, node: &NodeName, from: &GroupName, to: &GroupName) {
        let key = (self.nodes.get(node).map_or(NodeId(u64::MAX), |record| record.id), node.clone());
        if let Some(source) = self.sides.get_mut(from) {
            source.live.remove(&key);
            source.dirty.remove(&key);
        }
        if let Some(target) = self.sides.get_mut(to) {
            target.live.insert(key);
            self.moved += 1;
        }
    }

    /// What has become of the members of `before`, by node.
    pub(super) fn moves(&self, before: &Groups) -> Vec<GroupMove> {
        let mut moves = Vec::new();
        for (name, side) in &self.sides {
            for (_, node) in side.live.iter().chain(&side.dirty) {
                let stays = before.get(*name).is_some_and(|group| group.members.contains(node));
                if !stays {
                    moves.push(GroupMove { node: node.clone(), to: Some((*name).clone()) });
                }
            }
        }
        moves.sort_unstable();
        moves
    }
}
