//! Options of collections that make sense, and those that do not.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

use pointsman_ids::{
    Error, ErrorCode, NodeName,
    catalog::{CollectionOptions, RoutingOptions, Sampler, SelectorKind},
};
use pointsman_query_coord::lawful_options;

fn check(routing: RoutingOptions) -> Result<RoutingOptions, Error> {
    lawful_options(CollectionOptions { routing, ..CollectionOptions::default() }).map(|lawful| lawful.routing)
}

/// The text with which options are refused.
fn refused(routing: RoutingOptions) -> String {
    let error = check(routing).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ParameterInvalid);
    error.message().to_owned()
}

fn partitions(partitions: &[(u32, &[&[&str]])]) -> RoutingOptions {
    let nodes =
        |names: &&[&str]| -> Vec<NodeName> { names.iter().map(|name| name.parse().unwrap()).collect() };
    let replica_groups =
        partitions.iter().map(|(number, groups)| (*number, groups.iter().map(nodes).collect())).collect();
    let selector = SelectorKind::MultiStageReplicaGroup;
    RoutingOptions { selector, replica_groups, ..RoutingOptions::default() }
}

fn samplers(samplers: &[(&str, u64)]) -> RoutingOptions {
    let sampler = |(name, first_n): &(&str, u64)| Sampler { name: (*name).into(), first_n: *first_n };
    RoutingOptions { samplers: samplers.iter().map(sampler).collect(), ..RoutingOptions::default() }
}

#[test]
fn consistent_replicas_need_a_selector_that_knows_groups() {
    use SelectorKind::{Balanced, MultiStageReplicaGroup, ReplicaGroup, StrictReplicaGroup};
    let consistent =
        |selector| RoutingOptions { selector, consistent_replicas: true, ..RoutingOptions::default() };
    for selector in [ReplicaGroup, StrictReplicaGroup] {
        assert_eq!(check(consistent(selector)), Ok(consistent(selector)));
    }
    for selector in [Balanced, MultiStageReplicaGroup] {
        let text = refused(consistent(selector));
        assert!(text.contains(&format!("the selector is '{}'", selector.as_str())), "{text}");
        assert!(text.contains("strict_replica_group"), "{text}");
    }
}

#[test]
fn multi_stage_needs_placement_partitions_and_the_others_take_none() {
    let lawful = partitions(&[(0, &[&["n1", "n2"], &["n3"]]), (4, &[&["n4"], &["n5"]])]);
    assert_eq!(check(lawful.clone()), Ok(lawful.clone()));
    assert!(refused(partitions(&[])).contains("needs placement partitions"));
    let other = RoutingOptions { selector: SelectorKind::ReplicaGroup, ..lawful };
    assert!(refused(other).contains("the selector is 'replica_group'"));
}

#[test]
fn placement_partitions_are_alike_and_name_each_node_once() {
    for (given, wanted) in [
        (
            partitions(&[(0, &[&["a"], &["b"]]), (3, &[&["c"]])]),
            "placement partition 0 has 2 replica groups and placement partition 3 has 1",
        ),
        (partitions(&[(2, &[])]), "placement partition 2 has no replica group"),
        (partitions(&[(0, &[&["a"], &[]])]), "replica group 1 of placement partition 0 has no node"),
        (
            partitions(&[(0, &[&["a"], &["b", "a"]])]),
            "node 'a' stands in replica group 0 of placement partition 0 and in replica group 1 of placement partition 0",
        ),
        (
            partitions(&[(0, &[&["a"]]), (1, &[&["a"]])]),
            "node 'a' stands in replica group 0 of placement partition 0 and in replica group 0 of placement partition 1",
        ),
        (partitions(&[(0, &[&["a", "a"]])]), "node 'a' stands in"),
    ] {
        let text = refused(given);
        assert!(text.starts_with(wanted), "{text}");
    }
}

#[test]
fn samplers_have_one_spelling_and_keep_something() {
    assert_eq!(check(samplers(&[(" Few ", 1), ("most", 9)])), Ok(samplers(&[("few", 1), ("most", 9)])));
    assert!(refused(samplers(&[("few", 1), (" \t", 1)])).contains("blank name"));
    assert!(refused(samplers(&[("few", 1), ("FEW ", 2)])).starts_with("sampler 'few' stands twice"));
    assert!(refused(samplers(&[("few", 0)])).starts_with("sampler 'few' keeps the first 0 segments"));
}

#[test]
fn a_cluster_counts_once_at_its_first_place_whether_it_is_known_or_not() {
    let names = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
    let given =
        CollectionOptions { clusters: names(&["b", "local", "b", "a", "local"]), ..Default::default() };
    assert_eq!(lawful_options(given).unwrap().clusters, names(&["b", "local", "a"]) as Vec<_>);
}
