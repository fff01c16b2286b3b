//! Indexes over vectors: built before a segment is held, kept beside it, and never in the way of an answer.

use std::{fs, io::ErrorKind, path::PathBuf, time::Duration};

use pointsman_ids::ErrorCode;
use pointsman_proto::node::v1 as pb;
use serde_json::Value;
use tokio::task::AbortHandle;

use crate::{
    cluster::Cluster,
    coordinator::{DEADLINE, Heard},
    node::Node,
    vectors::{OWN, ask, indexed, keys, lead, nearest, request, until_serviceable, vectors},
};

/// Index files in a node's folder.
fn files(cluster: &Cluster) -> Vec<PathBuf> {
    let all = fs::read_dir(cluster.data_dir().join("segments")).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|ending| ending == "index")).collect()
}

/// Makes a file one that takes no byte, whenever it is gone.
fn fill(file: PathBuf) -> AbortHandle {
    let filling = async move {
        loop {
            if let Err(error) = std::os::unix::fs::symlink("/dev/full", &file) {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::spawn(filling).abort_handle()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, waiting).await.is_ok(), "{what}");
}

fn state(page: &Value) -> Option<&str> {
    page[0]["indexes"][0]["state"].as_str()
}

/// How many segments an index answered for.
async fn searched_by_index(node: &Node) -> u64 {
    let answer = ask(&node.grpc, request(nearest(150.0, 3))).await.unwrap();
    assert_eq!(keys(&answer.rows), [150, 149, 151], "with or without an index");
    answer.looked.unwrap().indexed_segments
}

async fn led(cluster: &Cluster, segment: &pb::DesiredSegment) -> Node {
    cluster.coordinator.want(std::slice::from_ref(segment));
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
    cluster.coordinator.change(|script| script.leads = lead(40, &[(1, OWN)], "http://127.0.0.1:1"));
    until_serviceable(cluster, 40).await;
    node
}

#[tokio::test]
async fn an_index_is_built_before_its_segment_is_held_and_goes_with_it() {
    let cluster = Cluster::start();
    let segment = indexed(&vectors(&cluster, 1), "v");
    let node = led(&cluster, &segment).await;
    assert_eq!(files(&cluster).len(), 1, "it is there when the segment is held");
    assert_eq!(searched_by_index(&node).await, 1);
    let (_, page) = node.page("/debug/segments").await;
    assert_eq!((state(&page), page[0]["state"].as_str()), (Some("ready"), Some("held")));
    let bytes = fs::metadata(&files(&cluster)[0]).unwrap().len();
    assert_eq!(page[0]["indexes"][0]["bytes"], bytes);
    cluster.coordinator.want(&[]);
    cluster.coordinator.until("dropped", |heard| heard.segments.is_empty()).await;
    node.until_gone(1).await;
    until("the index goes with its segment", || files(&cluster).is_empty()).await;
}

#[tokio::test]
async fn another_wish_for_indexes_is_met_in_service() {
    let cluster = Cluster::start();
    let plain = vectors(&cluster, 1);
    let node = led(&cluster, &plain).await;
    assert_eq!(searched_by_index(&node).await, 0);
    cluster.coordinator.want(&[indexed(&plain, "v")]);
    node.until_page("/debug/segments", |_, page| state(page) == Some("ready")).await;
    assert_eq!(searched_by_index(&node).await, 1);
    cluster.coordinator.want(&[plain]);
    until("it is removed", || files(&cluster).is_empty()).await;
    assert_eq!(searched_by_index(&node).await, 0);
    let lost =
        |report: &pb::Report| report.segments.iter().any(|segment| segment.state() != pb::SegmentState::Held);
    let reports = cluster.coordinator.heard().reports;
    let held = reports
        .iter()
        .position(|report| report.segments.iter().any(|it| it.state() == pb::SegmentState::Held));
    assert!(!reports[held.unwrap() + 1..].iter().any(lost), "it was held all the time");
}

#[tokio::test]
async fn a_column_that_cannot_be_indexed_fails_its_segment_with_the_cause() {
    let cluster = Cluster::start();
    let segment = vectors(&cluster, 1);
    cluster.coordinator.want(&[indexed(&segment, "w"), indexed(&vectors(&cluster, 2), "id")]);
    let _node = cluster.node();
    let failed = |heard: &Heard| {
        heard.failure(1).is_some_and(|(_, _, tries)| tries >= 2) && heard.failure(2).is_some()
    };
    let heard = cluster.coordinator.until("failed", failed).await;
    for (id, column) in [(1, "'w'"), (2, "'id'")] {
        let (code, message, _) = heard.failure(id).unwrap();
        assert_eq!(code, ErrorCode::ParameterInvalid.number(), "{message}");
        assert!(message.contains(column) && message.contains(&format!("part-{id}' ({id})")), "{message}");
    }
    assert!(files(&cluster).is_empty());
    cluster.coordinator.want(&[indexed(&segment, "v")]);
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
}

#[tokio::test]
async fn a_restart_keeps_what_is_good_and_builds_what_is_not() {
    let cluster = Cluster::start();
    let segment = indexed(&vectors(&cluster, 1), "v");
    let node = led(&cluster, &segment).await;
    let (file, folder) = (files(&cluster).remove(0), cluster.data_dir().join("segments"));
    let content = fs::read(&file).unwrap();
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    node.kill().await;
    // What an interrupted build leaves, and the index of a segment that nobody has.
    let (left, orphan) = (
        file.with_extension("tmp"),
        folder.join(file.file_name().unwrap().to_str().unwrap().replacen('1', "9", 1)),
    );
    fs::write(&left, "x").unwrap();
    fs::write(&orphan, "x").unwrap();
    let again = |sessions: usize| {
        move |heard: &Heard| {
            heard.reports.iter().filter(|report| report.full).count() == sessions && heard.holds(&[1])
        }
    };

    let node = cluster.node();
    cluster.coordinator.until("held again", again(2)).await;
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written, "it was not built again");
    until("what belongs to nothing goes", || !left.exists() && !orphan.exists()).await;
    node.kill().await;

    let mut damaged = content.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&file, damaged).unwrap();
    let node = cluster.node();
    cluster.coordinator.until("held again", again(3)).await;
    assert_eq!(fs::read(&file).unwrap(), content, "built again, the same");
    node.kill().await;

    fs::remove_file(&file).unwrap();
    let node = cluster.node();
    cluster.coordinator.until("held again", again(4)).await;
    assert_eq!(fs::read(&file).unwrap(), content);
    until_serviceable(&cluster, 40).await;
    assert_eq!(searched_by_index(&node).await, 1);
}

