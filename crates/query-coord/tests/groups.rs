//! Resource groups: figures, commands, arrival and recovery.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod pools;

use std::collections::BTreeMap;

use pointsman_ids::{Error, ErrorCode, GroupName, MAX_LABELS, check_labels};
use pointsman_query_coord::{
    ConfigRequest, GroupConfig, Groups, Recovery, create_group, drop_group, group_for, recover,
    transfer_nodes, update_groups,
};
use pools::*;

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorCode {
    result.unwrap_err().code()
}

fn create(groups: &Groups, name: &str, config: Option<ConfigRequest>) -> Result<bool, Error> {
    create_group(groups, name, config.as_ref(), 10).map(|new| new.is_some())
}

#[test]
fn the_figures_of_a_group_follow_from_its_members_and_its_filter() {
    let pools = Pools::new(
        &[("n1", "a"), ("n2", "a"), ("n3", "b")],
        &[
            ("east", config(1, 4).filtered("a"), &["n1", "n2", "n3", "n9"]),
            ("default", config(0, 10), &["n8"]),
        ],
    );
    let east = pools.groups["east"].counts(&pools.nodes);
    assert_eq!((east.live, east.dirty), (2, 2), "n3 has another label, n9 is not known");
    assert_eq!((east.missing(), east.oversized(), east.headroom(), east.redundant()), (0, 3, 2, 2));
    assert_eq!(names(pools.groups["east"].dirty(&pools.nodes)), ["n3", "n9"]);
    let default = pools.groups["default"].counts(&pools.nodes);
    assert_eq!((default.live, default.dirty), (1, 0), "the default group accepts every node");
    let full = Pools::new(&[("n1", "a")], &[("east", config(3, 3), &["n1"])]);
    let full = full.groups["east"].counts(&full.nodes);
    assert_eq!((full.missing(), full.oversized(), full.headroom(), full.redundant()), (2, 0, 2, 0));
}

#[test]
fn a_group_is_created_once_and_what_is_refused_comes_in_order() {
    let groups = Pools::new(&[], &[("default", config(0, 9), &[]), ("east", config(1, 2), &[])]).groups;
    assert!(create(&groups, "west", None).unwrap());
    let made = create_group(&groups, "west", None, 10).unwrap().unwrap();
    assert_eq!(made.1, GroupConfig::default(), "no configuration: requests 0, limits 0");
    assert!(!create(&groups, "east", Some(request(1, 2))).unwrap());
    assert_eq!(code(create(&groups, "", Some(request(-1, 2)))), ErrorCode::ParameterMissing);
    assert_eq!(code(create(&groups, "a b", None)), ErrorCode::ParameterInvalid);
    // An unlawful configuration is another one.
    assert_eq!(code(create(&groups, "east", Some(request(-1, 2)))), ErrorCode::ResourceGroupAlreadyExists);
    let full = create_group(&groups, "west", Some(&request(-1, 2)), 2);
    assert_eq!(code(full), ErrorCode::ResourceGroupLimitReached);
    assert_eq!(create_group(&groups, "east", Some(&request(1, 2)), 2), Ok(None));
    assert_eq!(code(create(&groups, "west", Some(request(-1, 2)))), ErrorCode::ResourceGroupIllegalConfig);
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused_with_the_group_and_the_reason() {
    let groups = Pools::new(&[], &[("default", config(0, 9), &[]), ("east", config(1, 2), &[])]).groups;
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let many = (0..=MAX_LABELS).map(|at| (format!("l{at}"), "x".to_owned())).collect();
    for (request, why) in [
        (ConfigRequest { limits: Some(1), ..Default::default() }, "requests are not given"),
        (ConfigRequest { requests: Some(1), ..Default::default() }, "limits are not given"),
        (request(-1, 1), "requests -1 are not between 0"),
        (request(0, i64::MAX), "limits 9223372036854775807 are not between 0"),
        (request(3, 2), "limits 2 are below requests 3"),
        (ConfigRequest { transfer_from: list(&["north"]), ..request(0, 0) }, "transfer_from names 'north'"),
        (
            ConfigRequest { transfer_to: list(&["west"]), ..request(0, 0) },
            "transfer_to names the group itself",
        ),
        (ConfigRequest { node_filter: many, ..request(0, 0) }, "65 labels"),
    ] {
        let refused = create(&groups, "west", Some(request)).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::ResourceGroupIllegalConfig, "{refused}");
        assert!(refused.message().contains("'west'") && refused.message().contains(why), "{refused}");
    }
    let lists = ConfigRequest { transfer_from: list(&["east", "default", "east"]), ..request(0, 0) };
    let (_, made) = create_group(&groups, "west", Some(&lists), 10).unwrap().unwrap();
    assert_eq!(made.transfer_from, [group("default"), group("east")].into());
    let filtered = BTreeMap::from([("default".to_owned(), request(0, 9).filtered("a"))]);
    assert_eq!(
        code(update_groups(&groups, &BTreeMap::new(), &filtered)),
        ErrorCode::ResourceGroupIllegalConfig
    );
    let long = BTreeMap::from([("zone".to_owned(), "x".repeat(257))]);
    assert!(check_labels(&long).unwrap_err().contains("'zone'"));
    assert!(check_labels(&BTreeMap::from([(String::new(), "x".to_owned())])).is_err());
}

