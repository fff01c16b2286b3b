//! What becomes of members without anybody asking.

use std::collections::BTreeSet;

use pointsman_ids::{GroupName, NodeName};

use super::{GroupChange, GroupMove, Groups, Recovery, group_for, incoming, recover};
use crate::Stores;

/// One look at all groups: members that stay `away` leave, nodes that wait for a group get one (the one that they
/// asked for, if that exists, accepts them and has room), and then, if it `recovers`, comes a recovery pass.
pub fn settle_groups<'a>(
    stores: &Stores,
    away: &BTreeSet<NodeName>,
    asked: impl Fn(&NodeName) -> Option<&'a GroupName>,
    recovers: bool,
) -> Recovery {
    let mut groups = stores.groups.clone();
    let shift = |groups: &mut Groups, moves: Vec<GroupMove>| {
        GroupChange { moves, ..GroupChange::default() }.apply(groups);
    };
    shift(&mut groups, away.iter().map(|node| GroupMove { node: node.clone(), to: None }).collect());
    for node in incoming(stores) {
        let Some(record) = stores.nodes.get(&node) else { continue };
        let asked = asked(&node).filter(|group| groups.contains_key(*group));
        if let Ok(to) = group_for(&groups, &stores.nodes, record, asked) {
            shift(&mut groups, vec![GroupMove { node, to: Some(to) }]);
        }
    }
    let mut passed = Recovery::default();
    if recovers {
        passed = recover(&groups, &stores.nodes);
        shift(&mut groups, passed.moves);
    }
    Recovery { moves: between(&stores.groups, &groups), errors: passed.errors }
}

/// Moves that lead from one membership to another, by node.
fn between(before: &Groups, after: &Groups) -> Vec<GroupMove> {
    let is_member = |groups: &Groups, name: &GroupName, node: &NodeName| {
        groups.get(name).is_some_and(|group| group.members.contains(node))
    };
    let mut moves = Vec::new();
    for group in after.values() {
        let came = group.members.iter().filter(|node| !is_member(before, &group.name, node));
        moves.extend(came.map(|node| GroupMove { node: node.clone(), to: Some(group.name.clone()) }));
    }
    let stay: BTreeSet<&NodeName> = after.values().flat_map(|group| &group.members).collect();
    let left = before.values().flat_map(|group| &group.members).filter(|node| !stay.contains(node));
    moves.extend(left.map(|node| GroupMove { node: node.clone(), to: None }));
    moves.sort_unstable();
    moves
}
