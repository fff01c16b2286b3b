//! What is known of nodes beside the coordinator's word, and what nodes say about the table.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use pointsman_ids::{CollectionId, ErrorCode, NodeId};
use pointsman_shard_client::{NodeView, Settings, Standing};

use crate::world::{Outcome, World, blacklist, counted, in_turn};

#[derive(Debug, Default)]
struct View {
    standings: Mutex<BTreeMap<u64, Standing>>,
    fail_closed: bool,
}

impl View {
    fn set(&self, standings: &[(u64, Standing)]) {
        *self.standings.lock() = standings.iter().copied().collect();
    }
}

impl NodeView for View {
    fn standing(&self, node: NodeId) -> Standing {
        self.standings.lock().get(&node.0).copied().unwrap_or_default()
    }

    fn is_fail_closed(&self, _collection: CollectionId) -> bool {
        self.fail_closed
    }
}

use Standing::{Disabled, Excluded};

#[test]
fn a_disabled_node_is_never_asked_and_is_no_leader_at_all() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "east"), (2, "east"), (3, "west")])]);
    let view = Arc::new(View::default());
    let client = world.client_with(in_turn(), view.clone());
    view.set(&[(1, Disabled)]);
    for _ in 0..4 {
        world.execute(&client, "east").unwrap();
    }
    assert_eq!(world.visited(), [2, 2, 2, 2]);
    assert_eq!(counted(&client, "shard_client_skipped", &["disabled"]), 4);
    // Not even when nobody else is left; and the group has no leader then.
    view.set(&[(1, Disabled), (2, Disabled)]);
    assert_eq!(world.execute(&client, "east").unwrap_err().code(), ErrorCode::CollectionNotFullyLoaded);
    view.set(&[(1, Disabled), (2, Disabled), (3, Disabled)]);
    assert_eq!(world.execute(&client, "").unwrap_err().code(), ErrorCode::ChannelNotAvailable);
    // Nor on any shard that would do.
    let (inner, workload) = (client.clone(), world.workload("west"));
    let refused = world.run(async move { inner.execute_one_shard(&workload, None).await.map(drop) });
    assert_eq!(refused.unwrap_err().code(), ErrorCode::CollectionNotFullyLoaded);
    assert_eq!(world.visited(), [0_u64; 0]);
}

#[test]
fn excluded_nodes_stand_back_and_are_tried_when_nobody_else_is_left() {
    let world = World::new();
    world.tell(&[("s0", &[(1, ""), (2, "")])]);
    let view = Arc::new(View::default());
    let client = world.client_with(in_turn(), view.clone());
    view.set(&[(2, Excluded)]);
    for _ in 0..3 {
        world.execute(&client, "").unwrap();
    }
    assert_eq!(world.visited(), [1, 1, 1]);
    assert_eq!(counted(&client, "shard_client_skipped", &["excluded"]), 3);
    // A preference does not help an excluded node either.
    let (inner, mut workload) = (client.clone(), world.workload(""));
    workload.preferred = Some(Arc::new(BTreeMap::from([("s0".into(), NodeId(2))])));
    world.run(async move { inner.execute(&workload, None).await.map(drop) }).unwrap();
    assert_eq!(world.visited(), [1]);
    assert_eq!(counted(&client, "shard_client_preferred", &["unavailable"]), 1);
    assert_eq!(counted(&client, "shard_client_fail_open", &[]), 0);
    view.set(&[(1, Excluded), (2, Excluded)]);
    world.execute(&client, "").unwrap();
    assert_eq!(world.visited().len(), 1);
    assert_eq!(counted(&client, "shard_client_fail_open", &[]), 1);
    // A list of one is a list.
    world.tell(&[("s0", &[(2, "")])]);
    client.invalidate_all();
    world.execute(&client, "").unwrap();
    assert_eq!(world.visited(), [2]);
    assert_eq!(counted(&client, "shard_client_fail_open", &[]), 2);
}

#[test]
fn a_collection_that_fails_closed_asks_no_excluded_node() {
    let world = World::new();
    world.tell(&[("s0", &[(1, ""), (2, "")])]);
    let view = Arc::new(View { fail_closed: true, ..View::default() });
    let client = world.client_with(in_turn(), view.clone());
    view.set(&[(1, Excluded), (2, Excluded)]);
    assert_eq!(world.execute(&client, "").unwrap_err().code(), ErrorCode::ChannelNotAvailable);
    assert_eq!(counted(&client, "shard_client_fail_open", &[]), 0);
    view.set(&[(1, Excluded)]);
    world.execute(&client, "").unwrap();
    assert_eq!(world.visited(), [2]);
}

