//! The life of loads: partitions, other replicas, ends, restarts.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;
mod faulty;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use cluster::*;
use faulty::{Fault, Faulty};
use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::{coordinator::v1 as pb, error};
use pointsman_settings::CoordinatorSettings;

/// A segment of a partition.
fn segment(cluster: &Cluster, name: &str, partition: &str) -> pb::Segment {
    pb::Segment { partition: partition.into(), ..cluster.segment("t", name, 3) }
}

/// Collection `t` with a segment in each of two partitions.
async fn create(cluster: &Cluster, coordinator: &Coordinator) {
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![segment(cluster, "a", "p1"), segment(cluster, "b", "p2")]).await.unwrap();
}

async fn load_partitions(coordinator: &Coordinator, names: &[&str]) -> Result<bool, Error> {
    let partitions = names.iter().map(|name| (*name).to_owned()).collect();
    let resource_groups = vec!["east".to_owned()];
    let collection = "t".to_owned();
    let request = pb::LoadPartitionsRequest { collection, partitions, resource_groups, ..Default::default() };
    let answer = coordinator.loads().load_partitions(request).await;
    answer.map(|answer| answer.into_inner().registered).map_err(|status| error(&status))
}

async fn release_partitions(coordinator: &Coordinator, names: &[&str]) -> Result<Vec<String>, Error> {
    let partitions = names.iter().map(|name| (*name).to_owned()).collect();
    let request = pb::ReleasePartitionsRequest { collection: "t".into(), partitions };
    let answer = coordinator.loads().release_partitions(request).await;
    answer.map(|answer| answer.into_inner().waits_for).map_err(|status| error(&status))
}

async fn update(
    coordinator: &Coordinator,
    per_group: &[(&str, u32)],
    wait_for_groups: bool,
) -> Result<pb::UpdateLoadConfigResponse, Error> {
    let numbers = per_group.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
    let request = pb::UpdateLoadConfigRequest {
        collections: vec!["t".into()],
        replicas_per_group: numbers,
        wait_for_groups,
        ..Default::default()
    };
    let answer = coordinator.loads().update_load_config(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| error(&status))
}

fn partitions(load: &pb::CollectionLoad) -> Vec<(&str, u32)> {
    load.partitions.iter().map(|partition| (partition.partition.as_str(), partition.percent)).collect()
}

/// Replicas in each group.
fn groups(load: &pb::CollectionLoad) -> BTreeMap<&str, u32> {
    load.groups.iter().map(|group| (group.resource_group.as_str(), group.replicas)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_loaded_added_and_released() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    create(&cluster, &coordinator).await;
    let unknown = load_partitions(&coordinator, &["p1", "p9"]).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::PartitionNotFound);
    assert!(load_partitions(&coordinator, &["p1"]).await.unwrap());
    assert!(!load_partitions(&coordinator, &["p1"]).await.unwrap());
    assert_eq!(partitions(&coordinator.loaded("t").await), [("p1", 100)]);
    node.wants(1).await;
    // What is pushed into another partition does not matter to this load.
    coordinator.push("t", vec![segment(&cluster, "c", "p3")]).await.unwrap();

    assert!(load_partitions(&coordinator, &["p2"]).await.unwrap());
    assert_eq!(partitions(&coordinator.loaded("t").await), [("p1", 100), ("p2", 100)]);
    node.wants(2).await;
    assert_eq!(release_partitions(&coordinator, &[]).await.unwrap_err().code(), ErrorCode::ParameterInvalid);
    assert!(release_partitions(&coordinator, &["p9"]).await.unwrap().is_empty());
    assert!(release_partitions(&coordinator, &["p1"]).await.unwrap().is_empty(), "the node has dropped it");
    assert_eq!(node.wanted().len(), 1);
    assert_eq!(partitions(&coordinator.show("t").await.unwrap()), [("p2", 100)]);
    release_partitions(&coordinator, &["p2"]).await.unwrap();
    assert_eq!(coordinator.show("t").await.unwrap_err().code(), ErrorCode::CollectionNotLoaded);
    assert!(node.wanted().is_empty());
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_pushed_later_joins_a_whole_collection() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    create(&cluster, &coordinator).await;
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    coordinator.push("t", vec![segment(&cluster, "c", "p3")]).await.unwrap();
    node.wants(3).await;
    let shown = coordinator.show("t").await.unwrap();
    assert_eq!(partitions(&shown), [("p1", 100), ("p2", 100), ("p3", 100)]);
    assert!(shown.loaded);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_added_while_reads_go_on_and_become_visible_when_they_can_serve() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let _east = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let idle = Hello { manner: Manner::Idles, ..Hello::new("n2", "west") };
    let idle = idle.connect(&coordinator).await.unwrap();
    create(&cluster, &coordinator).await;
    let refused = update(&coordinator, &[("east", 1)], false).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CollectionNotLoaded);
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    assert!(update(&coordinator, &[("east", 1)], false).await.unwrap().changed.is_empty());

    assert_eq!(update(&coordinator, &[("east", 1), ("west", 1)], true).await.unwrap().changed, ["t"]);
    idle.wants(2).await;
    let shown = coordinator.show("t").await.unwrap();
    assert_eq!((shown.loaded, shown.percent, groups(&shown)), (true, 100, [("east", 1), ("west", 1)].into()));
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let seen = watch.next().await.unwrap();
    assert_eq!(seen.collection("t").unwrap().replicas.len(), 1, "queries do not see it yet");
    idle.kill().await;
    let _west = Hello { incarnation: 2, ..Hello::new("n2", "west") }.connect(&coordinator).await.unwrap();
    watch.until(|s| s.collection("t").unwrap().replicas.len() == 2).await;

    update(&coordinator, &[("west", 1)], false).await.unwrap();
    watch.until(|s| servers(s, "t", "a") == ["n2".to_owned()].into()).await;
    assert_eq!(groups(&coordinator.show("t").await.unwrap()), [("west", 1)].into());
    coordinator.stop().await.unwrap();
}

