//! SC-3 and SC-5: a request that is dropped leaves nothing behind.

use std::{collections::BTreeMap, time::Duration};

use futures::future::{AbortHandle, Aborted, abortable};
use pointsman_ids::ErrorCode;
use pointsman_shard_client::{Handle, Result, Settings};

use crate::world::{Client, Outcome, World, at, blacklist, executing};

type Running = (Handle<Result<Result<usize>, Aborted>>, AbortHandle);

fn start(world: &std::sync::Arc<World>, client: &Client, group: &str, nq: i64) -> Running {
    let (client, mut workload) = (client.clone(), world.workload(group));
    workload.nq = nq;
    let (work, abort) =
        abortable(async move { client.execute(&workload, None).await.map(|answers| answers.len()) });
    (world.runtime.start(work), abort)
}

#[test]
fn a_dropped_request_gives_its_work_back_and_blames_nobody() {
    let world = World::new();
    world.tell(&[("a", &[(1, ""), (2, "")]), ("b", &[(3, "")])]);
    let client = world.client(Settings::default());
    world.behave(|visit| match visit.node.0 {
        3 => Outcome::Never,
        _ => Outcome::After(Duration::from_millis(300), Ok(())),
    });
    let (mut handle, abort) = start(&world, &client, "", 7);
    world.advance(100);
    assert_eq!(executing(&client), BTreeMap::from([(1, 7), (3, 7)]));
    world.advance(300);
    assert_eq!(executing(&client), BTreeMap::from([(3, 7)]), "a has its answer");
    abort.abort();
    assert_eq!(world.finish(&mut handle), Err(Aborted));
    assert_eq!(executing(&client), BTreeMap::new());
    assert_eq!(blacklist(&client), BTreeMap::new());
}

#[test]
fn wherever_a_request_is_dropped_the_books_end_at_zero() {
    for drop_at in (0..4_000).step_by(50) {
        let world = World::new();
        world.tell(&[("a", &[(1, "east"), (2, "west")]), ("b", &[(2, "east"), (3, "east")])]);
        world.told.lock().0 = Duration::from_millis(70);
        let client = world.client(Settings::default());
        world.behave(|visit| match visit.node.0 {
            1 => Outcome::error_after(60, ErrorCode::ServiceUnavailable),
            2 => Outcome::error_after(90, ErrorCode::SegmentLack),
            _ => Outcome::error_after(110, ErrorCode::NodeNotServing),
        });
        let (mut handle, abort) = start(&world, &client, "east", 3);
        world.advance(drop_at);
        abort.abort();
        let _ = world.finish(&mut handle);
        assert_eq!(executing(&client), BTreeMap::new(), "dropped at {drop_at} ms");
        let listed: Vec<u64> = blacklist(&client).into_values().flatten().collect();
        assert!(listed.iter().all(|node| *node == 2), "only node 2 failed for good: {listed:?}");
        // A refresh under way goes on and serves the next.
        world.behave(|_| Outcome::ok());
        assert_eq!(world.execute(&client, "").unwrap().len(), 2);
    }
}

#[test]
fn an_answer_at_the_very_instant_of_the_deadline_counts_and_one_after_it_is_the_nodes_fault() {
    for (takes, is_answered) in [(2000, true), (2001, false)] {
        let world = World::new();
        world.tell(&[("a", &[(1, ""), (2, "")])]);
        let client = world.client(Settings::default());
        world.behave(move |_| Outcome::After(Duration::from_millis(takes), Ok(())));
        let (inner, workload) = (client.clone(), world.workload(""));
        let outcome = world.run(async move { inner.execute(&workload, Some(at(2000))).await.map(drop) });
        assert_eq!(outcome.is_ok(), is_answered, "{takes} ms");
        let listed = blacklist(&client);
        assert_eq!(listed.contains_key("a"), !is_answered);
        assert_eq!(executing(&client), BTreeMap::new());
    }
}
