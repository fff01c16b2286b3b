//! What is not done in time: tasks of nodes, and failures that are too old to be told.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use std::time::Duration;

use cluster::*;
use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::{
    coordinator::v1::{self as pb, cluster_config_client::ClusterConfigClient},
    error,
};
use pointsman_settings::CoordinatorSettings;

async fn set(coordinator: &Coordinator, key: &str, value: &str) {
    let request = pb::SetConfigRequest { key: key.into(), value: value.into() };
    ClusterConfigClient::new(coordinator.channel.clone()).set_config(request).await.unwrap();
}

async fn fill(cluster: &Cluster, coordinator: &Coordinator) {
    coordinator.create("t").await.unwrap();
    let segments = ["a", "b", "c", "d"].map(|name| cluster.segment("t", name, 3)).to_vec();
    coordinator.push("t", segments).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_does_not_do_in_time_others_do() {
    let cluster = Cluster::new();
    let patient = CoordinatorSettings {
        segment_task_timeout: Duration::from_secs(3600),
        leader_task_timeout: Duration::from_secs(3600),
        ..cluster.settings("c1")
    };
    let coordinator = cluster.start_with(patient).await;
    coordinator.is_active().await;
    let idle = Hello { manner: Manner::Idles, ..Hello::new("n1", "east") };
    let idle = idle.connect(&coordinator).await.unwrap();
    let good = Hello::new("n2", "east").connect(&coordinator).await.unwrap();
    fill(&cluster, &coordinator).await;
    idle.wants(2).await;
    good.wants(2).await;
    set(&coordinator, "coordinator.leader_task_timeout", "300ms").await;
    set(&coordinator, "coordinator.segment_task_timeout", "300ms").await;
    coordinator.loaded("t").await;
    good.wants(4).await;
    idle.wants(0).await;
    // Who is alone is asked again and again, and the failure says what is awaited.
    good.kill().await;
    let told = || async {
        let load = coordinator.show("t").await.ok()?;
        load.groups.first()?.failures.first().cloned()
    };
    let told = until("a failure that is told", told).await;
    let text = told.error.unwrap().message;
    assert_eq!(told.node, "n1");
    assert!(text.contains("300ms (coordinator.segment_task_timeout)"), "{text}");
    coordinator.stop().await.unwrap();
}

async fn shown(coordinator: &Coordinator) -> Result<(), Error> {
    let request = pb::ShowLoadRequest { collection: "t".into(), resource_group: String::new() };
    coordinator.loads().show_load(request).await.map(drop).map_err(|status| error(&status))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_load_that_is_too_old_is_told_once_more_and_then_forgotten() {
    let cluster = Cluster::new();
    let hasty = CoordinatorSettings { load_timeout: Duration::from_millis(700), ..cluster.settings("c1") };
    let coordinator = cluster.start_with(hasty).await;
    coordinator.is_active().await;
    let idle = Hello { manner: Manner::Idles, ..Hello::new("n1", "east") };
    let _idle = idle.connect(&coordinator).await.unwrap();
    fill(&cluster, &coordinator).await;
    let failed = until("the end", || async { shown(&coordinator).await.err() }).await;
    assert_eq!(failed.code(), ErrorCode::CollectionNotLoaded);
    assert!(failed.message().contains("no progress for"), "{failed}");
    assert_eq!(shown(&coordinator).await.unwrap_err().message(), failed.message(), "a day has not passed");
    set(&coordinator, "coordinator.failed_load_ttl", "1ms").await;
    assert_eq!(shown(&coordinator).await.unwrap_err().message(), failed.message(), "once more");
    let plain = shown(&coordinator).await.unwrap_err();
    assert_eq!(plain.code(), ErrorCode::CollectionNotLoaded);
    assert!(!plain.message().contains("no progress for"), "{plain}");
    let stored =
        || async { cluster.metastore().await.failed_loads().await.unwrap().is_empty().then_some(()) };
    until("that it is forgotten for good", stored).await;
    coordinator.stop().await.unwrap();
}
