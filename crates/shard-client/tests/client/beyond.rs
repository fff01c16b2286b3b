//! What is off unless somebody asks for it: a preferred group, a limit on the time of retries, and what owners can see.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::{ErrorCode, NodeId};
use pointsman_shard_client::{CollectionWorkload, NodeView, Policy, Result, Settings, Standing};

use crate::world::{Ask, Client, Outcome, World, at, counted, in_turn};

/// Runs a request on all shards; who answered, and whether that was outside the preferred group.
fn execute(
    world: &World,
    client: &Client,
    workload: CollectionWorkload<Ask>,
    deadline: Option<MonoTime>,
) -> Result<Vec<(u64, bool)>> {
    let client = client.clone();
    let answers = world.run(async move { client.execute(&workload, deadline).await })?;
    Ok(answers.into_iter().map(|answered| (answered.node.0, answered.fell_back)).collect())
}

fn preferring(world: &Arc<World>, scope: &str, group: &str) -> CollectionWorkload<Ask> {
    CollectionWorkload { preferred_group: group.into(), ..world.workload(scope) }
}

/// How often the preferred group was chosen, and how often somebody else.
fn chosen(client: &Client) -> (u64, u64) {
    let count = |result| counted(client, "shard_client_preferred_group", &[result]);
    (count("hit"), count("fallback"))
}

#[test]
fn leaders_of_a_preferred_group_are_asked_first_and_then_anybody() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "west"), (2, "east"), (3, ""), (4, "east")])]);
    let client = world.client(in_turn());
    let east = || preferring(&world, "", "east");
    for _ in 0..4 {
        execute(&world, &client, east(), None).unwrap();
    }
    assert_eq!(world.visited(), [4, 2, 4, 2]);
    assert_eq!(chosen(&client), (4, 0));
    // Both fail in the way that another leader may help: the fallback is asked within the same request, and it shows.
    world.behave(|visit| match &*visit.leader_group {
        "east" => Outcome::error(ErrorCode::NodeNotServing),
        _ => Outcome::ok(),
    });
    let [(node, fell_back)] = execute(&world, &client, east(), None).unwrap()[..] else {
        panic!("one shard")
    };
    assert!(fell_back && [1, 3].contains(&node));
    let visited = world.visited();
    assert!(
        visited.len() == 3 && [2, 4].contains(&visited[0]) && [2, 4].contains(&visited[1]),
        "{visited:?}"
    );
    assert_eq!(chosen(&client), (6, 1));
    // A group that leads nothing is nobody's reason to fail, and without a preference nothing counts.
    assert!(execute(&world, &client, preferring(&world, "", "north"), None).unwrap()[0].1);
    let before = chosen(&client);
    world.execute(&client, "").unwrap();
    assert_eq!(chosen(&client), before);
}

#[test]
fn a_preferred_group_is_left_for_leaders_that_are_in_a_better_state() {
    #[derive(Debug)]
    struct East(Standing);
    impl NodeView for East {
        fn standing(&self, node: NodeId) -> Standing {
            if node.0 == 2 { self.0 } else { Standing::Routable }
        }
    }
    for (standing, serviceable, expected) in [
        (Standing::Routable, true, (2, false)),
        (Standing::Excluded, true, (1, true)),
        (Standing::Disabled, true, (1, true)),
        (Standing::Routable, false, (1, true)),
    ] {
        let world = World::new();
        world.tell(&[("s0", &[(1, "west"), (2, "east")])]);
        world.told.lock().1.as_mut().unwrap()[0].serviceable[1] = serviceable;
        let client = world.client_with(in_turn(), Arc::new(East(standing)));
        let answered = execute(&world, &client, preferring(&world, "", "east"), None).unwrap();
        assert_eq!(answered, [expected], "{standing:?} {serviceable}");
    }
}

