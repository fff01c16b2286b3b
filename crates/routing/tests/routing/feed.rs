//! The watch of the feed.

use std::{sync::Arc, time::Duration};

use pointsman_ids::feed::SegmentEntry;

use crate::{
    coordinator::{Broker, Feed},
    values::{collection, nodes, snapshot, until},
};

#[tokio::test]
async fn every_change_of_the_feed_is_routed_by() {
    let folder = tempfile::tempdir().unwrap();
    let feed = Feed::new(1, snapshot(1, nodes(2), vec![collection("t", 1, 2, &[1, 2])]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    assert!(!broker.routing.is_ready());
    let mut changed = broker.routing.changed();
    changed.wait_for(|version| version.0 == 1).await.unwrap();
    assert!(broker.routing.is_ready());
    feed.say(snapshot(2, nodes(3), vec![]));
    changed.wait_for(|version| version.0 == 2).await.unwrap();
    assert_eq!(broker.routing.nodes().len(), 3);
    let state = broker.routing.feed();
    assert!(state.connected && state.age.is_none(), "{state:?}");
}

#[tokio::test]
async fn the_last_view_stays_while_the_coordinator_is_away_and_its_age_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let feed = Feed::new(1, snapshot(1, nodes(2), vec![]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    let address = coordinator.kill().await;
    until("the absence is noticed", || !broker.routing.feed().connected).await;
    assert_eq!(broker.routing.nodes().len(), 2);
    until("the age grows", || broker.routing.feed().age > Some(Duration::from_millis(300))).await;
    let _again = Feed::new(2, snapshot(2, nodes(4), vec![])).serve_at(address).await;
    until("the next coordinator is heard", || broker.version() == 2).await;
    assert!(broker.routing.feed().connected);
}

#[tokio::test]
async fn the_active_coordinator_is_found_among_several() {
    let folder = tempfile::tempdir().unwrap();
    let first = Feed::standing_by();
    let (one, nobody) = (first.serve().await, Feed::standing_by().serve().await);
    let active = Feed::new(3, snapshot(1, nodes(1), vec![])).serve().await;
    let broker = Broker::start(folder.path(), &[&one, &nobody, &active]).await;
    until("the active one is found", || broker.version() == 1).await;
    // It fails over, and the first takes the lease.
    active.kill().await;
    let address = one.kill().await;
    let _one = Feed::new(4, snapshot(2, nodes(1), vec![])).serve_at(address).await;
    until("its successor is found", || broker.version() == 2).await;
}

#[tokio::test]
async fn a_coordinator_with_a_lower_epoch_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let active = Feed::new(5, snapshot(10, nodes(1), vec![])).serve().await;
    let former_feed = Feed::new(4, snapshot(99, nodes(9), vec![]));
    let former = former_feed.serve().await;
    let broker = Broker::start(folder.path(), &[&active, &former]).await;
    until("the active one is heard", || broker.version() == 10).await;
    let address = active.kill().await;
    until("the absence is noticed", || !broker.routing.feed().connected).await;
    let _active = Feed::new(6, snapshot(11, nodes(2), vec![])).serve_at(address).await;
    until("the successor is heard", || broker.version() != 10).await;
    assert_eq!(broker.version(), 11);
}

#[tokio::test]
async fn a_watch_that_falls_silent_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) =
        (Feed::new(1, snapshot(1, nodes(1), vec![])), Feed::new(2, snapshot(2, nodes(1), vec![])));
    let (one, two) = (first.serve().await, second.serve().await);
    let broker = Broker::start(folder.path(), &[&one, &two]).await;
    until("the first is heard", || broker.version() == 1).await;
    first.fall_silent();
    until("the second is heard", || broker.version() == 2).await;
    assert_eq!(second.listeners(), 1);
}

#[tokio::test]
async fn a_snapshot_that_makes_no_sense_leaves_the_former_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let feed = Feed::new(1, snapshot(1, nodes(1), vec![]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    let mut broken = collection("t", 1, 1, &[1]);
    let segment = SegmentEntry { shard: 77, ..SegmentEntry::clone(&broken.segments[0]) };
    broken.segments.set(0, Arc::new(segment));
    feed.say(snapshot(2, nodes(2), vec![broken]));
    until("the watch is given up", || !broker.routing.feed().connected).await;
    assert_eq!(broker.version(), 1);
    feed.say(snapshot(3, nodes(2), vec![]));
    until("the next one is taken", || broker.version() == 3).await;
}
