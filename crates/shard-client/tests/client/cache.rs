//! The leader cache: one call for many, fencing, invalidation, expiry.

use std::{sync::atomic::Ordering, time::Duration};

use pointsman_ids::{CollectionId, ErrorCode, NodeId};
use pointsman_shard_client::{Handle, Leader, Result};

use crate::world::{Client, DOCS, TIMERS, World, at, counted, in_turn};

type Read = Handle<Result<Vec<u64>>>;

fn start(world: &World, client: &Client, with_cache: bool, timeout: Option<u64>) -> Read {
    let client = client.clone();
    let deadline = timeout.map(|ms| client.now() + Duration::from_millis(ms));
    let handle = world.runtime.start(async move {
        let leaders = client.get_shard(DOCS, "s0", with_cache, deadline).await?;
        Ok(leaders.iter().map(|leader: &Leader| leader.node.0).collect())
    });
    world.runtime.settle(TIMERS).unwrap();
    handle
}

fn takes(world: &World, ms: u64) {
    world.told.lock().0 = Duration::from_millis(ms);
}

#[test]
fn a_thousand_requests_to_a_cold_cache_make_one_call() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")]), ("s1", &[(2, "")])]);
    takes(&world, 80);
    let client = world.client(in_turn());
    let mut running: Vec<_> = (0..1000)
        .map(|_| {
            let (client, workload) = (client.clone(), world.workload(""));
            world
                .runtime
                .start(async move { client.execute(&workload, None).await.map(|answers| answers.len()) })
        })
        .collect();
    for handle in &mut running {
        assert_eq!(world.finish(handle).unwrap(), 2);
    }
    assert_eq!((world.calls(), client.now()), (1, at(80)));
}

/// SC-4: an answer that was asked for before an invalidation is never in the cache after it.
#[test]
fn what_was_asked_before_an_invalidation_reaches_its_waiters_and_not_the_cache() {
    for with_cache in [true, false] {
        let world = World::new();
        world.tell(&[("s0", &[(1, "")])]);
        takes(&world, 80);
        let client = world.client(in_turn());
        let mut before = start(&world, &client, with_cache, None);
        world.advance(50);
        client.invalidate(&[CollectionId(7), DOCS]);
        world.tell(&[("s0", &[(2, "")])]);
        let mut after = start(&world, &client, with_cache, None);
        assert_eq!(world.calls(), 2, "a later reader joins no refresh from before");
        assert_eq!(world.finish(&mut before), Ok(vec![1]));
        assert_eq!(client.locations().len(), 0);
        assert_eq!(world.finish(&mut after), Ok(vec![2]));
        assert_eq!(client.locations().into_keys().collect::<Vec<_>>(), [NodeId(2)]);
        assert_eq!(client.now(), at(130));
    }
}

#[test]
fn an_ordinary_refresh_that_was_overtaken_is_not_cached() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")])]);
    takes(&world, 100);
    let client = world.client(in_turn());
    let mut ordinary = start(&world, &client, true, None);
    world.advance(10);
    world.tell(&[("s0", &[(2, "")])]);
    takes(&world, 20);
    let mut forced = start(&world, &client, false, None);
    assert_eq!(world.finish(&mut forced), Ok(vec![2]));
    assert_eq!(world.finish(&mut ordinary), Ok(vec![1]));
    let mut cached = start(&world, &client, true, None);
    assert_eq!((world.finish(&mut cached), world.calls()), (Ok(vec![2]), 2));
}

#[test]
fn a_call_goes_on_when_its_first_asker_leaves_and_ends_after_ten_seconds() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")])]);
    takes(&world, 400);
    let client = world.client(in_turn());
    let mut leaves = start(&world, &client, true, Some(100));
    assert_eq!(world.finish(&mut leaves).unwrap_err().code(), ErrorCode::DeadlineExceeded);
    assert_eq!(client.now(), at(100));
    // Dropped rather than out of time.
    drop(start(&world, &client, true, None));
    world.advance(300);
    assert_eq!((client.locations().len(), world.calls()), (1, 1));

    client.invalidate(&[DOCS]);
    takes(&world, 60_000);
    let mut first = start(&world, &client, true, None);
    world.advance(9_000);
    let mut second = start(&world, &client, true, None);
    for waiter in [&mut first, &mut second] {
        assert_eq!(world.finish(waiter).unwrap_err().code(), ErrorCode::DeadlineExceeded);
        assert_eq!((client.now(), world.calls()), (at(10_400), 2));
    }
    // The next reader starts anew.
    takes(&world, 0);
    let mut third = start(&world, &client, true, None);
    assert_eq!(world.finish(&mut third), Ok(vec![1]));
}

#[test]
fn reads_are_counted_by_whether_an_entry_was_there() {
    let world = World::new();
    world.tell(&[("s0", &[(1, "")])]);
    let client = world.client(in_turn());
    for with_cache in [false, true, false] {
        let mut read = start(&world, &client, with_cache, None);
        world.finish(&mut read).unwrap();
    }
    let reads = |result| counted(&client, "shard_client_cache_reads", &["get_shard", result]);
    assert_eq!((reads("hit"), reads("miss")), (2, 1));
}

#[test]
fn lists_that_do_not_fit_together_are_counted_and_hurt_their_shard_alone() {
    let world = World::new();
    world.tell(&[
        ("a", &[(1, "east")]),
        ("b", &[(1, "east"), (2, "east")]),
        ("c", &[(3, "east"), (3, "west")]),
        ("d", &[(4, "east")]),
    ]);
    if let Ok(told) = &mut world.told.lock().1 {
        told[0].node_addrs.push("whose?".to_owned());
        told[1].resource_groups.pop();
        told[3].serviceable.clear();
    }
    let client = world.client(in_turn());
    let table = world.run({
        let client = client.clone();
        async move { client.get_shard_table(DOCS, true, None).await }
    });
    let table = table.unwrap();
    let shards: Vec<_> = table.shards().collect();
    let tags = |at: usize| -> Vec<(u64, &str)> {
        shards[at].1.iter().map(|leader| (leader.node.0, &*leader.resource_group)).collect()
    };
    assert_eq!(shards.len(), 4, "SC-2: no shard is dropped");
    assert_eq!((tags(0), tags(3)), (vec![], vec![]));
    assert_eq!(tags(1), [(1, ""), (2, "")]);
    assert_eq!(tags(2), [(3, "east")], "the first of two entries stays");
    assert_eq!(counted(&client, "shard_client_malformed_lists", &[]), 2);
    assert_eq!(counted(&client, "shard_client_misaligned_tags", &[]), 1);
    assert_eq!(world.calls.load(Ordering::SeqCst), 1);
}
