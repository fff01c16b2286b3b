//! Desired state, files and reports.

use std::{fs, os::unix::fs::FileExt, time::Duration};

use pointsman_node::Pace;
use pointsman_settings::NodeSettings;

use crate::{
    cluster::{Cluster, content},
    node,
};

#[tokio::test]
async fn wanted_segments_are_fetched_verified_and_reported() {
    let cluster = Cluster::start();
    let segments: Vec<_> = (1..=9).map(|id| cluster.push(id, &content(id))).collect();
    cluster.coordinator.want(&segments);
    let node = cluster.node();
    let ids: Vec<u64> = (1..=9).collect();
    let heard = cluster.coordinator.until("all held", |heard| heard.holds(&ids)).await;
    for id in ids {
        assert_eq!(fs::read(node.file(id)).unwrap(), content(id));
    }
    assert!(heard.reports[0].full && heard.reports[1..].iter().all(|report| !report.full));
    assert_eq!(heard.reports.last().unwrap().desired_version, 2);
    let (status, ready) = node.page("/ready").await;
    assert_eq!((status, &ready["held"], &ready["cluster"]), (200, &9.into(), &"test".into()));
}

#[tokio::test]
async fn a_node_that_wants_nothing_says_so_and_reports_in_time() {
    let cluster = Cluster::start();
    let _node = cluster.node();
    let heard = cluster.coordinator.until("four reports", |heard| heard.reports.len() >= 4).await;
    assert!(heard.reports.iter().all(|report| report.segments.is_empty()));
    assert_eq!(heard.hellos.len(), 1);
    assert_eq!((heard.hellos[0].name.as_str(), heard.hellos[0].cache_bytes), ("n1", 64 << 20));
}

#[tokio::test]
async fn what_is_not_wanted_any_more_is_dropped_and_reported_as_removed() {
    let cluster = Cluster::start();
    let segments = [cluster.push(1, &content(1)), cluster.push(2, &content(2))];
    cluster.coordinator.want(&segments);
    let node = cluster.node();
    cluster.coordinator.until("both held", |heard| heard.holds(&[1, 2])).await;
    cluster.coordinator.want(&segments[1..]);
    let heard = cluster.coordinator.until("one held", |heard| heard.holds(&[2])).await;
    assert!(heard.reports.iter().any(|report| report.removed == [1]));
    node.until_gone(1).await;
    assert!(node.file(2).exists());
}

#[tokio::test]
async fn a_file_removed_behind_its_back_is_fetched_again() {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[cluster.push(1, &content(1))]);
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    fs::remove_file(node.file(1)).unwrap();
    node.until_file(1, &content(1)).await;
    cluster.coordinator.until("held again", |heard| heard.holds(&[1])).await;
}

#[tokio::test]
async fn a_file_that_is_written_by_others_is_verified_and_fetched_again() {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[cluster.push(1, &content(1))]);
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    let mut altered = content(1);
    altered[1_234_567] ^= 1;
    fs::write(node.file(1), altered).unwrap();
    node.until_file(1, &content(1)).await;
    cluster.coordinator.until("held again", |heard| heard.holds(&[1])).await;
}

#[tokio::test]
async fn rot_that_leaves_no_trace_is_found_by_the_scrub() {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[cluster.push(1, &content(1))]);
    // Nobody looks at files from outside.
    let presence_check = Duration::from_secs(3600);
    let node = cluster.node_with(Pace { presence_check, scrub: Duration::from_millis(100), ..node::pace() });
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    let mut altered = content(1);
    altered[1_234_567] ^= 1;
    let written = fs::metadata(node.file(1)).unwrap().modified().unwrap();
    let file = fs::OpenOptions::new().write(true).open(node.file(1)).unwrap();
    file.write_all_at(&altered[1_234_567..1_234_568], 1_234_567).unwrap();
    file.set_modified(written).unwrap();
    node.until_file(1, &content(1)).await;
    cluster.coordinator.until("held again", |heard| heard.holds(&[1])).await;
}

#[tokio::test]
async fn the_nodes_own_root_wins_over_the_coordinators() {
    let cluster = Cluster::start();
    cluster.coordinator.want(&[cluster.push(1, &content(1))]);
    let settings = NodeSettings { objects: cluster.coordinator.script().objects, ..cluster.settings() };
    cluster.coordinator.change(|script| script.objects = "ftp://nowhere/".into());
    let _node = node::Node::start(settings, node::pace());
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
}