#[test]
fn a_node_that_no_longer_leads_makes_the_table_stale_where_that_is_wanted() {
    for invalidates in [false, true] {
        let world = World::new();
        world.tell(&[("s0", &[(1, "")])]);
        let client = world.client(Settings { invalidate_on_misrouted: invalidates, ..in_turn() });
        world.execute(&client, "").unwrap();
        // The lead has moved to node 2, and a third leader is still listed with the stale one.
        world.tell(&[("s0", &[(2, "")])]);
        world.behave(|visit| match visit.node.0 {
            2 => Outcome::ok(),
            _ => Outcome::error(ErrorCode::ChannelMisrouted),
        });
        world.visited();
        world.execute(&client, "").unwrap();
        assert_eq!(world.visited(), [1, 2]);
        assert_eq!(blacklist(&client), BTreeMap::new(), "a stale table is nobody's fault");
        let reads = counted(&client, "shard_client_cache_reads", &["get_shard", "miss"]);
        assert_eq!(reads, u64::from(invalidates));
    }
}

/// SC-7: with an empty scope tags change nothing.
#[test]
fn without_a_scope_tags_change_nothing() {
    let run = |tags: [&str; 3]| {
        let world = World::new();
        world.tell(&[("a", &[(1, tags[0]), (2, tags[1])]), ("b", &[(3, tags[2]), (1, tags[0])])]);
        let client = world.client(Settings::default());
        world.behave(|visit| match visit.node.0 {
            1 => Outcome::error(ErrorCode::SegmentLack),
            2 => Outcome::error_after(30, ErrorCode::ServiceUnavailable),
            _ => Outcome::ok(),
        });
        let outcome = world.execute(&client, "");
        (outcome, world.visited(), world.calls(), client.now(), blacklist(&client))
    };
    assert_eq!(run(["", "", ""]), run(["east", "west", "east"]));
}

#[test]
fn a_refusal_tells_what_was_seen_where_that_is_wanted() {
    let refusal = |causes| {
        let world = World::new();
        world.tell(&[("s0", &[(1, "east"), (2, "west")])]);
        let view = Arc::new(View::default());
        let client = world.client_with(Settings { causes, ..in_turn() }, view.clone());
        view.set(&[(1, Disabled)]);
        world.execute(&client, "east").unwrap_err()
    };
    let (plain, told) = (refusal(false), refusal(true));
    assert!(!plain.message().contains("listed"), "{plain}");
    assert_eq!(told.code(), plain.code());
    for part in [
        plain.message(),
        "node 1 in 'east', serviceable, disabled by an operator",
        "node 2 in 'west', serviceable, outside the scope",
    ] {
        assert!(told.message().contains(part), "'{part}' is not in: {told}");
    }
}

#[test]
fn a_node_that_fails_fast_is_not_taken_for_an_idle_one_where_that_is_wanted() {
    for failures_as_cost in [false, true] {
        let world = World::new();
        world.tell(&[("s0", &[(1, ""), (2, "")])]);
        let client =
            world.client(Settings { failures_as_cost, check_workload_every: 1, ..Settings::default() });
        world.behave(|visit| match visit.node.0 {
            1 => Outcome::error(ErrorCode::NodeNotServing),
            _ => Outcome::ok(),
        });
        for _ in 0..5 {
            world.execute(&client, "").unwrap();
        }
        // Where failures count, the second comparison sees that node 1 only fails; otherwise it has its turn every time.
        let asked = world.visited();
        let failed = asked.iter().filter(|node| **node == 1).count();
        assert_eq!(failed, if failures_as_cost { 1 } else { 5 }, "{asked:?}");
        if failures_as_cost {
            world.behave(|_| Outcome::error(ErrorCode::ParameterInvalid));
            world.execute(&client, "").unwrap_err();
            world.visited();
        }
        let told: Vec<i64> =
            client.balancer().report(client.now()).iter().map(|report| report.score).collect();
        assert_eq!(
            told,
            if failures_as_cost { [1, 0] } else { [0, 0] },
            "a wrong request is not the node's failure"
        );
        world.behave(|_| Outcome::ok());
        let (inner, mut workload) = (client.clone(), world.workload(""));
        workload.preferred = Some(Arc::new(BTreeMap::from([("s0".into(), NodeId(1))])));
        world.run(async move { inner.execute(&workload, None).await.map(drop) }).unwrap();
        let told: Vec<i64> =
            client.balancer().report(client.now()).iter().map(|report| report.score).collect();
        assert_eq!(told, [0, 0], "an answer makes up for it");
    }
}

#[test]
fn a_preference_reaches_every_way_to_a_shard() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "east"), (2, "east"), (3, "east")])]);
    let client = world.client(Settings::default());
    for group in ["", "east"] {
        for one_shard in [false, true] {
            let (inner, mut workload) = (client.clone(), world.workload(group));
            workload.preferred = Some(Arc::new(BTreeMap::from([("s0".into(), NodeId(3))])));
            let asked = world.run(async move {
                match one_shard {
                    true => inner.execute_one_shard(&workload, None).await.map(drop),
                    false => inner.execute(&workload, None).await.map(drop),
                }
            });
            asked.unwrap();
        }
    }
    assert_eq!(world.visited(), [3, 3, 3, 3]);
    assert_eq!(counted(&client, "shard_client_preferred", &["hit"]), 4);
}