#[test]
fn an_update_changes_all_groups_or_none() {
    let pools = Pools::new(
        &[("n1", "a")],
        &[("default", config(0, 9), &["n1"]), ("east", config(1, 2), &[]), ("west", config(1, 2), &[])],
    );
    let update = |asked: &[(&str, ConfigRequest)]| {
        let asked = asked.iter().map(|(name, request)| ((*name).to_owned(), request.clone())).collect();
        update_groups(&pools.groups, &pools.nodes, &asked)
    };
    assert_eq!(code(update(&[])), ErrorCode::ParameterMissing);
    assert_eq!(
        code(update(&[("east", request(-1, 0)), ("north", request(0, 0))])),
        ErrorCode::ResourceGroupNotFound,
        "unknown names come first"
    );
    assert_eq!(
        code(update(&[("east", request(0, 0)), ("west", request(2, 1))])),
        ErrorCode::ResourceGroupIllegalConfig
    );
    let change = update(&[("east", request(2, 3)), ("west", request(1, 2))]).unwrap();
    assert_eq!(change.configs, [(group("east"), config(2, 3))].into(), "one that has it is left alone");
    assert!(update(&[("west", request(1, 2))]).unwrap().is_empty());
    let mut groups = pools.groups.clone();
    change.apply(&mut groups);
    assert_eq!(groups["east"].config, config(2, 3));
}

#[test]
fn what_one_group_gives_up_and_another_gains_is_handed_over_at_once() {
    let pools = Pools::new(
        &[("n3", "a"), ("n2", "b"), ("n1", "a")],
        &[
            ("default", config(0, 1_000_000), &[]),
            ("east", config(0, 3), &["n1", "n2", "n3"]),
            ("north", config(0, 0).filtered("a"), &[]),
            ("south", config(0, 0), &[]),
        ],
    );
    let asked = |requests: &[(&str, ConfigRequest)]| {
        let asked = requests.iter().map(|(name, request)| ((*name).to_owned(), request.clone())).collect();
        update_groups(&pools.groups, &pools.nodes, &asked).unwrap()
    };
    let change = asked(&[("east", request(0, 0)), ("north", request(0, 3).filtered("a"))]);
    assert_eq!(moved(&change.moves), ["n1 north", "n3 north"], "n2 is not accepted");
    // Without the update's hint the default group would take them: it has more room.
    let mut later = pools.clone();
    later.groups.get_mut("east").unwrap().config = config(0, 0);
    later.groups.get_mut("north").unwrap().config = config(0, 3).filtered("a");
    assert!(later.recovered().iter().all(|moved| moved.ends_with("default")));
    for elsewhere in [
        asked(&[("east", request(0, 0)), ("north", request(0, 2).filtered("a"))]),
        asked(&[("east", request(0, 0))]),
        asked(&[("east", request(0, 1)), ("south", request(0, 2))]),
    ] {
        assert!(elsewhere.moves.is_empty(), "as much, or a later pass: {:?}", elsewhere.moves);
    }
}

