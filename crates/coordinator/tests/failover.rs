//! PostgreSQL fails over to a standby that lacks the newest changes, under a coordinator that goes on.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use std::{collections::BTreeSet, time::Duration};

use cluster::*;
use pointsman_metastore::OpenOptions;
use pointsman_proto::coordinator::v1 as pb;
use pointsman_testkit::Postgres;

async fn names(coordinator: &Coordinator) -> Option<BTreeSet<String>> {
    let listed = coordinator.catalog().list_collections(pb::ListCollectionsRequest {}).await.ok()?;
    Some(listed.into_inner().collections.into_iter().map(|collection| collection.name).collect())
}

/// Everything is told anew from far above what anybody has seen: versions of the feed, of wishes, epochs and numbers. What
/// was lost leaves nodes and brokers, and comes back by another push.
#[tokio::test(flavor = "multi_thread")]
async fn changes_that_were_lost_leave_everybody_and_nothing_old_is_taken_for_new() {
    let mut primary = Postgres::start_durable().unwrap();
    let cluster = Cluster::new();
    let options = OpenOptions {
        acquire: Duration::from_secs(2),
        statement: Duration::from_secs(2),
        ..OpenOptions::default()
    };
    let metastore = pointsman_metastore::open(&primary.url(), options).await.unwrap();
    let coordinator = cluster.start_over(cluster.settings("c1"), metastore).await;
    coordinator.is_active().await;
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    coordinator.create("kept").await.unwrap();
    coordinator.push("kept", vec![cluster.segment("kept", "a", 1)]).await.unwrap();
    coordinator.load("kept", &["east"]).await.unwrap();
    coordinator.loaded("kept").await;
    // The standby begins as a copy, and follows no further.
    let mut standby = primary.standby().unwrap();
    standby.stop().unwrap();
    coordinator.create("lost").await.unwrap();
    coordinator.push("lost", vec![cluster.segment("lost", "b", 1)]).await.unwrap();
    coordinator.load("lost", &["east"]).await.unwrap();
    coordinator.loaded("lost").await;
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let before = watch.until(|feed| servers(feed, "lost", "b").len() == 1).await;
    let epoch = coordinator.describe().await.unwrap().epoch;
    let (held, leads) = (node.wanted(), node.leads.borrow().clone());
    assert_eq!(held.len(), 2);

    primary.kill().unwrap();
    standby.take_the_place_of(&primary).unwrap();
    // The session ends with the tenure, and the node comes back with what it holds.
    assert!(node.ended().await.is_some());
    let above = || async { coordinator.describe().await.filter(|about| about.active && about.epoch > epoch) };
    let next = until("a new tenure", above).await;
    assert!(next.epoch > epoch + 1000, "{} after {epoch}", next.epoch);
    assert_eq!(names(&coordinator).await.unwrap(), ["kept".to_owned()].into());
    let hello = Hello { held, leads, epoch_seen: epoch, ..Hello::new("n1", "") };
    let node = hello.connect(&coordinator).await.unwrap();
    node.wants(1).await;
    // A broker that kept what was told it of the lost future is told what is.
    let resume = || async { coordinator.watch_from("b1", before.version.0, epoch).await.ok() };
    let mut watch = until("a watch", resume).await;
    let after = watch.until(|feed| servers(feed, "kept", "a").len() == 1).await;
    assert!(after.version.0 >> 32 == next.epoch && after.collection("lost").is_none(), "{:?}", after.version);
    // The same again brings it back, under numbers that nobody had.
    coordinator.create("lost").await.unwrap();
    assert_eq!(coordinator.push("lost", vec![cluster.segment("lost", "b", 1)]).await.unwrap(), (1, 0));
    coordinator.load("lost", &["east"]).await.unwrap();
    let again = watch.until(|feed| servers(feed, "lost", "b").len() == 1).await;
    let number = |feed: &pointsman_ids::feed::Snapshot| feed.collection("lost").unwrap().segments[0].id;
    assert!(number(&again).0 > number(&before).0 + 1_000_000);
    coordinator.stop().await.unwrap();
}
