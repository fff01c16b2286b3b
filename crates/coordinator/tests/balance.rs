//! Load that became uneven, and nodes that have no room.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use std::{collections::BTreeSet, time::Duration};

use cluster::*;
use pointsman_settings::CoordinatorSettings;

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// Balances ten times a second.
fn eager(cluster: &Cluster) -> CoordinatorSettings {
    CoordinatorSettings { balance_interval: Duration::from_millis(100), ..cluster.settings("c1") }
}

async fn load(cluster: &Cluster, coordinator: &Coordinator) {
    coordinator.create("t").await.unwrap();
    let segments = NAMES.map(|name| cluster.segment("t", name, 100)).to_vec();
    coordinator.push("t", segments).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_later_gets_its_part_and_nothing_is_missing_meanwhile() {
    let cluster = Cluster::new();
    let coordinator = cluster.start_with(eager(&cluster)).await;
    coordinator.is_active().await;
    let first = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    load(&cluster, &coordinator).await;
    coordinator.loaded("t").await;
    assert_eq!(first.wanted().len(), 12);

    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let second = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    // One of them leads, which weighs a little.
    let halves = |feed: &pointsman_ids::feed::Snapshot| {
        let served = |node: &str| {
            NAMES.iter().filter(|name| servers(feed, "t", name) == BTreeSet::from([node.to_owned()])).count()
        };
        (served("n1"), served("n2"))
    };
    let mut even = false;
    while !even {
        let feed = watch.next().await.unwrap();
        for name in NAMES {
            assert!(!servers(&feed, "t", name).is_empty(), "{name} is served by nobody");
        }
        let (ours, theirs) = halves(&feed);
        even = ours + theirs == 12 && ours.abs_diff(theirs) <= 2;
    }
    until("the former copies to go", || async {
        (first.wanted().len() + second.wanted().len() == 12).then_some(())
    })
    .await;
    // And there it rests.
    let rests = (first.wanted(), second.wanted());
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!((first.wanted(), second.wanted()), rests);
    }
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_room_is_named_and_passed_over() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let full =
        Hello { manner: Manner::Full, ..Hello::new("n1", "east") }.connect(&coordinator).await.unwrap();
    load(&cluster, &coordinator).await;
    let told = || async {
        let load = coordinator.show("t").await.unwrap();
        load.groups[0].failures.first().cloned()
    };
    let failure = until("a failure that is told", told).await;
    assert_eq!(failure.node, "n1");
    assert_eq!(failure.error.unwrap().name, "segment_request_resource_failed");
    full.wants(0).await;

    let second = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    let loaded = coordinator.loaded("t").await;
    assert!(loaded.groups[0].failures.is_empty());
    assert_eq!((full.wanted().len(), second.wanted().len()), (0, 12), "it gets nothing for a while");
    coordinator.stop().await.unwrap();
}