async fn show_partitions(
    coordinator: &Coordinator,
    names: &[&str],
) -> Result<Vec<(String, u32, bool)>, Error> {
    let partitions = names.iter().map(|name| (*name).to_owned()).collect();
    let request = pb::ShowPartitionsRequest { collection: "t".into(), partitions };
    let answer = coordinator.loads().show_partitions(request).await.map_err(|status| error(&status))?;
    let shown = answer.into_inner().partitions.into_iter();
    Ok(shown.map(|partition| (partition.partition, partition.percent, partition.loaded)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_shown_in_the_order_of_the_question_and_refused_by_name() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let unknown = show_partitions(&coordinator, &[]).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::CollectionNotFound);
    let _node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    create(&cluster, &coordinator).await;
    let none = show_partitions(&coordinator, &[]).await.unwrap_err();
    assert_eq!(none.code(), ErrorCode::PartitionNotLoaded, "{none}");
    load_partitions(&coordinator, &["p1"]).await.unwrap();
    coordinator.loaded("t").await;
    assert_eq!(show_partitions(&coordinator, &[]).await.unwrap(), [("p1".to_owned(), 100, true)]);
    for (name, code) in [("p2", ErrorCode::PartitionNotLoaded), ("p9", ErrorCode::PartitionNotFound)] {
        let refused = show_partitions(&coordinator, &["p1", name]).await.unwrap_err();
        assert!(refused.code() == code && refused.message().contains(name), "{refused}");
    }
    load_partitions(&coordinator, &["p2"]).await.unwrap();
    coordinator.loaded("t").await;
    let shown = show_partitions(&coordinator, &["p2", "p1"]).await.unwrap();
    assert_eq!(shown, [("p2".to_owned(), 100, true), ("p1".to_owned(), 100, true)]);
    coordinator.stop().await.unwrap();
}

/// Settings with which loads end soon.
fn hasty(cluster: &Cluster) -> CoordinatorSettings {
    CoordinatorSettings { load_timeout: Duration::from_millis(1500), ..cluster.settings("c1") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_cannot_load_is_given_up_and_takes_nothing_from_the_others() {
    let cluster = Cluster::new();
    let coordinator = cluster.start_with(hasty(&cluster)).await;
    coordinator.is_active().await;
    let _east = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let bad = Hello { manner: Manner::Idles, ..Hello::new("n2", "west") };
    let _west = bad.connect(&coordinator).await.unwrap();
    create(&cluster, &coordinator).await;
    coordinator.load("t", &["east", "west"]).await.unwrap();
    let shown = coordinator.loaded("t").await;
    assert_eq!((shown.percent, groups(&shown)), (100, [("east", 1)].into()));
    let dropped = &shown.dropped_groups[0];
    assert_eq!(dropped.resource_group, "west");
    assert!(dropped.why.contains("no progress for") && dropped.why.contains("'n2'"), "{}", dropped.why);
    // It is known until the collection is loaded there again.
    update(&coordinator, &[("east", 1), ("west", 1)], false).await.unwrap();
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_ends_says_why_also_after_a_restart_until_it_is_loaded_anew() {
    let cluster = Cluster::new();
    let coordinator = cluster.start_with(hasty(&cluster)).await;
    coordinator.is_active().await;
    let bad = Hello { manner: Manner::Idles, ..Hello::new("n1", "east") };
    let bad = bad.connect(&coordinator).await.unwrap();
    create(&cluster, &coordinator).await;
    coordinator.load("t", &["east"]).await.unwrap();
    let ended = |coordinator: &Coordinator| {
        let loads = coordinator.loads();
        async move {
            let request = pb::ShowLoadRequest { collection: "t".into(), resource_group: String::new() };
            loads.clone().show_load(request).await.err().map(|status| error(&status))
        }
    };
    let why = until("the end", || ended(&coordinator)).await;
    let why = if why.message().contains("its load failed") { why } else { panic!("{why}") };
    for part in ["no progress for", "'east'", "'n1'"] {
        assert!(why.message().contains(part), "{part}: {why}");
    }
    assert_eq!((why.code(), why.is_retriable()), (ErrorCode::CollectionNotLoaded, false));
    let partition = show_partitions(&coordinator, &["p1"]).await.unwrap_err();
    assert_eq!((partition.code(), partition.is_retriable()), (ErrorCode::PartitionNotLoaded, false));
    assert!(partition.message().contains("no progress for"), "{partition}");
    coordinator.stop().await.unwrap();
    bad.kill().await;

    let coordinator = cluster.active().await;
    let again = ended(&coordinator).await.unwrap();
    assert_eq!(again.message(), why.message());
    let _good = Hello { incarnation: 2, ..Hello::new("n1", "east") }.connect(&coordinator).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    coordinator.release("t").await;
    let plain = ended(&coordinator).await.unwrap();
    assert!(!plain.message().contains("failed"), "{plain}");
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_does_not_finish_outlives_so_many_coordinators_and_no_more() {
    let cluster = Cluster::new();
    let mut settings = cluster.settings("c1");
    settings.load_recover_limit = 1;
    let start = || async {
        let coordinator = cluster.start_with(settings.clone()).await;
        coordinator.is_active().await;
        coordinator
    };
    let coordinator = start().await;
    let _node =
        Hello { manner: Manner::Idles, ..Hello::new("n1", "east") }.connect(&coordinator).await.unwrap();
    create(&cluster, &coordinator).await;
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.stop().await.unwrap();
    let recoveries = || async {
        let loads = cluster.metastore().await.loads().await.unwrap();
        loads.first().map(|load| load.recoveries)
    };
    let coordinator = start().await;
    until("it to be taken up", || async { (recoveries().await == Some(1)).then_some(()) }).await;
    coordinator.stop().await.unwrap();
    let coordinator = start().await;
    until("its end", || async { recoveries().await.is_none().then_some(()) }).await;
    let why = coordinator.show("t").await.unwrap_err();
    assert!(why.message().contains("coordinators started 2 times while it was loading"), "{why}");
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_of_replicas_hold_for_loads_whose_number_nobody_chose() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let mut nodes = Vec::new();
    for (name, group) in [("n1", "east"), ("n2", "west")] {
        nodes.push(Hello::new(name, group).connect(&coordinator).await.unwrap());
    }
    create(&cluster, &coordinator).await;
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    for (key, value) in [("default_replica_number", "2"), ("default_resource_groups", "[east, west]")] {
        let request = pb::SetConfigRequest { key: format!("coordinator.{key}"), value: value.into() };
        let config = pb::cluster_config_client::ClusterConfigClient::new(coordinator.channel.clone());
        config.clone().set_config(request).await.unwrap();
    }
    let spread = || async {
        let shown = coordinator.show("t").await.unwrap();
        (groups(&shown) == [("east", 1), ("west", 1)].into()).then_some(())
    };
    until("two replicas", spread).await;
    coordinator.stop().await.unwrap();
}

/// Stops the metastore for good after each number of writes in turn, and looks at what a new coordinator finds.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_write_a_coordinator_dies_after_the_next_one_finds_a_lawful_state() {
    for fault in [Fault::Away, Fault::Cut] {
        for writes in 0..8 {
            let cluster = Cluster::new();
            let faulty = Faulty::new(cluster.metastore().await);
            let coordinator = cluster.start_over(cluster.settings("c1"), Arc::new(faulty.clone())).await;
            coordinator.is_active().await;
            let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
            create(&cluster, &coordinator).await;
            faulty.fail_after(writes, fault);
            // It may be refused, or cut off later.
            let _refused = coordinator.load("t", &["east"]).await;
            let used_up = || async {
                (faulty.is_used_up() || coordinator.show("t").await.is_ok_and(|load| load.loaded))
                    .then_some(())
            };
            until("the fault", used_up).await;
            node.kill().await;
            coordinator.kill().await;
            cluster.end_lease().await;

            let metastore = cluster.metastore().await;
            let (loads, replicas) = (metastore.loads().await.unwrap(), metastore.replicas().await.unwrap());
            let targets = metastore.current_targets().await.unwrap();
            assert_eq!(
                loads.len(),
                replicas.len(),
                "{fault:?} after {writes}: all of a load is there, or nothing"
            );
            assert!(targets.len() <= loads.len(), "{fault:?} after {writes}");
            for load in &loads {
                let loaded = load.status == pointsman_query_coord::LoadStatus::Loaded;
                assert_eq!(
                    loaded,
                    load.percent == 100,
                    "{fault:?} after {writes}: they are written together"
                );
                assert!(!loaded || targets.len() == 1, "{fault:?} after {writes}: it was promoted before");
            }
            // The next one goes on from there.
            let coordinator = cluster.active().await;
            let _node =
                Hello { incarnation: 2, ..Hello::new("n1", "east") }.connect(&coordinator).await.unwrap();
            coordinator.load("t", &["east"]).await.unwrap();
            coordinator.loaded("t").await;
            coordinator.stop().await.unwrap();
        }
    }
}
