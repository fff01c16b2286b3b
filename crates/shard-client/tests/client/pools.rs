//! Connections: lazy, as many as set, closed when unused, never handed out dead.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use pointsman_ids::{ErrorCode, NodeId};
use pointsman_shard_client::Settings;

use crate::world::{Client, World, at, blacklist, in_turn};

fn sized(connections: i64) -> Settings {
    Settings { connections_per_node: connections, ..in_turn() }
}

/// The numbers of the connections over which so many requests went.
fn used(world: &Arc<World>, client: &Client, requests: usize) -> Vec<usize> {
    let ask = |_| {
        let (client, workload) = (client.clone(), world.workload(""));
        let answers = world.run(async move { client.execute(&workload, None).await.unwrap() });
        answers[0].answer
    };
    (0..requests).map(ask).collect()
}

fn open(world: &World) -> usize {
    world.opened.lock().iter().filter(|connection| !connection.dead.load(Ordering::SeqCst)).count()
}

#[test]
fn the_first_use_opens_as_many_as_set_and_requests_take_turns() {
    for (set, opened) in [(3, 3), (1, 1), (0, 1), (-5, 1)] {
        let world = World::new();
        world.tell(&[("s0", &[(1, "")])]);
        let client = world.client(sized(set));
        assert_eq!((open(&world), client.pools()), (0, 0), "nothing before the first use");
        let turns = used(&world, &client, 7);
        assert_eq!((open(&world), client.pools()), (opened, 1));
        let expected: Vec<usize> = (1..=7).map(|turn| turn % opened).collect();
        assert_eq!(turns, expected);
    }
}

#[test]
fn a_connection_that_fails_closes_the_others_and_the_next_use_tries_again() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")])]);
    let client = world.client(Settings { blacklist: Duration::ZERO, ..sized(2) });
    world.down.lock().insert(NodeId(1));
    let refused = world.execute(&client, "").unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NodeNotAvailable);
    assert!(refused.message().contains("connection refused"), "{refused}");
    assert!(refused.message().contains("'s0' on node 1"), "{refused}");
    world.down.lock().clear();
    world.execute(&client, "").unwrap();
    assert_eq!(open(&world), 2);
}

#[test]
fn one_connection_of_several_that_fails_closes_those_that_were_opened() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")])]);
    let client = world.client(Settings { blacklist: Duration::ZERO, retry_on_replica: 1, ..sized(3) });
    world.connecting.lock().1 = [false, false, true, true].into();
    let (inner, workload) = (client.clone(), world.workload(""));
    let outcome = world.run(async move { inner.execute(&workload, Some(at(100))).await.map(drop) });
    assert_eq!(outcome.unwrap_err().code(), ErrorCode::NodeNotAvailable);
    assert_eq!((open(&world), world.opened.lock().len()), (0, 2));
    // Two attempts of three connections each: the first of the next try is refused as well, and then none.
    world.execute(&client, "").unwrap();
    assert_eq!((open(&world), world.opened.lock().len()), (3, 7));
}

#[test]
fn a_caller_without_time_leaves_and_the_others_get_their_connections() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")])]);
    let client = world.client(sized(2));
    world.connecting.lock().0 = Duration::from_millis(80);
    let ask = |deadline| {
        let (client, workload) = (client.clone(), world.workload(""));
        world.runtime.start(async move { client.execute(&workload, deadline).await.map(drop) })
    };
    let (mut hasty, mut patient) = (ask(Some(at(50))), ask(None));
    assert_eq!(world.finish(&mut hasty).unwrap_err().code(), ErrorCode::DeadlineExceeded);
    assert_eq!(client.now(), at(50));
    world.finish(&mut patient).unwrap();
    assert_eq!(
        (client.now(), world.opened.lock().len()),
        (at(80), 2),
        "both waited for the same connections"
    );
    assert!(blacklist(&client).is_empty(), "SC-5: a caller's own time says nothing about the node");
}

#[test]
fn a_dead_connection_is_stepped_over_and_another_takes_its_place() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")])]);
    let client = world.client(sized(3));
    used(&world, &client, 3);
    world.opened.lock()[1].dead.store(true, Ordering::SeqCst);
    let turns = used(&world, &client, 9);
    assert!(!turns.contains(&1), "{turns:?}");
    assert!(turns.contains(&3), "the fourth connection stands in: {turns:?}");
    assert_eq!(open(&world), 3);
    // All of them at once: the next request waits for new ones and fails nobody.
    world.opened.lock().iter().for_each(|connection| connection.dead.store(true, Ordering::SeqCst));
    used(&world, &client, 1);
    assert_eq!(open(&world), 3);
    assert!(blacklist(&client).is_empty());
}

#[test]
fn a_node_at_another_address_gets_another_pool() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")])]);
    let client = world.client(sized(1));
    used(&world, &client, 1);
    if let Ok(told) = &mut world.told.lock().1 {
        told[0].node_addrs = vec!["moved:1".to_owned()];
    }
    client.invalidate(&[crate::world::DOCS]);
    used(&world, &client, 1);
    let addresses: Vec<_> =
        world.opened.lock().iter().map(|connection| connection.address.to_string()).collect();
    assert_eq!(addresses, ["node-1:7000", "moved:1"]);
    assert_eq!(client.pools(), 2);
    // An hour and a purge later the old one is gone; the new one is listed as long as somebody reads the table.
    for _ in 0..9 {
        world.advance(500_000);
        let inner = client.clone();
        world.run(async move { inner.get_shard(crate::world::DOCS, "s0", true, None).await }).unwrap();
    }
    assert_eq!((client.pools(), open(&world)), (1, 1));
    // Nobody reads it any more.
    world.advance(3_000_000);
    assert_eq!((client.pools(), open(&world)), (0, 0));
}

#[test]
fn after_the_end_nobody_gets_a_connection() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")])]);
    let client = world.client(sized(2));
    used(&world, &client, 1);
    client.close();
    assert_eq!(open(&world), 0);
    let refused = world.execute(&client, "").unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NodeNotAvailable);
    assert!(refused.message().contains("are closed"), "{refused}");
}
