//! Changes of groups that somebody asks for: create, update, drop, transfer of nodes.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{Error, ErrorCode, GroupName, NodeName, ReplicaId};

use super::{
    ConfigRequest, GroupConfig, Groups, Nodes, known_group,
    plan::{Plan, Spare},
    recover::relieve,
};
use crate::{Replica, ResourceGroup};

/// A node that changes its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupMove {
    /// The node.
    pub node: NodeName,
    /// The group that it becomes a member of; it leaves the one that it was in. `None`: it is a member of none.
    pub to: Option<GroupName>,
}

/// What a command or a pass changes, all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// New configurations of groups that exist.
    pub configs: BTreeMap<GroupName, GroupConfig>,
    /// Nodes that change their group, by name.
    pub moves: Vec<GroupMove>,
    /// A group that goes; its members have moved.
    pub dropped: Option<GroupName>,
}

impl GroupChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.configs.is_empty() && self.moves.is_empty() && self.dropped.is_none()
    }

    /// Makes the change in memory.
    pub fn apply(&self, groups: &mut Groups) {
        for (name, config) in &self.configs {
            if let Some(group) = groups.get_mut(name) {
                group.config = config.clone();
            }
        }
        for GroupMove { node, to } in &self.moves {
            for group in groups.values_mut() {
                group.members.remove(node);
            }
            if let Some(group) = to.as_ref().and_then(|to| groups.get_mut(to)) {
                group.members.insert(node.clone());
            }
        }
        if let Some(name) = &self.dropped {
            groups.remove(name);
        }
    }
}

/// The configuration of a group that is to be created; `None` when it exists with an equal one. No configuration:
/// requests and limits 0.
///
/// # Errors
/// `parameter_missing` without a name, `parameter_invalid` for one that is not lawful;
/// `resource_group_already_exists` with another configuration; `resource_group_limit_reached` when there are `limit`
/// groups; `resource_group_illegal_config` as [`ConfigRequest::check`].
pub fn create_group(
    groups: &Groups,
    name: &str,
    config: Option<&ConfigRequest>,
    limit: usize,
) -> Result<Option<(GroupName, GroupConfig)>, Error> {
    if name.is_empty() {
        return Err(Error::new(ErrorCode::ParameterMissing, "a resource group needs a name"));
    }
    let name = GroupName::new(name)?;
    let asked = config.map_or_else(|| Ok(GroupConfig::default()), |config| config.check(&name, groups));
    if let Some(present) = groups.get(&name) {
        if asked.as_ref() == Ok(&present.config) {
            return Ok(None);
        }
        let text = format!(
            "resource group '{name}' exists with another configuration (requests {}, limits {}); update it",
            present.config.requests, present.config.limits
        );
        return Err(Error::new(ErrorCode::ResourceGroupAlreadyExists, text));
    }
    if groups.len() >= limit {
        let text = format!(
            "resource group '{name}': there are {} groups and coordinator.resource_group_limit is {limit}; drop one, or \
             raise it",
            groups.len()
        );
        return Err(Error::new(ErrorCode::ResourceGroupLimitReached, text));
    }
    Ok(Some((name, asked?)))
}

/// Gives several groups new configurations, whole ones. Where one group gives up all of its requests and limits and
/// another gains as much, the nodes are handed over with it.
///
/// # Errors
/// `parameter_missing` when no group is named; `resource_group_not_found`; `resource_group_illegal_config` as
/// [`ConfigRequest::check`].
pub fn update_groups(
    groups: &Groups,
    nodes: &Nodes,
    asked: &BTreeMap<String, ConfigRequest>,
) -> Result<GroupChange, Error> {
    if asked.is_empty() {
        return Err(Error::new(ErrorCode::ParameterMissing, "name at least one resource group to update"));
    }
    for name in asked.keys() {
        known_group(groups, name)?;
    }
    let mut configs = BTreeMap::new();
    for (name, config) in asked {
        let group = known_group(groups, name)?;
        let config = config.check(&group.name, groups)?;
        if config != group.config {
            configs.insert(group.name.clone(), config);
        }
    }
    let mut change = GroupChange { configs, ..GroupChange::default() };
    let after = applied(groups, &change);
    let mut plan = Plan::new(&after, nodes);
    for (from, to) in heirs(groups, &after) {
        while plan.of(to).headroom() > 0 {
            let Some(node) = plan.leaver(from, to, Spare::All) else { break };
            plan.shift(&node, from, to);
        }
    }
    change.moves = plan.moves(&after);
    Ok(change)
}

/// Pairs of groups of which the first gave up all requests and limits and the second gained as many. Each group is in
/// one pair at most; the first by name come first.
fn heirs<'a>(before: &'a Groups, after: &'a Groups) -> Vec<(&'a GroupName, &'a GroupName)> {
    let numbers = |group: &ResourceGroup| (group.config.requests, group.config.limits);
    let mut taken = BTreeSet::new();
    let mut pairs = Vec::new();
    for (from, former) in before.iter().filter(|(_, group)| numbers(group) != (0, 0)) {
        if after.get(from).is_none_or(|group| numbers(group) != (0, 0)) {
            continue;
        }
        let gains = |(name, group): &(&GroupName, &ResourceGroup)| {
            let (requests, limits) = before.get(*name).map(numbers).unwrap_or_default();
            let gained =
                (group.config.requests.checked_sub(requests), group.config.limits.checked_sub(limits));
            gained == (Some(former.config.requests), Some(former.config.limits)) && !taken.contains(*name)
        };
        if let Some((to, _)) = after.iter().find(gains) {
            taken.insert(to);
            pairs.push((from, to));
        }
    }
    pairs
}