#[test]
fn a_group_is_dropped_when_nothing_needs_it_and_its_members_move_first() {
    let mut named = config(0, 5);
    named.transfer_to.insert(group("west"));
    let mut pools = Pools::new(
        &[("n1", "a"), ("n2", "b")],
        &[
            ("default", config(0, 9), &[]),
            ("east", named, &[]),
            ("south", config(1, 1).filtered("b"), &[]),
            ("west", config(0, 1), &["n1", "n2"]),
        ],
    );
    let drop = |pools: &Pools, name: &str| drop_group(&pools.groups, &pools.nodes, &pools.replicas, name);
    assert!(drop(&pools, "north").unwrap().is_empty(), "absent: success");
    for (name, why) in [("default", "default group"), ("west", "limits are 1")] {
        let refused = drop(&pools, name).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::ParameterInvalid);
        assert!(refused.message().contains(name) && refused.message().contains(why), "{refused}");
    }
    pools.groups.get_mut("west").unwrap().config = config(0, 0);
    assert!(drop(&pools, "west").unwrap_err().message().contains("transfer list of 'east'"));
    pools.groups.get_mut("east").unwrap().config.transfer_to.clear();
    pools.replicas.push(replica(1, "west", &[], &[]));
    assert!(drop(&pools, "west").unwrap_err().message().contains("1 replicas"));
    pools.replicas.clear();
    let change = drop(&pools, "west").unwrap();
    assert_eq!(moved(&change.moves), ["n1 default", "n2 south"]);
    change.apply(&mut pools.groups);
    assert!(!pools.groups.contains_key("west"));
    assert_eq!(names(pools.groups["south"].members.clone()), ["n2"]);
}

#[test]
fn a_transfer_of_nodes_moves_them_all_with_their_requests_or_none() {
    let pools = Pools::new(
        &[("n1", "a"), ("n2", "a"), ("n3", "b")],
        &[
            ("default", config(0, 1_000_000), &["n1", "n2", "n3"]),
            ("east", config(1, 1).filtered("a"), &[]),
            ("west", config(3, 3), &[]),
        ],
    );
    let transfer = |source: &str, target: &str, count: i64| {
        transfer_nodes(&pools.groups, &pools.nodes, source, target, count)
    };
    assert_eq!(code(transfer("nowhere", "nowhere", 1)), ErrorCode::ParameterInvalid);
    assert_eq!(code(transfer("nowhere", "east", 0)), ErrorCode::ParameterInvalid);
    assert_eq!(code(transfer("default", "east", -1)), ErrorCode::ParameterInvalid);
    assert_eq!(code(transfer("default", "nowhere", 1)), ErrorCode::ResourceGroupNotFound);
    assert_eq!(code(transfer("nowhere", "east", 1)), ErrorCode::ResourceGroupNotFound);
    assert_eq!(code(transfer("default", "west", 4)), ErrorCode::ResourceGroupNotEnoughNodes);
    assert_eq!(code(transfer("default", "west", i64::MAX)), ErrorCode::ResourceGroupNotEnoughNodes);
    let filtered = transfer("default", "east", 3).unwrap_err();
    assert_eq!(filtered.code(), ErrorCode::ResourceGroupNotEnoughNodes);
    assert!(filtered.message().contains("has 2 nodes that 'east' accepts"), "{filtered}");

    let mut after = pools.clone();
    let change = transfer("default", "west", 2).unwrap();
    change.apply(&mut after.groups);
    assert_eq!(moved(&change.moves), ["n1 west", "n2 west"]);
    assert_eq!((after.config("default"), after.config("west")), (config(0, 1_000_000), config(5, 5)));
    let back = transfer_nodes(&after.groups, &after.nodes, "west", "default", 1).unwrap();
    back.apply(&mut after.groups);
    assert_eq!((after.config("default"), after.config("west")), (config(1, 1_000_000), config(4, 4)));
    // Never below 0, and limits not below requests.
    let mut odd = pools.clone();
    odd.groups.get_mut("east").unwrap().config = config(0, 0);
    odd.groups.get_mut("west").unwrap().config = config(0, 1);
    odd.groups.get_mut("west").unwrap().members = odd.groups["default"].members.clone();
    odd.groups.get_mut("default").unwrap().members.clear();
    let change = transfer_nodes(&odd.groups, &odd.nodes, "west", "east", 2).unwrap();
    change.apply(&mut odd.groups);
    assert_eq!((odd.config("west"), odd.config("east")), (config(0, 0), config(2, 2)));
    odd.groups.get_mut("default").unwrap().config = config(0, 0);
    let change = transfer_nodes(&odd.groups, &odd.nodes, "east", "default", 1).unwrap();
    change.apply(&mut odd.groups);
    assert_eq!(odd.config("default"), config(1, 1), "limits of the default group follow its requests alone");
}

