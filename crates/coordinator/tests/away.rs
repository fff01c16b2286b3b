//! The metastore goes away and comes back.

#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;
mod faulty;

use std::sync::Arc;

use cluster::*;
use faulty::{Fault, Faulty};
use pointsman_ids::ErrorCode;
use pointsman_proto::{coordinator::v1 as pb, error};

/// A coordinator over a metastore with a switch.
async fn start(cluster: &Cluster) -> (Coordinator, Faulty) {
    let faulty = Faulty::new(cluster.metastore().await);
    let coordinator = cluster.start_over(cluster.settings("c1"), Arc::new(faulty.clone())).await;
    coordinator.is_active().await;
    (coordinator, faulty)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_it_sessions_and_feed_go_on_and_changes_are_refused_to_be_tried_again() {
    let cluster = Cluster::new();
    let (coordinator, faulty) = start(&cluster).await;
    let mut nodes = Vec::new();
    for name in ["n1", "n2"] {
        nodes.push(Hello::new(name, "east").connect(&coordinator).await.unwrap());
    }
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 1), cluster.segment("t", "b", 1)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    let epoch = coordinator.describe().await.unwrap().epoch;
    let readiness = async || {
        let request = pb::GetReadinessRequest { collection: "t".into(), ..Default::default() };
        let verdict = coordinator.loads().get_readiness(request).await.unwrap().into_inner();
        (verdict.ready, verdict.reason)
    };
    until("readiness", async || readiness().await.0.then_some(())).await;
    faulty.set(Fault::Away);
    // From memory, while the lease lasts.
    assert!(readiness().await.0);

    for name in ["u", "v"] {
        let refused = coordinator.create(name).await.unwrap_err();
        assert_eq!((refused.code(), refused.is_retriable()), (ErrorCode::ServiceNotReady, true), "{refused}");
    }
    // Well beyond the lease: a lost node's segments still go elsewhere, and brokers are still told.
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    nodes.remove(0).kill().await;
    watch
        .until(|s| servers(s, "t", "a") == ["n2".into()].into() && servers(s, "t", "b").contains("n2"))
        .await;
    let run_out = || async {
        let refused = coordinator.create("u").await.unwrap_err();
        refused.message().contains("the lease has run out").then_some(())
    };
    until("the lease to run out", run_out).await;
    // Another coordinator may be active by now, and may know better.
    assert_eq!(readiness().await, (false, "coordinator_not_ready".to_owned()));
    assert!(coordinator.show("t").await.is_ok(), "people may look all the same");
    // It may have let another node stop.
    let may_stop = pb::CanStopRequest { node: "n2".into(), ..Default::default() };
    let refused = coordinator.cluster().can_stop(may_stop).await.unwrap_err();
    assert!(refused.message().contains("another one may be active"), "{refused}");
    let drain = pb::GetDrainRequest { node: "n2".into() };
    let refused = coordinator.cluster().get_drain(drain).await.unwrap_err();
    assert!(refused.message().contains("another one may be active"), "{refused}");
    // A process that is known may come back; a new one has to wait.
    let back = Hello::new("n1", "east").connect(&coordinator).await;
    assert!(back.is_ok(), "{:?}", back.err());
    let new = Hello { incarnation: 2, ..Hello::new("n1", "east") }.connect(&coordinator).await.err().unwrap();
    assert!(new.is_retriable(), "{new}");

    faulty.set(Fault::None);
    until("changes again", || async { coordinator.create("u").await.ok() }).await;
    assert_eq!(coordinator.describe().await.unwrap().epoch, epoch, "nobody else was active in between");
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_outcome_is_unknown_is_read_back() {
    let cluster = Cluster::new();
    let (coordinator, faulty) = start(&cluster).await;
    faulty.set(Fault::Cut);
    assert!(coordinator.create("t").await.unwrap_err().is_retriable());
    faulty.set(Fault::None);
    // It was done: the same again finds it, with the number that the metastore gave it.
    let again = || async { coordinator.create("t").await.ok() };
    assert!(!until("an answer", again).await);
    assert_eq!(cluster.metastore().await.collections().await.unwrap().len(), 1);
    coordinator.push("t", vec![cluster.segment("t", "a", 1)]).await.unwrap();
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_hear_of_a_switch_whose_write_had_an_unknown_outcome_once_it_is_read_back() {
    let cluster = Cluster::new();
    let (coordinator, faulty) = start(&cluster).await;
    let _node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    watch.until(|feed| feed.nodes.len() == 1).await;
    let disable = async || {
        let request = pb::SetNodeEnabledRequest { nodes: vec!["n1".into()], enabled: false };
        coordinator.cluster().set_node_enabled(request).await.map(|answer| answer.into_inner().changed)
    };
    faulty.set(Fault::Cut);
    assert!(error(&disable().await.unwrap_err()).is_retriable());
    faulty.set(Fault::None);
    assert!(until("an answer", async || disable().await.ok()).await.is_empty(), "it was done");
    watch.until(|feed| feed.nodes.iter().all(|node| !node.enabled)).await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_start_it_is_waited_for() {
    let cluster = Cluster::new();
    let faulty = Faulty::new(cluster.metastore().await);
    faulty.set(Fault::Away);
    let coordinator = cluster.start_over(cluster.settings("c1"), Arc::new(faulty.clone())).await;
    let waiting = until("an answer", || coordinator.describe()).await;
    assert!(!waiting.active);
    faulty.set(Fault::None);
    coordinator.is_active().await;
    coordinator.stop().await.unwrap();
}

/// Only the active coordinator has lost the metastore: the other one takes over, and everybody finds it.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_cut_off_alone_sends_nodes_and_brokers_to_look_around() {
    let cluster = Cluster::new();
    let (first, faulty) = start(&cluster).await;
    let second = cluster.start("c2").await;
    let node = Hello::new("n1", "east").connect(&first).await.unwrap();
    let mut watch = first.watch("b1", 0).await.unwrap();
    watch.until(|feed| feed.nodes.len() == 1).await;
    faulty.set(Fault::Away);
    second.is_active().await;
    assert_eq!(node.ended().await.map(|error| error.code()), Some(ErrorCode::ServiceNotReady));
    let ended = async {
        loop {
            if let Err(error) = watch.next().await {
                return error;
            }
        }
    };
    assert_eq!(ended.await.code(), ErrorCode::ServiceNotReady);
    // Without another coordinator they would come back.
    let back = Hello::new("n1", "east").connect(&first).await.unwrap();
    // They find the other one.
    let epoch = second.describe().await.unwrap().epoch;
    let found = Hello { epoch_seen: back.welcome.epoch, ..Hello::new("n1", "east") };
    let found = found.connect(&second).await.unwrap();
    assert_eq!(found.welcome.epoch, epoch);
    // Whoever was there tells the first one, which is not active any more.
    let told = Hello { epoch_seen: epoch, ..Hello::new("n2", "east") }.connect(&first).await;
    assert_eq!(told.err().map(|error| error.code()), Some(ErrorCode::ServiceNotReady));
    until("the first one to stand by", || async { first.describe().await.filter(|about| !about.active) })
        .await;
    faulty.set(Fault::None);
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}
