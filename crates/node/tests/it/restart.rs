//! What a node finds when it starts.

use std::fs;

use pointsman_node::{DataDirError, RunError};

use crate::{
    cluster::{Cluster, content},
    coordinator::Heard,
    node::{self, Node},
};

#[tokio::test]
async fn a_restart_verifies_what_is_there_and_fetches_only_what_is_not() {
    let cluster = Cluster::start();
    let segments: Vec<_> = (1..=4).map(|id| cluster.push(id, &content(id))).collect();
    cluster.coordinator.want(&segments);
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1, 2, 3, 4])).await;
    let files: Vec<_> = (0..=4).map(|id| node.file(id)).collect();
    node.kill().await;

    let mut altered = content(1);
    altered[2_999_999] ^= 1;
    fs::write(&files[1], altered).unwrap();
    fs::write(&files[2], &content(2)[..10]).unwrap();
    fs::remove_file(&files[3]).unwrap();
    // Whoever holds segment 4 after this has not fetched it.
    fs::remove_file(cluster.object(4)).unwrap();

    let node = cluster.node();
    let again = |heard: &Heard| {
        heard.reports.iter().filter(|report| report.full).count() == 2 && heard.holds(&[1, 2, 3, 4])
    };
    let heard = cluster.coordinator.until("held again", again).await;
    assert!(heard.hellos[1].incarnation > heard.hellos[0].incarnation);
    for id in 1..=4 {
        assert_eq!(fs::read(node.file(id)).unwrap(), content(id));
    }
}

#[tokio::test]
async fn a_file_that_nobody_wants_any_more_goes_and_one_that_is_no_segment_stays() {
    let cluster = Cluster::start();
    let folder = cluster.data_dir().join("segments");
    fs::create_dir_all(&folder).unwrap();
    for name in ["7.parquet", "3.tmp", "notes.txt"] {
        fs::write(folder.join(name), "x").unwrap();
    }
    let _node = cluster.node();
    cluster
        .coordinator
        .until("a report on the wish", |heard| {
            heard.reports.last().is_some_and(|report| report.desired_version == 1)
        })
        .await;
    let gone = async {
        while folder.join("7.parquet").exists() || folder.join("3.tmp").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::coordinator::DEADLINE, gone).await.unwrap();
    assert!(folder.join("notes.txt").exists());
    assert!(cluster.coordinator.heard().segments.is_empty());
}

#[tokio::test]
async fn a_node_that_starts_while_the_coordinator_is_away_holds_what_it_has() {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[cluster.push(1, &content(1)), cluster.push(2, &content(2))]);
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1, 2])).await;
    let (settings, damaged) = (cluster.settings(), node.file(2));
    node.kill().await;
    fs::write(damaged, "x").unwrap();
    drop(cluster.coordinator);

    let node = Node::start(settings, node::pace());
    let lines = node.until_page("/debug/segments", |_, lines| lines[0]["state"] == "held").await;
    assert_eq!(lines[1]["state"], "fetching", "{lines}");
    let (status, ready) = node.page("/ready").await;
    assert_eq!((status, &ready["desired_version"]), (503, &0.into()), "{ready}");
}

#[tokio::test]
async fn a_second_node_on_one_folder_is_refused() {
    let cluster = Cluster::start();
    let first = cluster.node();
    cluster.coordinator.until("a session", |heard| !heard.reports.is_empty()).await;
    let error = cluster.node().end().await.unwrap_err();
    assert!(matches!(error, RunError::DataDir(DataDirError::Taken { .. })), "{error:?}");
    assert!(!first.ended());
}