#[test]
fn a_node_goes_where_it_belongs_asks_to_is_missing_has_room_else_to_the_default_group() {
    let mut pools = Pools::new(
        &[("n1", "a"), ("n2", "b")],
        &[
            ("b", config(0, 0), &["n1"]),
            ("c", config(2, 2).filtered("a"), &[]),
            ("d", config(2, 2).filtered("a"), &[]),
            ("default", config(0, 3), &[]),
            ("e", config(0, 4), &[]),
            ("f", config(0, 0), &[]),
        ],
    );
    let goes = |pools: &Pools, node: &str, asked: Option<&str>| {
        let asked = asked.map(group);
        group_for(&pools.groups, &pools.nodes, &pools.nodes[node], asked.as_ref()).map(|to| to.to_string())
    };
    assert_eq!(goes(&pools, "n1", Some("e")).unwrap(), "b", "a member stays");
    assert_eq!(goes(&pools, "n1", Some("nowhere")).unwrap(), "b");
    pools.groups.get_mut("b").unwrap().members.clear();
    assert_eq!(goes(&pools, "n1", Some("e")).unwrap(), "e", "where it asks");
    assert_eq!(goes(&pools, "n1", Some("f")).unwrap(), "c", "f has no room");
    assert_eq!(goes(&pools, "n2", Some("c")).unwrap(), "e", "c does not accept it");
    let unknown = goes(&pools, "n1", Some("x")).unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::ResourceGroupNotFound);
    assert!(unknown.message().contains("'x'") && unknown.message().contains("b, c, d, default, e, f"));
    assert_eq!(goes(&pools, "n1", None).unwrap(), "c", "most are missing, ties by name");
    pools.groups.get_mut("d").unwrap().config = config(3, 3);
    assert_eq!(goes(&pools, "n2", None).unwrap(), "d");
    for name in ["c", "d"] {
        pools.groups.get_mut(name).unwrap().config = config(0, 0);
    }
    assert_eq!(goes(&pools, "n2", None).unwrap(), "e", "most room");
    pools.groups.get_mut("default").unwrap().config.limits = 1_000_000;
    assert_eq!(goes(&pools, "n2", None).unwrap(), "default");
    for config in pools.groups.values_mut().map(|group| &mut group.config) {
        *config = GroupConfig::default();
    }
    assert_eq!(goes(&pools, "n2", None).unwrap(), GroupName::DEFAULT, "nobody has room");
}

#[test]
fn missing_nodes_come_from_the_highest_rank_that_can_give_one() {
    let takes_from = |name: &str| {
        let mut config = config(1, 9);
        config.transfer_from.insert(group(name));
        config
    };
    let mut pools = Pools::new(
        &[("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")],
        &[
            ("default", config(0, 1_000_000), &["n1", "n2", "n3"]),
            ("east", takes_from("north"), &[]),
            ("north", config(0, 9), &["n4"]),
            ("south", config(1, 1), &["n5", "n6"]),
        ],
    );
    assert_eq!(pools.recovered(), ["n5 east"], "redundant before named before oversized");
    pools.groups.get_mut("south").unwrap().config = config(2, 2);
    assert_eq!(pools.recovered(), ["n4 east"], "named before oversized");
    pools.groups.get_mut("east").unwrap().config = config(1, 9);
    assert_eq!(pools.recovered(), ["n1 east"], "most oversized, and of it the lowest id");
    pools.groups.get_mut("east").unwrap().config = config(5, 9);
    let passed = recover(&pools.groups, &pools.nodes);
    assert_eq!(moved(&passed.moves), ["n1 east", "n2 east", "n3 east", "n4 east"]);
    let error = &passed.errors[0];
    assert_eq!((passed.errors.len(), error.code()), (1, ErrorCode::ResourceGroupNotEnoughNodes));
    assert!(error.message().contains("'east' has 4 of the 5 nodes"), "{error}");
}

#[test]
fn the_highest_rank_that_gives_nothing_is_passed_over() {
    let pools = Pools::new(
        &[("n1", "b"), ("n2", "b"), ("n3", "a")],
        &[
            ("default", config(0, 9), &["n3"]),
            ("east", config(1, 1).filtered("a"), &[]),
            ("north", config(0, 0), &["n1", "n2"]),
        ],
    );
    let moves = pools.recovered();
    assert!(moves.contains(&"n3 east".to_owned()), "north has none that east accepts: {moves:?}");
}

