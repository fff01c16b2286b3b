//! Which group a node becomes a member of when it comes up.

use std::cmp::Reverse;

use pointsman_ids::{Error, GroupName, NodeName};

use super::{GroupCounts, Groups, Nodes, known_group};
use crate::{NodeRecord, ResourceGroup, SessionState, Stores};

/// The group of a node that comes up: the one that it is a member of; else the one that it asks for, if that accepts it
/// and has room; else the group that misses most nodes and accepts it; else the one with most room that accepts it;
/// else the default group. Ties go by name.
///
/// # Errors
/// `resource_group_not_found` when it is a member of none and asks for a group that does not exist.
pub fn group_for(
    groups: &Groups,
    nodes: &Nodes,
    node: &NodeRecord,
    asked: Option<&GroupName>,
) -> Result<GroupName, Error> {
    if let Some(group) = groups.values().find(|group| group.members.contains(&node.name)) {
        return Ok(group.name.clone());
    }
    if let Some(asked) = asked {
        let group = known_group(groups, asked.as_str())
            .map_err(|unknown| unknown.context(format_args!("node '{}'", node.name)))?;
        if group.accepts(Some(node)) && group.counts(nodes).headroom() > 0 {
            return Ok(group.name.clone());
        }
    }
    let counts: Vec<(&ResourceGroup, GroupCounts)> = groups
        .values()
        .filter(|group| group.accepts(Some(node)))
        .map(|group| (group, group.counts(nodes)))
        .collect();
    let most = |figure: fn(&GroupCounts) -> u32| {
        let having = counts.iter().filter(move |(_, counts)| figure(counts) > 0);
        // The first of equals, and groups come by name.
        having.min_by_key(move |(_, counts)| Reverse(figure(counts))).map(|(group, _)| group.name.clone())
    };
    let found = most(GroupCounts::missing).or_else(|| most(GroupCounts::headroom));
    Ok(found.unwrap_or_else(GroupName::default_group))
}

/// Nodes that wait for a group, by name: those that live and are members of none. One that leaves waits for nothing.
pub fn incoming(stores: &Stores) -> Vec<NodeName> {
    let waits = |node: &&NodeName| {
        let name = node.as_str();
        let comes = stores.session(name) == SessionState::Live && !stores.is_leaving(name);
        comes && stores.group_of(name).is_none()
    };
    stores.observed.keys().filter(|node| stores.nodes.contains_key(*node)).filter(waits).cloned().collect()
}
