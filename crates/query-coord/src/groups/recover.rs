//! The recovery pass: gives groups what they miss, and takes from them what they may not keep.

use std::cmp::Reverse;

use pointsman_ids::{Error, ErrorCode, GroupName};

use super::{
    GroupCounts, GroupMove, Groups, Nodes,
    plan::{Plan, Spare},
};

/// What a pass does, and what it cannot do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Nodes that change their group, by name.
    pub moves: Vec<GroupMove>,
    /// One error for each group that stays as it should not be: `resource_group_not_enough_nodes` for one that misses
    /// nodes, `resource_group_illegal_config` for the default group when it has too many and nobody takes them.
    pub errors: Vec<Error>,
}

/// Weight of a group that misses nodes, or has to give some.
const URGENT: u64 = 1_000_000;
/// Weight of a group that a transfer list names.
const NAMED: u64 = 100_000;

/// One pass over all groups. Only those are touched that have fewer nodes than they request, more than their limits, or
/// nodes that they do not accept; what is missing comes before what is too much. A second pass changes nothing.
pub fn recover(groups: &Groups, nodes: &Nodes) -> Recovery {
    let mut plan = Plan::new(groups, nodes);
    // What one group gives away can be what another was waiting for. Every round that changes something leaves fewer
    // nodes missing or too many, so there are few.
    loop {
        let before = plan.moved;
        groups.keys().for_each(|group| fill(&mut plan, group));
        groups.keys().for_each(|group| relieve(&mut plan, group));
        if plan.moved == before {
            break;
        }
    }
    Recovery { moves: plan.moves(groups), errors: plan.counts().filter_map(complaint).collect() }
}

/// Gives a group what it misses, as far as others can spare it.
fn fill(plan: &mut Plan<'_>, target: &GroupName) {
    while plan.of(target).missing() > 0 {
        let config = plan.counts().find(|(name, ..)| *name == target).map(|(_, config, _)| config);
        let named = |name: &GroupName| config.is_some_and(|config| config.transfer_from.contains(name));
        let rank = |name: &GroupName, counts: &GroupCounts| match (counts.redundant(), counts.oversized()) {
            (0, oversized) if named(name) => u64::from(oversized) * NAMED,
            (0, oversized) => u64::from(oversized),
            (redundant, _) => u64::from(redundant) * URGENT,
        };
        let mut sources: Vec<(Reverse<u64>, &GroupName)> = plan
            .counts()
            .filter(|(name, _, counts)| *name != target && counts.oversized() > 0)
            .map(|(name, _, counts)| (Reverse(rank(name, &counts)), name))
            .collect();
        sources.sort_unstable();
        let gives = |(_, source): &(Reverse<u64>, &GroupName)| {
            let node = plan.leaver(source, target, Spare::AboveRequests)?;
            Some((node, (*source).clone()))
        };
        let Some((node, source)) = sources.iter().find_map(gives) else { return };
        plan.shift(&node, &source, target);
    }
}

/// Takes from a group what it may not keep.
pub(super) fn relieve(plan: &mut Plan<'_>, source: &GroupName) {
    while plan.of(source).redundant() > 0 {
        let config = plan.counts().find(|(name, ..)| *name == source).map(|(_, config, _)| config);
        let named = |name: &GroupName| config.is_some_and(|config| config.transfer_to.contains(name));
        let rank = |name: &GroupName, counts: &GroupCounts| match (counts.missing(), counts.headroom()) {
            (0, headroom) if named(name) => u64::from(headroom) * NAMED,
            (0, headroom) => u64::from(headroom),
            (missing, _) => u64::from(missing) * URGENT,
        };
        // Equal ranks: one that misses nodes comes before one that only has room.
        let mut targets: Vec<(Reverse<u64>, bool, &GroupName)> = plan
            .counts()
            .filter(|(name, _, counts)| *name != source && counts.headroom() > 0)
            .map(|(name, _, counts)| (Reverse(rank(name, &counts)), counts.missing() == 0, name))
            .collect();
        targets.sort_unstable();
        let takes = |target: &GroupName| {
            let node = plan.leaver(source, target, Spare::AboveLimits)?;
            Some((node, target.clone()))
        };
        let found = targets.iter().find_map(|(_, _, target)| takes(target));
        let default = GroupName::default_group();
        let found = found.or_else(|| takes(&default).filter(|_| *source != default));
        let Some((node, target)) = found else { return };
        plan.shift(&node, source, &target);
    }
}

/// What is still wrong with a group.
fn complaint((name, config, counts): (&GroupName, &super::GroupConfig, GroupCounts)) -> Option<Error> {
    let (missing, redundant) = (counts.missing(), counts.redundant());
    if missing > 0 {
        let filtered = if config.node_filter.is_empty() { "" } else { " that its node filter accepts" };
        let text = format!(
            "resource group '{name}' has {} of the {} nodes that it requests, and no other group can spare one{filtered}; \
             start nodes, or lower its requests",
            counts.live, counts.requests
        );
        return Some(Error::new(ErrorCode::ResourceGroupNotEnoughNodes, text));
    }
    (redundant > 0).then(|| {
        let text = format!(
            "resource group '{name}' has {redundant} nodes above its limits {}, and no other group takes one; raise the \
             limits of some group",
            counts.limits
        );
        Error::new(ErrorCode::ResourceGroupIllegalConfig, text)
    })
}
