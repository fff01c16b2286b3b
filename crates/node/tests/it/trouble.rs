//! Segments that cannot be loaded: reported with their reason, tried again, healed when the reason is gone.

use std::fs;

use pointsman_ids::ErrorCode;
use pointsman_settings::Bytes;

use crate::{
    cluster::{Cluster, checksum, content, segment},
    node::{self, Node},
};

#[tokio::test]
async fn a_missing_object_is_named_and_fetched_when_it_appears() {
    let cluster = Cluster::start();
    let good = cluster.push(1, &content(1));
    cluster.coordinator.want(&[good, segment(2, &content(2))]);
    let _node = cluster.node();
    let heard = cluster
        .coordinator
        .until("failed three times", |heard| heard.failure(2).is_some_and(|(_, _, tries)| tries >= 3))
        .await;
    let (code, message, _) = heard.failure(2).unwrap();
    assert_eq!(code, ErrorCode::SegmentNotFound.number());
    assert!(
        message.contains("'orders/part-2' (2)") && message.contains("orders/part-2.parquet"),
        "{message}"
    );
    assert!(heard.failure(1).is_none());
    cluster.push(2, &content(2));
    cluster.coordinator.until("both held", |heard| heard.holds(&[1, 2])).await;
}

#[tokio::test]
async fn an_object_with_another_checksum_is_never_held() {
    let cluster = Cluster::start();
    let wanted = segment(1, &content(1));
    let mut altered = content(1);
    altered[5] ^= 1;
    cluster.push(1, &altered);
    cluster.coordinator.want(&[wanted]);
    let node = cluster.node();
    let heard = cluster.coordinator.until("failed", |heard| heard.failure(1).is_some()).await;
    let (code, message, _) = heard.failure(1).unwrap();
    assert_eq!(code, ErrorCode::SegmentLoadFailed.number());
    assert!(message.contains(&checksum(&content(1))) && message.contains(&checksum(&altered)), "{message}");
    assert_eq!(fs::read_dir(node.file(1).parent().unwrap()).unwrap().count(), 0);
    cluster.push(1, &content(1));
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
}

#[tokio::test]
async fn a_cut_object_is_never_held() {
    let cluster = Cluster::start();
    let wanted = segment(1, &content(1));
    cluster.push(1, &content(1)[..1000]);
    cluster.coordinator.want(&[wanted]);
    let _node = cluster.node();
    let heard = cluster.coordinator.until("failed", |heard| heard.failure(1).is_some()).await;
    let (code, message, _) = heard.failure(1).unwrap();
    assert_eq!(code, ErrorCode::SegmentLoadFailed.number());
    assert!(message.contains("1000 bytes") && message.contains("3000000"), "{message}");
}

#[tokio::test]
async fn a_checksum_that_makes_no_sense_fails_its_segment_alone() {
    let cluster = Cluster::start();
    let good = cluster.push(1, &content(1));
    let mut bad = cluster.push(2, &content(2));
    bad.checksum = "md5:0".into();
    cluster.coordinator.want(&[good, bad]);
    let _node = cluster.node();
    let heard = cluster.coordinator.until("failed", |heard| heard.failure(2).is_some()).await;
    assert!(heard.failure(2).unwrap().1.contains("md5:0"));
    cluster
        .coordinator
        .until("held", |heard| heard.state(1) == pointsman_proto::node::v1::SegmentState::Held)
        .await;
}

#[tokio::test]
async fn a_segment_that_does_not_fit_names_need_and_have_and_is_fetched_when_there_is_room() {
    let cluster = Cluster::start();
    let large = cluster.push(1, &content(1));
    let small = cluster.push(2, &content(2)[..2_000_000]);
    cluster.coordinator.want(&[large, small.clone()]);
    let settings = pointsman_settings::NodeSettings { cache_limit: Bytes(4_000_000), ..cluster.settings() };
    let node = Node::start(settings, node::pace());
    let heard = cluster.coordinator.until("failed", |heard| heard.failure(2).is_some()).await;
    let (code, message, _) = heard.failure(2).unwrap();
    assert_eq!(code, ErrorCode::SegmentRequestResourceFailed.number());
    for part in
        ["'orders/part-2' (2)", "needs 2000000 bytes", "has 1000000 left of its 4000000", "cache_limit"]
    {
        assert!(message.contains(part), "{message}");
    }
    cluster
        .coordinator
        .until("the large one stays", |heard| heard.state(1) == pointsman_proto::node::v1::SegmentState::Held)
        .await;
    cluster.coordinator.want(&[small]);
    cluster.coordinator.until("room was made", |heard| heard.holds(&[2])).await;
    node.until_gone(1).await;
}

#[tokio::test]
async fn a_full_disk_names_need_and_have_and_heals() {
    let cluster = Cluster::start();
    let wanted = cluster.push(1, &content(1));
    let node = cluster.node();
    cluster.coordinator.until("a session", |heard| !heard.reports.is_empty()).await;
    // Everything that is written there fails as on a full disk.
    std::os::unix::fs::symlink("/dev/full", node.file(1).with_extension("tmp")).unwrap();
    cluster.coordinator.want(&[wanted]);
    let heard = cluster.coordinator.until("failed", |heard| heard.failure(1).is_some()).await;
    let (code, message, _) = heard.failure(1).unwrap();
    assert_eq!(code, ErrorCode::SegmentRequestResourceFailed.number());
    assert!(
        message.contains("'orders/part-1' (1) needs 3000000 bytes") && message.contains("free now"),
        "{message}"
    );
    cluster.coordinator.until("held", |heard| heard.holds(&[1])).await;
}

#[tokio::test]
async fn a_root_that_cannot_be_opened_is_reported_with_the_segment() {
    let cluster = Cluster::start();
    cluster.coordinator.change(|script| script.objects = "ftp://me:s3cret@host/x".into());
    cluster.coordinator.want(&[segment(1, &content(1))]);
    let _node = cluster.node();
    let heard = cluster.coordinator.until("failed", |heard| heard.failure(1).is_some()).await;
    let (_, message, _) = heard.failure(1).unwrap();
    assert!(message.contains("ftp://host/x") && message.contains("node.objects"), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
}
