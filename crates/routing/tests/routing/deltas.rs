//! Changes of the feed, one after the other, and what the broker tells the coordinator.

use std::sync::Arc;

use pointsman_proto::collection_digest;

use crate::{
    coordinator::{Broker, Feed},
    values::{collection, nodes, snapshot, until},
};

#[tokio::test]
async fn changes_alone_are_followed_and_what_did_not_change_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (t, u) = (collection("t", 1, 2, &[1, 2]), collection("u", 1, 2, &[1]));
    let feed = Feed::with_deltas(1, snapshot(1, nodes(2), vec![t.clone(), u]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    let before = broker.routing.view();
    feed.say(snapshot(2, nodes(3), vec![t.clone(), collection("u", 2, 3, &[1, 2])]));
    until("the change is taken", || broker.version() == 2).await;
    let after = broker.routing.view();
    assert_eq!(after.collection("u").unwrap().segments.len(), 3);
    assert!(Arc::ptr_eq(before.collection("t").unwrap(), after.collection("t").unwrap()));
    feed.say(snapshot(3, nodes(1), vec![t]));
    until("the next one is taken", || broker.version() == 3).await;
    assert!(broker.routing.view().collection("u").is_none());
    assert_eq!(broker.routing.nodes().len(), 1);
    assert_eq!(feed.heard().watches.len(), 1, "in one watch");
}

#[tokio::test]
async fn a_gap_makes_the_broker_ask_for_everything() {
    let folder = tempfile::tempdir().unwrap();
    let feed = Feed::with_deltas(1, snapshot(1, nodes(2), vec![]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    feed.lose_one();
    feed.say(snapshot(3, nodes(3), vec![]));
    until("everything is taken", || broker.version() == 3).await;
    assert_eq!(broker.routing.nodes().len(), 3);
    let asked: Vec<u64> = feed.heard().watches.iter().map(|request| request.version).collect();
    assert_eq!(asked, [0, 0]);
    feed.say(snapshot(4, nodes(4), vec![]));
    until("changes are followed again", || broker.version() == 4).await;
    assert_eq!(feed.heard().watches.len(), 2);
}

#[tokio::test]
async fn what_is_routed_by_is_acknowledged_and_again_while_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let feed = Feed::with_deltas(1, snapshot(1, nodes(2), vec![]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    for version in 1..4 {
        feed.say(snapshot(version, nodes(version), vec![]));
        until("it is acknowledged", || feed.acknowledged() == Some(version)).await;
        assert!(broker.version() >= version, "not before it is routed by");
    }
    let heard = feed.heard().times;
    until("it says that it lives", || feed.heard().times >= heard + 2).await;
    assert_eq!(feed.acknowledged(), Some(3));
}

#[tokio::test]
async fn a_broker_that_comes_back_says_what_it_holds_and_is_not_sent_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let t = collection("t", 1, 2, &[1, 2]);
    let feed = Feed::with_deltas(1, snapshot(1, nodes(2), vec![t.clone()]));
    let coordinator = feed.serve().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("the feed is heard", || broker.version() == 1).await;
    let before = broker.routing.view();
    let address = coordinator.kill().await;
    until("the absence is noticed", || !broker.routing.feed().connected).await;
    let coordinator = feed.serve_at(address).await;
    until("it is heard again", || broker.routing.feed().connected).await;
    assert!(Arc::ptr_eq(before.snapshot(), broker.routing.view().snapshot()));
    // So does one that was started anew.
    broker.stop().await;
    let broker = Broker::start(folder.path(), &[&coordinator]).await;
    until("it is heard", || broker.routing.feed().connected).await;
    let heard = feed.heard();
    let [first, again, anew] = &heard.watches[..] else { panic!("{:?}", heard.watches) };
    assert_eq!(first.version, 0);
    assert_eq!((again.version, anew.version), (1, 1));
    let holding = again.holding.as_ref().unwrap();
    assert_eq!(holding.nodes, ["n1", "n2"]);
    assert_eq!(holding.collections[0].name, "t");
    assert_eq!(holding.collections[0].digest, collection_digest(&t));
    assert_eq!(anew.holding.as_ref(), Some(holding));
}