#[tokio::test]
async fn an_index_that_is_removed_behind_its_back_is_built_again_in_service() {
    let cluster = Cluster::start();
    let segment = indexed(&vectors(&cluster, 1), "v");
    let node = led(&cluster, &segment).await;
    let file = files(&cluster).remove(0);
    fs::remove_file(&file).unwrap();
    assert!(searched_by_index(&node).await <= 1, "it answers meanwhile");
    until("built again", || file.exists()).await;
    node.until_page("/debug/segments", |_, page| state(page) == Some("ready")).await;
    assert_eq!(searched_by_index(&node).await, 1);
}

#[tokio::test]
async fn a_full_disk_is_told_as_such_and_heals() {
    let cluster = Cluster::start();
    let plain = vectors(&cluster, 1);
    let node = led(&cluster, &indexed(&plain, "v")).await;
    let temporary = files(&cluster).remove(0).with_extension("tmp");
    cluster.coordinator.want(std::slice::from_ref(&plain));
    until("the index goes", || files(&cluster).is_empty()).await;
    node.kill().await;
    fs::remove_file(cluster.data_dir().join("segments/1.parquet")).unwrap();
    cluster.coordinator.want(&[]);
    let version = cluster.coordinator.script().desired.version;
    let _node = cluster.node();
    // What it began to fetch before it was told otherwise is swept away as well.
    let is_told = |report: &pb::Report| report.desired_version == version;
    let is_empty = |heard: &Heard| heard.reports.last().is_some_and(is_told) && heard.segments.is_empty();
    cluster.coordinator.until("nothing", is_empty).await;
    // Everything that is written there fails as on a full disk, in every try until one is reported.
    let is_full = fill(temporary);
    cluster.coordinator.want(&[indexed(&plain, "v")]);
    let heard = cluster.coordinator.until("failed", |heard| heard.failure(1).is_some()).await;
    is_full.abort();
    let (code, message, _) = heard.failure(1).unwrap();
    assert_eq!(code, ErrorCode::SegmentRequestResourceFailed.number(), "{message}");
    assert!(message.contains("'orders/part-1' (1): the index over 'v'"), "{message}");
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
}
