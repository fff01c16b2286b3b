//! Nodes into groups, and members of groups into replicas.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_ids::{CollectionId, Error, ErrorCode, GroupName, NodeName, ReplicaId};

use crate::{Replica, ResourceGroup, SessionState, Stores};

/// The group that a node belongs to when it comes up: the one it is a member of; else the one that it asks for; else
/// the one that misses most nodes, ties by name; else the default group.
///
/// # Errors
/// `resource_group_not_found` when it asks for a group that does not exist and is a member of none.
pub fn group_for(
    groups: &BTreeMap<GroupName, ResourceGroup>,
    node: &NodeName,
    asked: Option<&GroupName>,
) -> Result<GroupName, Error> {
    if let Some(group) = groups.values().find(|group| group.members.contains(node)) {
        return Ok(group.name.clone());
    }
    if let Some(asked) = asked {
        let group = groups.get(asked).map(|group| group.name.clone());
        return group
            .ok_or_else(|| unknown_group(groups, asked.as_str()).context(format_args!("node '{node}'")));
    }
    let missing = |group: &ResourceGroup| group.requests.saturating_sub(count(&group.members));
    // `max_by_key` takes the last of equals; backwards that is the first by name.
    let neediest =
        groups.values().rev().filter(|group| missing(group) > 0).max_by_key(|group| missing(group));
    Ok(neediest.map_or_else(GroupName::default_group, |group| group.name.clone()))
}

/// The error for a group that does not exist, naming those that do.
fn unknown_group(groups: &BTreeMap<GroupName, ResourceGroup>, name: &str) -> Error {
    let known: Vec<&str> = groups.keys().map(GroupName::as_str).collect();
    let text = format!("there is no resource group '{name}'; there are: {}", known.join(", "));
    Error::new(ErrorCode::ResourceGroupNotFound, text)
}

impl Stores {
    /// A group that must exist.
    ///
    /// # Errors
    /// `resource_group_not_found` naming the groups that do.
    pub fn group(&self, name: &str) -> Result<&ResourceGroup, Error> {
        self.groups.get(name).ok_or_else(|| unknown_group(&self.groups, name))
    }

    /// The group that a node is a member of.
    pub fn group_of(&self, node: &str) -> Option<&ResourceGroup> {
        self.groups.values().find(|group| group.members.contains(node))
    }
}

/// Divides the members of the groups evenly among the replicas of a collection, and moves nobody without need.
/// `replicas` are all of the collection; the answer holds those that change.
///
/// Per group, each replica gets the same number of usable members, and the first of those that have most get one more.
/// What a replica has and may not keep becomes read-only, and leaves when it reports nothing of the collection any
/// more.
pub fn replica_nodes(stores: &Stores, collection: CollectionId, replicas: &[Replica]) -> Vec<Replica> {
    let mut planned: BTreeMap<ReplicaId, Replica> = replicas.iter().map(|r| (r.id, r.clone())).collect();
    let groups: BTreeSet<&GroupName> = replicas.iter().map(|replica| &replica.group).collect();
    for group in groups {
        let usable = usable_members(stores, group, &planned);
        divide(group, &usable, &mut planned);
    }
    for replica in planned.values_mut() {
        let drained = |node: &NodeName| !reports_any(stores, node, collection);
        replica.ro_nodes.retain(|node| !drained(node));
    }
    let changed = |replica: &&Replica| planned.get(&replica.id) != Some(*replica);
    replicas.iter().filter(changed).filter_map(|replica| planned.get(&replica.id).cloned()).collect()
}

/// Members that neither stop nor serve the collection in another group. One that is disabled keeps its place and gets
/// no new one.
fn usable_members(
    stores: &Stores,
    group: &GroupName,
    planned: &BTreeMap<ReplicaId, Replica>,
) -> BTreeSet<NodeName> {
    let elsewhere = |node: &str| planned.values().any(|other| other.group != *group && other.contains(node));
    let leaving = |node: &str| matches!(stores.session(node), SessionState::Stopping | SessionState::Gone);
    let idle =
        |node: &str| stores.is_disabled(node) && planned.values().all(|replica| !replica.contains(node));
    let members = stores.groups.get(group).map(|group| &group.members).into_iter().flatten();
    let usable = |node: &str| !leaving(node) && !elsewhere(node) && !idle(node);
    members.filter(|node| usable(node.as_str())).cloned().collect()
}

fn divide(group: &GroupName, usable: &BTreeSet<NodeName>, planned: &mut BTreeMap<ReplicaId, Replica>) {
    let mut order: Vec<(usize, ReplicaId)> = planned
        .values()
        .filter(|replica| replica.group == *group)
        .map(|replica| {
            (
                replica.nodes.iter().chain(&replica.ro_nodes).filter(|n| usable.contains(*n)).count(),
                replica.id,
            )
        })
        .collect();
    order.sort_unstable_by(|a, b| b.cmp(a));
    let Some(quota) = usable.len().checked_div(order.len()) else { return };
    let rest = usable.len() % order.len();
    let quotas: Vec<(ReplicaId, usize)> =
        order.iter().enumerate().map(|(at, (_, id))| (*id, quota + usize::from(at < rest))).collect();
    // First everybody gives away, then everybody takes: a node that one gives is there for the next.
    for (id, quota) in &quotas {
        if let Some(replica) = planned.get_mut(id) {
            give_away(replica, usable, *quota);
        }
    }
    for (id, quota) in &quotas {
        let taken: BTreeSet<NodeName> = planned
            .values()
            .flat_map(|replica| replica.nodes.iter().chain(&replica.ro_nodes))
            .cloned()
            .collect();
        if let Some(replica) = planned.get_mut(id) {
            take(replica, usable, &taken, *quota);
        }
    }
}

fn give_away(replica: &mut Replica, usable: &BTreeSet<NodeName>, quota: usize) {
    let (mut kept, mut given): (BTreeSet<_>, BTreeSet<_>) =
        replica.nodes.iter().cloned().partition(|node| usable.contains(node));
    while kept.len() > quota {
        given.extend(kept.pop_last());
    }
    replica.nodes = kept;
    replica.ro_nodes.extend(given);
}

fn take(replica: &mut Replica, usable: &BTreeSet<NodeName>, taken: &BTreeSet<NodeName>, quota: usize) {
    let back: Vec<NodeName> = replica.ro_nodes.intersection(usable).cloned().collect();
    let free = usable.difference(taken).cloned();
    for node in back.into_iter().chain(free) {
        if replica.nodes.len() >= quota {
            break;
        }
        replica.ro_nodes.remove(&node);
        replica.nodes.insert(node);
    }
}

/// Whether a node may still hold something of the collection. One that was not heard yet may.
fn reports_any(stores: &Stores, node: &NodeName, collection: CollectionId) -> bool {
    let of_collection =
        |id| stores.segment(collection, id).is_some_and(|s| s.segment.collection == collection);
    match stores.observed.get(node) {
        Some(observation) if observation.reported => observation.segments.keys().any(|id| of_collection(*id)),
        Some(observation) => !matches!(observation.state, SessionState::Gone | SessionState::Lost),
        None => stores.awaiting,
    }
}

fn count(members: &BTreeSet<NodeName>) -> u32 {
    u32::try_from(members.len()).unwrap_or(u32::MAX)
}