/// Takes a group away; its members go where what a group has too many goes. Absent: nothing.
///
/// # Errors
/// `parameter_invalid` for the default group, for one whose limits are not 0, that another group's transfer list names,
/// or in which replicas live; each with the remedy.
pub fn drop_group<'a>(
    groups: &Groups,
    nodes: &Nodes,
    replicas: impl IntoIterator<Item = &'a Replica>,
    name: &str,
) -> Result<GroupChange, Error> {
    let Some(group) = groups.get(name) else { return Ok(GroupChange::default()) };
    let name = &group.name;
    let refuse = |text: String| {
        Err(Error::new(
            ErrorCode::ParameterInvalid,
            format!("resource group '{name}' cannot be dropped: {text}"),
        ))
    };
    if name.as_str() == GroupName::DEFAULT {
        return refuse("it is the default group, which is always there".into());
    }
    if group.config.limits != 0 {
        return refuse(format!("its limits are {}; set requests and limits to 0 first", group.config.limits));
    }
    let names = |other: &&ResourceGroup| {
        other.config.transfer_from.contains(name) || other.config.transfer_to.contains(name)
    };
    if let Some(other) = groups.values().find(names) {
        return refuse(format!("a transfer list of '{}' names it; update that group first", other.name));
    }
    let living: Vec<ReplicaId> = replicas.into_iter().filter(|r| r.group == *name).map(|r| r.id).collect();
    if !living.is_empty() {
        let text = "replicas of loaded collections live in it; transfer them to another group, or release the collections";
        return refuse(format!("{} {text}", living.len()));
    }
    let mut plan = Plan::new(groups, nodes);
    // Without requests and limits all of its members are too many.
    relieve(&mut plan, name);
    Ok(GroupChange { moves: plan.moves(groups), dropped: Some(name.clone()), ..GroupChange::default() })
}

/// Moves `count` nodes from one group to another, and the requests and limits for them with them; all or none.
///
/// # Errors
/// `parameter_invalid` when both are the same group or `count` is not positive; `resource_group_not_found`;
/// `resource_group_not_enough_nodes` when the source has fewer nodes, or fewer that the target accepts.
pub fn transfer_nodes(
    groups: &Groups,
    nodes: &Nodes,
    source: &str,
    target: &str,
    count: i64,
) -> Result<GroupChange, Error> {
    let wanted = check_transfer("nodes", source, target, count)?;
    let (from, to) = (known_group(groups, source)?, known_group(groups, target)?);
    let present = from.members.len();
    let lacking = |has: usize, which: &str| {
        let text = format!("resource group '{source}' has {has} nodes{which} and {count} were to be moved");
        Error::new(ErrorCode::ResourceGroupNotEnoughNodes, text)
    };
    let number =
        u32::try_from(wanted).ok().filter(|_| wanted <= present).ok_or_else(|| lacking(present, ""))?;
    let configs = [(from.name.clone(), less(from, number)), (to.name.clone(), more(to, number))];
    let mut change = GroupChange { configs: configs.into(), ..GroupChange::default() };
    let after = applied(groups, &change);
    let mut plan = Plan::new(&after, nodes);
    for moved in 0..wanted {
        let node = plan.leaver(&from.name, &to.name, Spare::All);
        let node = node.ok_or_else(|| lacking(moved, &format!(" that '{target}' accepts")))?;
        plan.shift(&node, &from.name, &to.name);
    }
    change.moves = plan.moves(&after);
    change.configs.retain(|name, config| groups.get(name).is_none_or(|group| group.config != *config));
    Ok(change)
}

/// What both forms of a transfer demand of their parameters.
pub(super) fn check_transfer(what: &str, source: &str, target: &str, count: i64) -> Result<usize, Error> {
    let refuse = |text: String| Err(Error::new(ErrorCode::ParameterInvalid, text));
    if source == target {
        return refuse(format!("source and target are both '{}'; name two groups", source.escape_debug()));
    }
    if count <= 0 {
        return refuse(format!("{count} {what} cannot be moved; name a number above 0"));
    }
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn less(group: &ResourceGroup, count: u32) -> GroupConfig {
    let mut config = group.config.clone();
    config.requests = config.requests.saturating_sub(count);
    if group.name.as_str() != GroupName::DEFAULT {
        config.limits = config.limits.saturating_sub(count);
    }
    config
}

fn more(group: &ResourceGroup, count: u32) -> GroupConfig {
    let mut config = group.config.clone();
    config.requests = config.requests.saturating_add(count);
    if group.name.as_str() != GroupName::DEFAULT {
        config.limits = config.limits.saturating_add(count);
    }
    config.limits = config.limits.max(config.requests);
    config
}

fn applied(groups: &Groups, change: &GroupChange) -> Groups {
    let mut after = groups.clone();
    change.apply(&mut after);
    after
}
