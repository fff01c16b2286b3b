//! Who is a member, enabled, excluded.

use std::{collections::BTreeSet, time::Duration};

use pointsman_failure_detector::{Event, Outcome};
use pointsman_ids::GroupNumber;

use crate::world::{World, key, reported, seg, settings, shape};

fn home(nodes: &str) -> World {
    let mut world = World::new(&["home"]);
    world.join("home", nodes);
    world
}

/// The routable nodes of the local cluster.
fn routable(world: &World) -> Vec<String> {
    let view = world.core.view();
    let (_, nodes) = view.routable().next().unwrap();
    nodes.iter().map(|node| node.node.to_string()).collect()
}

#[test]
fn an_exclusion_is_in_the_next_view_and_leaves_the_former_alone() {
    let mut world = home("n1 n2");
    let before = world.core.view().clone();
    world.mark("home/n1");
    assert_eq!(routable(&world), ["n2"]);
    assert!(before.is_routable(&key("home", "n1")));
    let exclusion = world.core.view().exclusion(&key("home", "n1")).unwrap();
    assert_eq!((exclusion.evidence.as_str(), exclusion.since), ("connection reset", world.now));
    assert_eq!(exclusion.next_probe, world.now + Duration::from_secs(5));
}

#[test]
fn a_node_is_out_while_either_of_its_keys_is_in_the_set() {
    let mut world = home("n1 n2");
    world.mark("n1");
    world.mark("home/n1");
    world.recover("n1");
    assert_eq!(routable(&world), ["n2"]);
    world.recover("home/n1");
    assert_eq!(routable(&world), ["n1", "n2"]);
}

#[test]
fn what_changes_nothing_makes_no_view() {
    let mut world = home("n1");
    world.mark("n1");
    let before = world.core.view().clone();
    world.mark("n1");
    world.recover("n2");
    assert!(std::sync::Arc::ptr_eq(&before, world.core.view()));
}

#[test]
fn a_newcomer_starts_with_a_clean_record_under_both_keys() {
    let mut world = home("n1");
    world.mark("n2");
    world.mark("home/n2");
    world.join("home", "n2");
    assert_eq!(routable(&world), ["n1", "n2"]);
    assert_eq!(world.figure("node_inclusions_total", &[("reason", "re_enabled")]), Some(2.0));
}

#[test]
fn another_incarnation_starts_with_a_clean_record_and_late_reports_do_not_touch_it() {
    let mut world = home("n1");
    world.mark("home/n1");
    world.restarted(&key("home", "n1"));
    assert_eq!(routable(&world), ["n1"]);
    let late = Event::Failed {
        key: reported("home/n1"),
        incarnation: Some(pointsman_ids::Incarnation(1)),
        evidence: "reset".to_owned(),
    };
    world.core.handle(late, world.now);
    assert_eq!(routable(&world), ["n1"]);
    assert_eq!(world.figure("stale_reports_total", &[]), Some(1.0));
}

#[test]
fn a_disabled_node_gets_nothing_even_while_it_recovers_and_others_are_excluded() {
    let mut world = home("n1 n2 n3");
    world.mark("n3");
    world.edit(&key("home", "n1"), |entry| entry.enabled = false);
    assert_eq!(routable(&world), ["n2"]);
    world.mark("n1");
    world.recover("n1");
    assert_eq!(routable(&world), ["n2"]);
    assert!(!world.core.view().is_enabled(&key("home", "n1")));
}

#[test]
fn no_record_outlives_its_node() {
    let mut world = World::new(&["home", "east"]);
    world.join("home", "n1");
    world.join("east", "n1");
    world.mark("home/n1");
    world.mark("n1");
    world.leave(&key("home", "n1"));
    let left: Vec<_> = world.core.view().exclusions().keys().map(ToString::to_string).collect();
    assert_eq!(left, ["n1"], "the bare name still has a member in the other cluster");
    world.leave(&key("east", "n1"));
    assert!(world.core.view().exclusions().is_empty());
}

#[test]
fn a_retry_is_answered_for_by_its_cluster_or_by_the_first_that_has_the_name_enabled() {
    let mut world = World::new(&["home", "east", "west"]);
    world.join("home", "both idle");
    world.join("east", "idle");
    world.join("west", "both w1");
    world.edit(&key("home", "idle"), |entry| entry.enabled = false);
    let asked = |node: &str| world.core.lookup(&reported(node)).map(ToString::to_string);
    assert_eq!(asked("both"), Some("home".to_owned()));
    assert_eq!(asked("west/both"), Some("west".to_owned()));
    assert_eq!(asked("w1"), Some("west".to_owned()));
    assert_eq!(asked("idle"), Some("east".to_owned()));
    assert_eq!(asked("home/idle"), None);
    assert_eq!(asked("nobody"), None);
}

