//! Other replicas for a collection that is loaded.

use std::collections::BTreeMap;

use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, GroupName, NodeName, ReplicaId};

use super::{LoadChange, NewReplica, ReplicaNumbers};
use crate::{GroupWait, LoadRecord, Replica, Stores, replica_nodes};

/// How many replicas each group has.
pub fn present_numbers<'a>(replicas: impl IntoIterator<Item = &'a Replica>) -> ReplicaNumbers {
    let mut numbers = ReplicaNumbers::new();
    replicas.into_iter().for_each(|replica| *numbers.entry(replica.group.clone()).or_default() += 1);
    numbers
}

/// What makes the replicas of a collection those that are wanted: as few are moved and created as can be.
///
/// Candidates to go or to move are those in groups that are not wanted any more, and those that are too many in a group,
/// the newest of it; groups by name, replicas by number. The first of them are released if there are more replicas than
/// wanted, the others move to groups that lack some, and what lacks then is created. With `wait` replicas that are
/// created are invisible to queries and wait for their groups to have their nodes.
pub fn plan_replicas(
    stores: &Stores,
    collection: CollectionId,
    wanted: &ReplicaNumbers,
    wait: Option<WallTime>,
) -> LoadChange {
    let mut change = LoadChange::default();
    let present = present_numbers(stores.replicas_of(collection));
    let total = |numbers: &ReplicaNumbers| -> u64 { numbers.values().map(|number| u64::from(*number)).sum() };
    let surplus = total(&present).saturating_sub(total(wanted));
    let mut lacking: BTreeMap<GroupName, u32> = BTreeMap::new();
    for (group, number) in wanted {
        let there = present.get(group).copied().unwrap_or(0);
        lacking.insert(group.clone(), number.saturating_sub(there));
    }
    for (candidate, at) in candidates(stores, collection, wanted).into_iter().zip(0_u64..) {
        if at < surplus {
            change.removed.push((collection, candidate.id));
        } else if let Some(group) = take(&mut lacking) {
            change.replicas.push(Replica { group, ..candidate.clone() });
        }
    }
    while let Some(group) = take(&mut lacking) {
        change.created.push(NewReplica {
            collection,
            group,
            nodes: Vec::new(),
            query_visible: wait.is_none(),
            waits_for_group_since: wait.map(|now| now.0),
        });
    }
    change
}

/// The first group that lacks a replica; it lacks one less then.
fn take(lacking: &mut BTreeMap<GroupName, u32>) -> Option<GroupName> {
    let (group, number) = lacking.iter_mut().find(|(_, number)| **number > 0)?;
    *number -= 1;
    Some(group.clone())
}

/// Replicas that are not wanted where they are.
fn candidates<'a>(stores: &'a Stores, collection: CollectionId, wanted: &ReplicaNumbers) -> Vec<&'a Replica> {
    let mut by_group: BTreeMap<&GroupName, Vec<&Replica>> = BTreeMap::new();
    for replica in stores.replicas_of(collection) {
        by_group.entry(&replica.group).or_default().push(replica);
    }
    let beyond = |(group, mut replicas): (&GroupName, Vec<&'a Replica>)| {
        replicas.sort_unstable_by_key(|replica| replica.id);
        let stay = wanted.get(group).map_or(0, |number| usize::try_from(*number).unwrap_or(usize::MAX));
        replicas.split_off(stay.min(replicas.len()))
    };
    by_group.into_iter().flat_map(beyond).collect()
}

/// The change that gives a registered collection these replicas, with nodes divided anew; the status stays. `None`:
/// nothing changes. `chosen`: whether the user chose the number.
pub fn plan_update(
    stores: &Stores,
    record: &LoadRecord,
    wanted: &ReplicaNumbers,
    chosen: bool,
    wait_for_groups: bool,
    group_wait: GroupWait,
) -> Option<LoadChange> {
    let collection = record.collection;
    let wait = wait_for_groups.then_some(WallTime(group_wait.now));
    let mut change = plan_replicas(stores, collection, wanted, wait);
    let number =
        u32::try_from(wanted.values().map(|number| u64::from(*number)).sum::<u64>()).unwrap_or(u32::MAX);
    if change.is_empty() && number == record.replicas && chosen == record.replicas_chosen {
        return None;
    }
    assign_nodes(stores, collection, &mut change, group_wait);
    change.records.push(LoadRecord { replicas: number, replicas_chosen: chosen, ..record.clone() });
    Some(change)
}

/// Divides nodes among the replicas as they are after the change; it says what comes of that as well.
pub(super) fn assign_nodes(
    stores: &Stores,
    collection: CollectionId,
    change: &mut LoadChange,
    group_wait: GroupWait,
) {
    let mut after: BTreeMap<ReplicaId, Replica> =
        stores.replicas_of(collection).map(|replica| (replica.id, replica.clone())).collect();
    change.removed.iter().for_each(|(_, id)| drop(after.remove(id)));
    change.replicas.iter().for_each(|replica| drop(after.insert(replica.id, replica.clone())));
    // Their numbers come with the write; until then any do that come after those that are there.
    let first = after.keys().next_back().map_or(0, |id| id.0) + 1;
    for (new, id) in change.created.iter().zip(first..) {
        after.insert(ReplicaId(id), provisional(new, ReplicaId(id)));
    }
    for assigned in replica_nodes(stores, collection, after.values(), group_wait) {
        match usize::try_from(assigned.id.0.wrapping_sub(first))
            .ok()
            .and_then(|at| change.created.get_mut(at))
        {
            Some(new) if assigned.id.0 >= first => {
                new.nodes = assigned.nodes.iter().cloned().collect::<Vec<NodeName>>();
                new.waits_for_group_since = assigned.waits_for_group_since;
            }
            _ => {
                change.replicas.retain(|replica| replica.id != assigned.id);
                change.replicas.push(assigned);
            }
        }
    }
}

fn provisional(new: &NewReplica, id: ReplicaId) -> Replica {
    Replica {
        id,
        collection: new.collection,
        group: new.group.clone(),
        nodes: Default::default(),
        ro_nodes: Default::default(),
        query_visible: new.query_visible,
        finished: false,
        waits_for_group_since: new.waits_for_group_since,
    }
}