#[test]
fn a_preferred_group_that_the_balancer_cannot_reach_is_left() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "west"), (2, "east")])]);
    let client = world.client(Settings { policy: Policy::LookAside, ..Settings::default() });
    execute(&world, &client, preferring(&world, "", "east"), None).unwrap();
    world.unhealthy.lock().insert(NodeId(2));
    world.advance(10_000);
    assert_eq!(execute(&world, &client, preferring(&world, "", "east"), None).unwrap(), [(1, true)]);
    assert_eq!(world.visited(), [2, 1], "nobody was asked in vain");
}

#[test]
fn a_preference_never_leaves_the_scope_and_a_preferred_node_comes_before_it() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "west"), (2, "east"), (3, "west")])]);
    let client = world.client(in_turn());
    for _ in 0..3 {
        let answered = execute(&world, &client, preferring(&world, "west", "east"), None).unwrap();
        assert!(answered[0].1, "what was preferred is not in the scope");
    }
    assert_eq!(world.visited(), [3, 1, 3]);
    let refused = execute(&world, &client, preferring(&world, "north", "east"), None).unwrap_err();
    assert_eq!((refused.code(), world.visited().len()), (ErrorCode::CollectionNotFullyLoaded, 0));
    let mut workload = preferring(&world, "", "east");
    workload.preferred = Some(Arc::new(BTreeMap::from([("s0".into(), NodeId(3))])));
    assert_eq!(execute(&world, &client, workload, None).unwrap(), [(3, true)]);
}

#[test]
fn retries_end_when_their_time_is_over_and_the_error_says_when_to_come_back() {
    let run = |retry_time, code| {
        let world = World::new();
        world.tell(&[("s0", &[(1, "east")])]);
        let client = world.client(Settings {
            retry_on_replica: 20,
            retry_time: Duration::from_millis(retry_time),
            blacklist: Duration::ZERO,
            ..in_turn()
        });
        world.behave(move |_| Outcome::error_after(100, code));
        let error = world.execute(&client, "").unwrap_err();
        assert_eq!(error.code(), code);
        (world.visited().len(), client.now(), error.retry_after())
    };
    // Runs at 0, 300, 800 and 1,700 ms; the next pause is 1.6 s.
    let after = |ms| Some(Duration::from_millis(ms));
    assert_eq!(run(3_400, ErrorCode::NodeNotServing), (4, at(1_800), after(1_600)), "as long is too short");
    assert_eq!(run(3_401, ErrorCode::NodeNotServing), (5, at(3_500), after(3_000)));
    assert_eq!(run(1, ErrorCode::NodeNotServing), (1, at(100), after(200)));
    assert_eq!(run(1_000, ErrorCode::SegmentLack).2, None, "it makes no sense to come back");
    let (visits, _, hint) = run(0, ErrorCode::NodeNotServing);
    assert_eq!((visits, hint), (21, None), "switched off");
}

#[test]
fn looks_for_leaders_are_not_repeated_for_longer_than_retries() {
    let run = |retry_time| {
        let world = World::new();
        let refused = ErrorCode::ServiceNotReady;
        world.told.lock().1 = Err(pointsman_shard_client::ShardError::new(refused, "it stands by"));
        let client = world.client(Settings { retry_time: Duration::from_millis(retry_time), ..in_turn() });
        let error = world.execute(&client, "").unwrap_err();
        assert_eq!(error.code(), refused);
        (world.calls(), client.now(), error.retry_after())
    };
    assert_eq!(run(1_000), (3, at(600), Some(Duration::from_millis(800))));
    assert_eq!(run(0), (10, at(18_000), None));
}

#[test]
fn a_coordinator_that_says_nothing_does_not_make_retries_longer() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "east")])]);
    let client = world.client(Settings { retry_time: Duration::from_secs(1), ..in_turn() });
    world.execute(&client, "").unwrap();
    world.behave(|_| Outcome::error(ErrorCode::NodeNotServing));
    world.told.lock().0 = Duration::from_secs(9);
    let error = world.execute(&client, "").unwrap_err();
    // The retry at 200 ms asks for fresh leaders, and has only until 1 s to hear of them.
    assert_eq!((error.code(), client.now()), (ErrorCode::NodeNotServing, at(1_000)));
}

