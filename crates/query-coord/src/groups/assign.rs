//! Members of groups into replicas.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_ids::{CollectionId, GroupName, NodeName, ReplicaId};

use crate::{Replica, SessionState, Stores, copies_on};

/// How long replicas wait for their group to have its nodes before they get their first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupWait {
    /// Now, nanoseconds since the Unix epoch.
    pub now: u64,
    /// The longest wait.
    pub at_most: Duration,
}

/// Replicas by number while nodes are divided among them.
type Planned = BTreeMap<ReplicaId, Replica>;

/// Divides the members of the groups evenly among the replicas of a collection, and moves nobody without need.
/// `replicas` are all of the collection; the answer holds those that change.
///
/// Per group, each replica gets the same number of usable members, and the first of those that have most get one more;
/// of equals that with the higher number. What a replica has and may not keep becomes read-only, and leaves when it
/// reports nothing of the collection any more. A replica with the waiting mark takes no part while its group misses
/// nodes and the wait is not over; the mark goes with its first nodes.
pub fn replica_nodes<'a>(
    stores: &Stores,
    collection: CollectionId,
    replicas: impl IntoIterator<Item = &'a Replica>,
    wait: GroupWait,
) -> Vec<Replica> {
    let before: BTreeMap<ReplicaId, &Replica> =
        replicas.into_iter().map(|replica| (replica.id, replica)).collect();
    let mut planned: Planned = before.iter().map(|(id, replica)| (*id, (*replica).clone())).collect();
    let groups: BTreeSet<&GroupName> = before.values().map(|replica| &replica.group).collect();
    for group in groups {
        let usable = usable_members(stores, group, &planned);
        let takes_part = |replica: &&Replica| replica.group == *group && !waits(stores, replica, wait);
        let partakers: Vec<ReplicaId> =
            planned.values().filter(takes_part).map(|replica| replica.id).collect();
        divide(&partakers, &usable, &mut planned);
    }
    for replica in planned.values_mut() {
        release_drained(stores, collection, replica);
        replica.waits_for_group_since = replica.waits_for_group_since.filter(|_| replica.nodes.is_empty());
    }
    planned.into_values().filter(|replica| before.get(&replica.id) != Some(&replica)).collect()
}

/// Whether the first assignment of nodes to a replica is postponed still.
fn waits(stores: &Stores, replica: &Replica, wait: GroupWait) -> bool {
    let Some(since) = replica.waits_for_group_since else { return false };
    let waited = Duration::from_nanos(wait.now.saturating_sub(since));
    let misses = |group: &crate::ResourceGroup| group.counts(&stores.nodes).missing() > 0;
    waited < wait.at_most && stores.groups.get(&replica.group).is_some_and(misses)
}

/// Members that neither leave nor serve the collection in another group. One that is disabled keeps its place and gets
/// no new one.
fn usable_members(stores: &Stores, group: &GroupName, planned: &Planned) -> BTreeSet<NodeName> {
    let elsewhere = |node: &str| planned.values().any(|other| other.group != *group && other.contains(node));
    let leaving = |node: &str| stores.is_leaving(node) || stores.session(node) == SessionState::Gone;
    let idle =
        |node: &str| stores.is_disabled(node) && planned.values().all(|replica| !replica.contains(node));
    let members = stores.groups.get(group).map(|group| &group.members).into_iter().flatten();
    let usable = |node: &str| !leaving(node) && !elsewhere(node) && !idle(node);
    members.filter(|node| usable(node.as_str())).cloned().collect()
}

fn divide(partakers: &[ReplicaId], usable: &BTreeSet<NodeName>, planned: &mut Planned) {
    let has = |id: &ReplicaId| {
        let nodes =
            planned.get(id).into_iter().flat_map(|replica| replica.nodes.iter().chain(&replica.ro_nodes));
        nodes.filter(|node| usable.contains(*node)).count()
    };
    let mut order: Vec<(usize, ReplicaId)> = partakers.iter().map(|id| (has(id), *id)).collect();
    order.sort_unstable_by(|a, b| b.cmp(a));
    let Some(quota) = usable.len().checked_div(order.len()) else { return };
    let rest = usable.len() % order.len();
    let quotas: Vec<(ReplicaId, usize)> =
        order.iter().enumerate().map(|(at, (_, id))| (*id, quota + usize::from(at < rest))).collect();
    // First everybody gives away, then everybody takes: what one gives is read-only there before others look around.
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

/// Lets read-only nodes go that hold nothing of the collection any more.
fn release_drained(stores: &Stores, collection: CollectionId, replica: &mut Replica) {
    if replica.ro_nodes.is_empty() {
        return;
    }
    let before = replica.clone();
    replica.ro_nodes.retain(|node| match stores.session(node.as_str()) {
        // What a lost node reported last counts until others hold it.
        SessionState::Lost => !copies_on(stores, &before, node).is_empty(),
        _ => reports_any(stores, node, collection),
    });
}

/// Whether a node may still hold or lead something of the collection. One that was not heard yet may.
fn reports_any(stores: &Stores, node: &NodeName, collection: CollectionId) -> bool {
    if stores.distribution.leads(node, collection) {
        return true;
    }
    let of_collection =
        |id| stores.segment(collection, id).is_some_and(|s| s.segment.collection == collection);
    match stores.observed.get(node) {
        Some(observation) if observation.reported => stores.reports(node).any(|(id, _)| of_collection(id)),
        Some(observation) => observation.state != SessionState::Gone,
        None => stores.awaiting,
    }
}
