//! What always holds of groups, whatever happens to them.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod pools;

use std::collections::BTreeMap;

use pointsman_ids::NodeName;
use pointsman_query_coord::{
    ConfigRequest, GroupConfig, GroupMove, Groups, Nodes, drop_group, group_for, recover, transfer_nodes,
    update_groups,
};
use pools::*;
use proptest::prelude::*;

const GROUPS: [&str; 5] = ["default", "a", "b", "c", "d"];

/// A configuration that makes sense for one of [`GROUPS`].
fn any_config(own: usize) -> impl Strategy<Value = GroupConfig> {
    let names = move |picked: Vec<usize>| {
        let others = picked.into_iter().filter(move |at| *at != own);
        others.map(|at| group(GROUPS[at])).collect()
    };
    let lists = prop::collection::vec(0..GROUPS.len(), 0..3);
    let filter = prop_oneof![Just(None), Just(Some("x")), Just(Some("y"))];
    (0..4_u32, 0..4_u32, lists.clone(), lists, filter).prop_map(move |(requests, more, from, to, zone)| {
        let mut config = GroupConfig {
            requests,
            limits: requests + more,
            transfer_from: names(from),
            transfer_to: names(to),
            node_filter: BTreeMap::new(),
        };
        if own != 0 {
            config.node_filter.extend(zone.map(|zone| ("zone".to_owned(), zone.to_owned())));
        }
        config
    })
}

/// All groups, and nodes each of which is a member of one or of none.
fn any_pools() -> impl Strategy<Value = Pools> {
    let configs = (any_config(0), any_config(1), any_config(2), any_config(3), any_config(4));
    let members = prop::collection::vec((0..=GROUPS.len(), any::<bool>()), 0..12);
    (configs, members).prop_map(|((c0, c1, c2, c3, c4), members)| {
        let mut pools = Pools::new(&[], &[]);
        for (name, config) in GROUPS.iter().zip([c0, c1, c2, c3, c4]) {
            pools.groups.extend(Pools::new(&[], &[(*name, config, &[])]).groups);
        }
        for (id, (of, x)) in (1..).zip(members) {
            let name = format!("n{id:02}");
            pools.nodes.insert(node(&name), record(&name, id, if x { "x" } else { "y" }));
            if let Some(of) = GROUPS.get(of) {
                pools.groups.get_mut(*of).unwrap().members.insert(node(&name));
            }
        }
        pools
    })
}

fn asked(config: &GroupConfig) -> ConfigRequest {
    ConfigRequest {
        requests: Some(config.requests.into()),
        limits: Some(config.limits.into()),
        transfer_from: config.transfer_from.iter().rev().map(ToString::to_string).collect(),
        transfer_to: config.transfer_to.iter().map(ToString::to_string).collect(),
        node_filter: config.node_filter.clone(),
    }
}

fn apply(groups: &mut Groups, moves: &[GroupMove]) {
    let change = pointsman_query_coord::GroupChange { moves: moves.to_vec(), ..Default::default() };
    change.apply(groups);
}

/// How often each node is a member.
fn memberships(groups: &Groups) -> BTreeMap<NodeName, usize> {
    let mut counts = BTreeMap::new();
    for node in groups.values().flat_map(|group| &group.members) {
        *counts.entry(node.clone()).or_default() += 1;
    }
    counts
}

fn missing(groups: &Groups, nodes: &Nodes) -> u32 {
    groups.values().map(|group| group.counts(nodes).missing()).sum()
}