#[test]
fn what_is_too_much_goes_to_who_misses_it_is_named_or_has_room() {
    let named = |requests, limits| {
        let mut config = config(requests, limits);
        config.transfer_to.insert(group("north"));
        config
    };
    let mut pools = Pools::new(
        &[("n1", "b"), ("n2", "b")],
        &[
            ("default", config(0, 1_000_000), &[]),
            ("east", named(0, 1), &["n1", "n2"]),
            ("north", config(0, 11), &[]),
            ("south", config(1, 1).filtered("a"), &[]),
        ],
    );
    assert_eq!(pools.recovered(), ["n1 north"], "named with headroom of 11");
    pools.groups.get_mut("north").unwrap().config = config(0, 9);
    assert_eq!(pools.recovered(), ["n1 default"], "headroom of a million before nine that are named");
    pools.groups.get_mut("default").unwrap().config = config(0, 0);
    pools.groups.get_mut("east").unwrap().config = config(0, 0);
    pools.groups.get_mut("north").unwrap().config = config(0, 1);
    assert_eq!(
        pools.recovered(),
        ["n1 north", "n2 default"],
        "without any room left the default group takes it"
    );
    let mut over = pools.clone();
    over.groups.get_mut("north").unwrap().config = config(0, 0);
    let passed = recover(&over.groups, &over.nodes);
    assert_eq!(passed.errors[0].code(), ErrorCode::ResourceGroupIllegalConfig);
    assert!(passed.errors[0].message().contains("'default' has 2 nodes above its limits 0"));
}

#[test]
fn a_group_that_misses_nodes_comes_before_one_of_equal_rank_that_has_room() {
    // 1 missing weighs 1 000 000, and so does the default group's room.
    let pools = Pools::new(
        &[("n1", "a")],
        &[
            ("default", config(0, 1_000_000), &[]),
            ("east", config(0, 0), &["n1"]),
            ("zoo", config(1, 1), &[]),
        ],
    );
    let change = drop_group(&pools.groups, &pools.nodes, &[], "east").unwrap();
    assert_eq!(moved(&change.moves), ["n1 zoo"]);
}

#[test]
fn nodes_that_a_group_does_not_accept_leave_first_and_take_nobody_with_them() {
    let mut pools = Pools::new(
        &[("n1", "a"), ("n2", "a"), ("n3", "b")],
        &[
            ("default", config(0, 1_000_000), &[]),
            ("east", config(0, 5).filtered("a"), &["n1", "n2", "n3"]),
            ("north", config(1, 1), &[]),
        ],
    );
    assert_eq!(pools.recovered(), ["n3 north"], "the one that east does not accept, not the lowest id");
    pools.groups.get_mut("north").unwrap().config = config(0, 9).filtered("a");
    pools.groups.get_mut("default").unwrap().config.limits = 5;
    assert_eq!(pools.recovered(), ["n3 default"], "n1 and n2 stay, though north would accept them");
}

#[test]
fn groups_within_their_bounds_are_left_alone() {
    let pools = Pools::new(
        &[("n1", "a"), ("n2", "a"), ("n3", "a")],
        &[
            ("default", config(0, 1_000_000), &["n1"]),
            ("east", config(1, 3), &["n2", "n3"]),
            ("north", config(0, 3), &[]),
        ],
    );
    assert_eq!(recover(&pools.groups, &pools.nodes), Recovery::default());
}

#[test]
fn what_one_group_gives_away_may_be_what_another_waits_for() {
    // Only n2 fits east, and north may spare it once it has taken n1.
    let pools = Pools::new(
        &[("n1", "b"), ("n2", "a")],
        &[
            ("default", config(0, 0), &[]),
            ("east", config(1, 1).filtered("a"), &[]),
            ("north", config(1, 2), &["n2"]),
            ("west", config(0, 0), &["n1"]),
        ],
    );
    assert_eq!(pools.recovered(), ["n1 north", "n2 east"]);
}

#[test]
fn a_group_that_has_what_it_requests_gives_only_what_it_does_not_accept() {
    let pools = Pools::new(
        &[("n1", "a"), ("n2", "b"), ("n3", "b")],
        &[
            ("default", config(0, 9), &[]),
            ("north", config(2, 9).filtered("b"), &["n1", "n2", "n3"]),
            ("south", config(1, 9).filtered("b"), &[]),
        ],
    );
    assert_eq!(pools.recovered(), ["n1 default"], "south would take n2");
}