#[test]
fn a_manager_that_comes_up_is_given_what_the_detector_knows() {
    let mut world = World::down(settings(&["home", "east"]));
    world.core.start_cluster(&"home".parse().unwrap(), vec![], world.now).unwrap();
    world.mark("e1");
    world.mark("e2");
    world.recover("e2");
    let nodes = ["e1", "e2"].map(|node| world.entry("east", node)).to_vec();
    world.core.start_cluster(&"east".parse().unwrap(), nodes, world.now).unwrap();
    assert!(!world.core.view().is_routable(&key("east", "e1")), "no newcomer to the cluster");
    assert!(world.core.view().is_routable(&key("east", "e2")));
}

#[test]
fn a_lost_node_is_probed_once_and_stays_until_the_probe_says_otherwise() {
    let mut world = home("n1 n2");
    let mut lost = ["n1", "n2"].map(|node| world.entry("home", node)).to_vec();
    lost[0].lost = true;
    let home = "home".parse().unwrap();
    let mut probes = world.core.set_nodes(&home, lost.clone(), world.now).unwrap();
    assert_eq!(probes.iter().map(|probe| probe.key().to_string()).collect::<Vec<_>>(), ["home/n1"]);
    assert_eq!(world.core.set_nodes(&home, lost, world.now).unwrap(), []);
    assert_eq!(routable(&world), ["n1", "n2"]);
    let outcome = Outcome::Unhealthy("refused".to_owned());
    world.core.handle(Event::Probed { probe: probes.remove(0), outcome }, world.now);
    assert_eq!(routable(&world), ["n2"]);
}

#[test]
fn an_address_that_cannot_be_read_keeps_the_last_good_one_or_skips_the_node() {
    let mut world = home("n1");
    let mut nodes = ["n1", "n2"].map(|node| world.entry("home", node)).to_vec();
    nodes.iter_mut().for_each(|node| node.address = "not an address".to_owned());
    world.core.set_nodes(&"home".parse().unwrap(), nodes, world.now).unwrap();
    let urls: Vec<_> = world
        .core
        .view()
        .stage_nodes([], None, &BTreeSet::new())
        .into_iter()
        .map(|node| node.url.clone())
        .collect();
    assert_eq!(urls, ["http://n1.home:1".parse().unwrap()]);
}

#[test]
fn a_node_that_left_stays_resolvable_for_the_selections_that_chose_it() {
    let mut world = home("n1");
    world.put("home", shape("t", &[seg("a", "n1", "n1")])).unwrap();
    let (before, table) = (world.core.view().clone(), world.route("t", 0).unwrap());
    world.leave(&key("home", "n1"));
    assert_eq!(before.node_by_url(&table.parts[0].node.url).unwrap().key, key("home", "n1"));
    assert!(world.core.view().node_by_url(&table.parts[0].node.url).is_none());
}

#[test]
fn a_candidate_that_is_no_member_yet_is_chosen_once_it_joins_and_its_pool_with_the_next_change() {
    let mut world = home("n1");
    world.put("home", shape("t", &[seg("a", "n2", "n2")])).unwrap();
    assert_eq!(world.route("t", 0).unwrap().parts, []);
    world.join("home", "n2");
    world.edit(&key("home", "n2"), |entry| entry.pool = GroupNumber(7));
    assert_eq!(world.served("t", 0), ["a:n2"]);
    let picks = |world: &World, pool| world.figure("selected_segments_total", &[("pool", pool)]);
    assert_eq!((picks(&world, "-1"), picks(&world, "7")), (Some(1.0), None));
    world.put("home", shape("t", &[seg("a", "n2", "n2")])).unwrap();
    assert_eq!(world.served("t", 0), ["a:n2"]);
    assert_eq!((picks(&world, "-1"), picks(&world, "7")), (Some(1.0), Some(1.0)));
}

#[test]
fn statistics_live_as_long_as_the_process() {
    let mut world = home("n1");
    let node = key("home", "n1");
    drop(world.core.view().sent(&node, world.now));
    world.edit(&node, |entry| entry.enabled = false);
    assert_eq!(world.figure("node_in_flight", &[]), Some(0.0));
    world.restarted(&node);
    assert_eq!(world.figure("node_in_flight", &[]), None);
    let sent = world.core.view().sent(&node, world.now);
    assert_eq!(world.figure("node_in_flight", &[("cluster", "home"), ("node", "n1")]), Some(1.0));
    drop(sent);
    world.core.observe(&node.cluster, &node.node, None);
    assert_eq!(world.figure("node_in_flight", &[]), None);
    assert!(world.core.view().sent(&key("home", "n2"), world.now).is_none());
}