#[test]
fn every_visit_is_told_with_the_group_that_served_it() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "east"), (2, "west")])]);
    let client = world.client(Settings { retry_on_replica: 3, ..in_turn() });
    world.down.lock().insert(NodeId(2));
    world.behave(|_| Outcome::After(Duration::from_millis(7), Ok(())));
    let (inner, workload) = (client.clone(), Arc::new(world.workload("")));
    let request = workload.request.clone();
    world.run(async move { inner.execute(&workload, None).await.map(drop) }).unwrap();
    let ended = std::mem::take(&mut *request.ended.lock());
    assert_eq!(
        ended,
        [
            ("west".into(), Some(ErrorCode::NodeNotAvailable), Duration::ZERO),
            ("east".into(), None, Duration::from_millis(7)),
        ]
    );
}

#[test]
fn it_shows_whether_the_coordinator_sends_groups() {
    let world = World::new();
    let client = world.client(in_turn());
    let shown = || {
        let samples = client.samples();
        samples
            .iter()
            .find(|sample| sample.name == "shard_client_coordinator_tags")
            .map(|sample| sample.value)
    };
    world.tell(&[("s0", &[])]);
    let read = || {
        let inner = client.clone();
        let table = world.run(async move { inner.get_shard_table(crate::world::DOCS, false, None).await });
        table.unwrap();
    };
    read();
    assert_eq!(shown(), None, "without leaders nobody can tell");
    world.tell(&[("s0", &[(1, "east")])]);
    read();
    assert_eq!(shown(), Some(1));
    world.told.lock().1.as_mut().unwrap()[0].resource_groups.clear();
    read();
    assert_eq!(shown(), Some(0));
    world.tell(&[("s0", &[])]);
    read();
    assert_eq!(shown(), Some(0));
}

#[test]
fn a_refusal_of_a_scope_that_leads_nothing_tells_what_every_shard_has() {
    #[derive(Debug)]
    struct Refused;
    impl NodeView for Refused {
        fn standing(&self, _: NodeId) -> Standing {
            Standing::Excluded
        }
        fn why_excluded(&self, node: NodeId) -> Option<String> {
            (node.0 == 1).then(|| "connection refused".to_owned())
        }
    }
    for causes in [false, true] {
        let world = World::new();
        world.tell(&[("s0", &[(1, "east")]), ("s1", &[(2, "west")]), ("s2", &[])]);
        let client = world.client_with(Settings { causes, ..in_turn() }, Arc::new(Refused));
        let (inner, workload) = (client.clone(), world.workload("north"));
        let error = world.run(async move { inner.execute_one_shard(&workload, None).await.map(drop) });
        let error = error.unwrap_err();
        assert_eq!(
            (error.code(), world.calls(), client.now()),
            (ErrorCode::CollectionNotFullyLoaded, 1, at(0))
        );
        let seen = "shard 's0': listed: node 1 in 'east', serviceable, outside the scope, excluded by the failure \
                    detector (connection refused); shard 's1': listed: node 2 in 'west', serviceable, outside the scope, \
                    excluded by the failure detector; shard 's2': no leader is listed";
        assert_eq!(error.message().ends_with(seen), causes, "{error}");
    }
}

#[test]
fn a_nodes_own_refusal_is_told_with_what_was_seen_but_never_a_wrong_request() {
    use pointsman_ids::ErrorClass;
    let told = |class| {
        let world = World::new();
        world.tell(&[("s0", &[(1, "east")])]);
        let client = world.client(Settings { causes: true, ..in_turn() });
        let error = pointsman_shard_client::ShardError::new(ErrorCode::CollectionNotFullyLoaded, "it lags");
        world.behave(move |_| Outcome::After(Duration::ZERO, Err(error.clone().with_class(class))));
        world.execute(&client, "").unwrap_err()
    };
    let error = told(ErrorClass::System);
    let seen = "listed: node 1 in 'east', serviceable, failed in this request (collection_not_fully_loaded)";
    assert!(error.message().contains("it lags") && error.message().ends_with(seen), "{error}");
    assert_eq!(told(ErrorClass::Input).message(), "it lags");
}
