//! Finding the active coordinator, losing it, and refusing a stale one.

use std::time::Duration;

use pointsman_ids::{Error, ErrorCode};

use crate::{
    cluster::{Cluster, content},
    coordinator::Coordinator,
    node::{self, Node},
};

#[tokio::test]
async fn the_active_coordinator_is_found_among_those_that_stand_by_or_are_away() {
    let cluster = Cluster::start();
    let stand_by = Coordinator::start("unused");
    let refusal = Error::new(ErrorCode::ServiceNotReady, "stands by");
    stand_by.change(|script| script.refuses = Some(refusal.clone()));
    let away = Coordinator::start("unused").url();
    let coordinators = [stand_by.url(), away, cluster.coordinator.url()];
    let node = Node::start(node::settings(&cluster.data_dir(), &coordinators), node::pace());
    cluster.coordinator.until("a session", |heard| !heard.reports.is_empty()).await;

    // They change places.
    stand_by.change(|script| (script.refuses, script.epoch) = (None, 2));
    cluster.coordinator.change(|script| script.refuses = Some(refusal));
    cluster.coordinator.change(|script| script.silent = true);
    let heard = stand_by.until("a session", |heard| !heard.reports.is_empty()).await;
    assert_eq!(heard.hellos.last().unwrap().epoch_seen, 1);
    node.until_page("/ready", |status, ready| status == 200 && ready["coordinator"] == stand_by.url()).await;
}

#[tokio::test]
async fn a_coordinator_that_was_away_hears_everything_again() {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[cluster.push(1, &content(1))]);
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    let (address, script) = (cluster.coordinator.address(), cluster.coordinator.script());
    drop(cluster.coordinator);
    node.until_page("/ready", |_, ready| ready["coordinator"].is_null()).await;
    let (status, ready) = node.page("/ready").await;
    assert_eq!((status, &ready["held"]), (200, &1.into()), "it keeps what it has and serves: {ready}");

    let coordinator = Coordinator::start_at(address, script);
    let heard = coordinator.until("held", |heard| heard.holds(&[1])).await;
    assert!(heard.reports[0].full);
    assert_eq!(heard.reports[0].segments.len(), 1);
}

#[tokio::test]
async fn a_coordinator_with_a_lower_epoch_is_refused() {
    let cluster = Cluster::start();
    cluster.coordinator.change(|script| script.epoch = 5);
    cluster.coordinator.want(&[cluster.push(1, &content(1))]);
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    let (address, mut script) = (cluster.coordinator.address(), cluster.coordinator.script());
    drop(cluster.coordinator);

    script.epoch = 4;
    script.desired.segments.clear();
    let stale = Coordinator::start_at(address, script.clone());
    let heard = stale.until("several tries", |heard| heard.hellos.len() >= 3).await;
    assert!(heard.hellos.iter().all(|hello| hello.epoch_seen == 5));
    let (_, ready) = node.page("/ready").await;
    assert!(ready["coordinator"].is_null() && ready["held"] == 1, "{ready}");

    drop(stale);
    script.epoch = 5;
    let fresh = Coordinator::start_at(address, script);
    fresh.until("its wish is taken", |heard| !heard.reports.is_empty() && heard.segments.is_empty()).await;
    node.until_page("/ready", |_, ready| ready["held"] == 0).await;
}

#[tokio::test]
async fn a_silent_coordinator_is_left_and_asked_again() {
    let cluster = Cluster::start();
    cluster.coordinator.change(|script| script.lease_ms = 600);
    let _node = cluster.node();
    cluster.coordinator.until("a session", |heard| !heard.reports.is_empty()).await;
    cluster.coordinator.change(|script| script.silent = true);
    cluster.coordinator.until("another session", |heard| heard.hellos.len() >= 2).await;
}

#[tokio::test]
async fn a_refusal_is_shown_and_retried_without_haste() {
    let cluster = Cluster::start();
    let refusal = Error::new(ErrorCode::ParameterInvalid, "'n1' is live from http://other:1");
    cluster.coordinator.change(|script| script.refuses = Some(refusal));
    let node = cluster.node();
    let ready =
        node.until_page("/ready", |_, ready| ready["why"].as_str().unwrap().contains("live from")).await;
    assert_eq!(ready["ready"], false);
    // In a second there is room for two tries at this pace, and for at least five at the usual one.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(cluster.coordinator.heard().hellos.len() <= 3);
    cluster.coordinator.change(|script| script.refuses = None);
    cluster.coordinator.until("a session", |heard| !heard.reports.is_empty()).await;
}

#[tokio::test]
async fn a_wish_may_come_as_its_changes_and_a_gap_ends_the_session() {
    let cluster = Cluster::start();
    let segments = [1, 2, 3].map(|id| cluster.push(id, &content(1)));
    cluster.coordinator.want(&segments[..2]);
    let node = cluster.node();
    let heard = cluster.coordinator.until("the whole wish", |heard| heard.holds(&[1, 2])).await;
    assert!(heard.hellos[0].reads_changes);
    cluster.coordinator.want_also(2, &segments[2..], &[1]);
    cluster.coordinator.until("the change", |heard| heard.holds(&[2, 3])).await;
    cluster.coordinator.want_also(3, &[], &[3, 9]);
    let heard = cluster.coordinator.until("another change", |heard| heard.holds(&[2])).await;
    assert_eq!((heard.hellos.len(), heard.reports.last().unwrap().desired_version), (1, 4));

    cluster.coordinator.want_also(3, &segments[..1], &[]);
    cluster.coordinator.until("a new session", |heard| heard.hellos.len() >= 2).await;
    let (_, ready) = node.page("/ready").await;
    assert_eq!(ready["held"], 1, "it keeps what it has: {ready}");
    cluster.coordinator.want(&segments[..1]);
    cluster.coordinator.until("the whole wish", |heard| heard.holds(&[1])).await;
}
