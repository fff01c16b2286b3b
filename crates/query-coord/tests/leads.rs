//! Which node leads which shard.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod world;

use std::collections::BTreeMap;

use pointsman_ids::{ReplicaId, catalog::shard_name};
use pointsman_query_coord::{SessionState, Stores, plan_leads};
use world::*;

/// One replica over these nodes, with so many shards.
fn replica(nodes: &[&str], shards: u32) -> Stores {
    let mut stores = world(&[("east", nodes)]);
    collection(&mut stores, shards, &vec![1; usize::try_from(shards).unwrap()]);
    load(&mut stores, &[("east", 1)]);
    decide(&mut stores);
    stores
}

fn counts(stores: &Stores) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in stores.leads.values() {
        *counts.entry(node.to_string()).or_default() += 1;
    }
    counts
}

#[test]
fn every_shard_has_a_leader_and_nodes_share_them() {
    let stores = replica(&["n1", "n2", "n3"], 8);
    let mut each: Vec<usize> = counts(&stores).into_values().collect();
    each.sort_unstable();
    assert_eq!(each, [2, 3, 3]);
}

#[test]
fn leads_stay_where_they_are_when_nodes_come() {
    let mut stores = replica(&["n1", "n2"], 6);
    let before = stores.leads.clone();
    let late = world(&[("east", &["n1", "n2", "n3"])]);
    (stores.groups, stores.nodes, stores.observed) = (late.groups, late.nodes, late.observed);
    divide(&mut stores);
    assert!(stores.replicas.get(ReplicaId(1)).unwrap().nodes.contains("n3"));
    decide(&mut stores);
    assert_eq!(stores.leads, before);
}

#[test]
fn leads_of_a_lost_node_move_and_no_others() {
    let mut stores = replica(&["n1", "n2", "n3"], 6);
    let before = stores.leads.clone();
    set(&mut stores, "n2", SessionState::Lost);
    decide(&mut stores);
    for (led, node) in &before {
        let now = stores.leads[led].as_str();
        assert!(now != "n2" && (node.as_str() == "n2" || now == node.as_str()));
    }
    assert_eq!(counts(&stores), [("n1".to_owned(), 3), ("n3".to_owned(), 3)].into());
}

#[test]
fn nothing_moves_until_every_node_was_heard() {
    let mut stores = replica(&["n1", "n2"], 4);
    let before = stores.leads.clone();
    stores.observed.remove("n2");
    stores.awaiting = true;
    assert_eq!(plan_leads(&stores), before);
    stores.leads.clear();
    assert!(plan_leads(&stores).is_empty(), "nor is anything given");
    stores.awaiting = false;
    assert_eq!(plan_leads(&stores).len(), 4, "now it is lost");
}

#[test]
fn a_new_coordinator_finds_leads_where_nodes_report_them() {
    let mut stores = replica(&["n1", "n2"], 4);
    // Another distribution than the one that it would choose.
    stores.leads = stores.leads.keys().map(|led| (led.clone(), node("n2"))).collect();
    lead(&mut stores);
    let before = std::mem::take(&mut stores.leads);
    assert_eq!(plan_leads(&stores), before);
}

#[test]
fn the_last_node_leads_on_while_it_leaves() {
    let mut stores = replica(&["n1"], 2);
    set(&mut stores, "n1", SessionState::Stopping);
    decide(&mut stores);
    assert_eq!(counts(&stores), [("n1".to_owned(), 2)].into());
    set(&mut stores, "n1", SessionState::Gone);
    decide(&mut stores);
    assert!(stores.leads.is_empty());
}

#[test]
fn shards_of_a_target_are_led_also_when_only_segments_name_them() {
    let mut stores = replica(&["n1"], 1);
    let mut stray = segment(9, 1, 1);
    stray.shard = shard_name(5);
    stores.collections.get_mut(&COLLECTION).unwrap().insert(stray);
    let next = whole_target(&stores, 2);
    stores.targets.set_next(next);
    decide(&mut stores);
    assert!(stores.leads.contains_key(&(ReplicaId(1), shard_name(5))));
}