proptest! {
    #[test]
    fn a_pass_ends_keeps_every_member_and_a_second_one_changes_nothing(pools in any_pools()) {
        let mut groups = pools.groups.clone();
        let before = memberships(&groups);
        let pass = recover(&groups, &pools.nodes);
        apply(&mut groups, &pass.moves);
        prop_assert_eq!(memberships(&groups), before, "each node in one group, as before");
        prop_assert!(missing(&groups, &pools.nodes) <= missing(&pools.groups, &pools.nodes));
        for one in &pass.moves {
            let to = &groups[one.to.as_ref().unwrap()];
            prop_assert!(to.accepts(pools.nodes.get(&one.node)), "{:?} is not accepted", one);
        }
        let again = recover(&groups, &pools.nodes);
        prop_assert_eq!(again.moves, []);
        prop_assert_eq!(again.errors, pass.errors);
        for group in groups.values().filter(|group| group.name.as_str() != "default") {
            prop_assert_eq!(group.counts(&pools.nodes).redundant(), 0, "{} keeps too many", group.name);
        }
    }

    #[test]
    fn what_is_within_its_bounds_loses_nobody_but_to_who_misses_nodes(pools in any_pools()) {
        let pass = recover(&pools.groups, &pools.nodes);
        let home = |node| pools.groups.values().find(|group| group.members.contains(node)).unwrap();
        for one in &pass.moves {
            let from = home(&one.node);
            let to = &pools.groups[one.to.as_ref().unwrap()];
            // The default group may have got others' surplus before.
            let is_in_order = from.counts(&pools.nodes).redundant() == 0 && from.name.as_str() != "default";
            prop_assert!(!is_in_order || to.counts(&pools.nodes).missing() > 0, "{:?} from {}", one, from.name);
        }
    }

    #[test]
    fn commands_leave_every_node_in_one_group_at_most(
        pools in any_pools(),
        commands in prop::collection::vec((0..4_usize, 0..GROUPS.len(), 0..GROUPS.len(), -1..4_i64), 1..12),
        configs in (any_config(1), any_config(2)),
    ) {
        let mut groups = pools.groups.clone();
        for (kind, one, other, count) in commands {
            let (one, other) = (GROUPS[one], GROUPS[other]);
            let before = memberships(&groups);
            let change = match kind {
                0 => transfer_nodes(&groups, &pools.nodes, one, other, count),
                1 => drop_group(&groups, &pools.nodes, &[], one),
                2 => {
                    let asked = [("a", &configs.0), ("b", &configs.1)].map(|(name, to)| (name.to_owned(), asked(to)));
                    update_groups(&groups, &pools.nodes, &asked.into())
                }
                _ => {
                    let zero = ConfigRequest { requests: Some(0), limits: Some(0), ..Default::default() };
                    update_groups(&groups, &pools.nodes, &[(one.to_owned(), zero)].into())
                }
            };
            if let Ok(change) = change {
                if kind == 0 {
                    prop_assert_eq!(i64::try_from(change.moves.len()).unwrap(), count, "all or none");
                }
                change.apply(&mut groups);
            }
            prop_assert_eq!(memberships(&groups), before);
            prop_assert!(groups.contains_key("default"));
            for group in groups.values() {
                prop_assert!(group.config.requests <= group.config.limits, "{:?}", group);
            }
        }
    }

    #[test]
    fn a_node_that_arrives_disturbs_no_pass(pools in any_pools(), x in any::<bool>(), at in 0..GROUPS.len()) {
        let mut nodes = pools.nodes.clone();
        let newcomer = record("n99", 99, if x { "x" } else { "y" });
        nodes.insert(newcomer.name.clone(), newcomer.clone());
        let mut groups = pools.groups.clone();
        let pass = recover(&groups, &nodes);
        apply(&mut groups, &pass.moves);
        let to = group_for(&groups, &nodes, &newcomer, Some(&group(GROUPS[at]))).unwrap();
        prop_assert!(groups[&to].accepts(Some(&newcomer)));
        let settled = groups[&to].counts(&nodes).headroom() > 0;
        apply(&mut groups, &[GroupMove { node: newcomer.name.clone(), to: Some(to) }]);
        let again = recover(&groups, &nodes);
        let moved = again.moves.iter().any(|one| one.node == newcomer.name);
        prop_assert!(!settled || !moved || missing(&groups, &nodes) > 0, "{:?}", again);
    }
}
