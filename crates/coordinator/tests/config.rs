//! Settings that take effect while the cluster runs, and options of collections that are changed.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use cluster::*;
use pointsman_ids::{
    Epoch, Error, ErrorCode,
    catalog::{RoutingOptions, Sampler, SelectorKind},
};
use pointsman_proto::{
    common::v1::{self as common, Column, Selector},
    coordinator::v1::{self as pb, cluster_config_client::ClusterConfigClient},
    error,
};
use tonic::transport::Channel;

const KEY: &str = "broker.fail_open.enabled";

fn config(coordinator: &Coordinator) -> ClusterConfigClient<Channel> {
    ClusterConfigClient::new(coordinator.channel.clone())
}

async fn get(coordinator: &Coordinator, key: &str) -> Result<Vec<pb::ConfigEntry>, Error> {
    let answer = config(coordinator).get_config(pb::GetConfigRequest { key: key.into() }).await;
    answer.map(|answer| answer.into_inner().entries).map_err(|status| error(&status))
}

async fn set(coordinator: &Coordinator, key: &str, value: &str) -> Result<pb::SetConfigResponse, Error> {
    let request = pb::SetConfigRequest { key: key.into(), value: value.into() };
    config(coordinator).set_config(request).await.map(|a| a.into_inner()).map_err(|status| error(&status))
}

async fn unset(coordinator: &Coordinator, key: &str) -> Result<bool, Error> {
    let answer = config(coordinator).unset_config(pb::UnsetConfigRequest { key: key.into() }).await;
    answer.map(|answer| answer.into_inner().was_set).map_err(|status| error(&status))
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_hear_at_once_of_a_setting_and_of_its_end() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let feed = watch.next().await.unwrap();
    assert!(feed.config.is_empty());
    let changed = set(&coordinator, KEY, "true").await.unwrap();
    assert_eq!(changed, pb::SetConfigResponse { changed: true, warning: String::new() });
    let next = watch.next().await.unwrap();
    assert!(next.version > feed.version);
    assert_eq!(next.config, [(KEY.to_owned(), "true".to_owned())].into());
    assert!(!set(&coordinator, KEY, "true").await.unwrap().changed);

    let odd = set(&coordinator, KEY, "yes").await.unwrap();
    assert!(odd.changed && odd.warning.contains("'yes'"), "{odd:?}");
    assert_eq!(watch.next().await.unwrap().config[KEY], "yes");
    coordinator.stop().await.unwrap();

    let coordinator = cluster.active().await;
    assert_eq!(get(&coordinator, KEY).await.unwrap()[0].value.as_deref(), Some("yes"));
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    assert_eq!(watch.next().await.unwrap().config[KEY], "yes");
    assert_eq!(unset(&coordinator, KEY).await, Ok(true));
    assert_eq!(unset(&coordinator, KEY).await, Ok(false));
    assert!(watch.next().await.unwrap().config.is_empty());
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_nobody_reads_are_refused_unless_somebody_else_has_set_them() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let known = get(&coordinator, "").await.unwrap();
    assert!(known[1..].iter().all(|entry| entry.key.starts_with("coordinator.") && entry.value.is_none()));
    assert!(known[0].key == KEY && known[0].value.is_none() && known[0].meaning.contains("true is on"));
    for refused in [
        set(&coordinator, "broker.fail_open", "true").await.err(),
        unset(&coordinator, "broker.fail_open").await.err(),
        get(&coordinator, "broker.fail_open").await.err(),
    ] {
        let refused = refused.unwrap();
        assert_eq!(refused.code(), ErrorCode::ParameterInvalid);
        let text = refused.message();
        assert!(text.contains("'broker.fail_open'") && text.ends_with(&format!("mean {KEY}?")), "{text}");
    }
    let long = set(&coordinator, KEY, &"x".repeat(5000)).await.unwrap_err();
    assert_eq!(long.code(), ErrorCode::ParameterTooLarge);
    let epoch = Epoch(coordinator.describe().await.unwrap().epoch);
    coordinator.stop().await.unwrap();

    // As a newer program would leave it.
    let metastore = cluster.metastore().await;
    metastore.set_config(epoch, "zone.future", "7").await.unwrap();
    let coordinator = cluster.active().await;
    let all = get(&coordinator, "").await.unwrap();
    let foreign =
        pb::ConfigEntry { key: "zone.future".into(), value: Some("7".into()), meaning: String::new() };
    assert_eq!(all.last(), Some(&foreign), "by name");
    assert_eq!(get(&coordinator, "zone.future").await.unwrap(), [foreign]);
    assert_eq!(unset(&coordinator, "zone.future").await, Ok(true));
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_coordinator_hold_at_once_and_are_read_as_its_file_is() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let create = async |name: &str| {
        let request = pb::CreateResourceGroupRequest { name: name.into(), config: None };
        let answer = coordinator.groups().create_resource_group(request).await;
        answer.map(drop).map_err(|status| error(&status).code())
    };
    let limit = "coordinator.resource_group_limit";
    for (key, wrong) in [(limit, "many"), (limit, "0"), ("coordinator.resource_group_auto_recover", "yes")] {
        let refused = set(&coordinator, key, wrong).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::ParameterInvalid);
        assert!(refused.message().contains(key), "{refused}");
    }
    assert!(set(&coordinator, limit, "3").await.unwrap().changed);
    assert_eq!(create("north").await, Err(ErrorCode::ResourceGroupLimitReached));
    assert_eq!(unset(&coordinator, limit).await, Ok(true));
    assert_eq!(create("north").await, Ok(()));
    let elsewhere = set(&coordinator, "coordinator.metastore", "sqlite:x").await.unwrap_err();
    assert!(elsewhere.message().contains("there is no key 'coordinator.metastore'"), "{elsewhere}");
    coordinator.stop().await.unwrap();
}

async fn create(
    coordinator: &Coordinator,
    name: &str,
    options: pb::CollectionOptions,
) -> Result<pb::CreateCollectionResponse, Error> {
    let columns = vec![Column { name: "x".into(), data_type: "Int64".into(), nullable: false }];
    let request = pb::CreateCollectionRequest { name: name.into(), columns, options: Some(options) };
    let answer = coordinator.catalog().create_collection(request).await;
    answer.map(|answer| answer.into_inner()).map_err(|status| error(&status))
}

async fn alter(
    coordinator: &Coordinator,
    request: pb::AlterCollectionRequest,
) -> Result<pb::AlterCollectionResponse, Error> {
    let answer = coordinator.catalog().alter_collection(request).await;
    answer.map(|answer| answer.into_inner()).map_err(|status| error(&status))
}

fn samplers(samplers: &[(&str, u64)]) -> Vec<common::Sampler> {
    let sampler = |(name, first_n): &(&str, u64)| common::Sampler { name: (*name).into(), first_n: *first_n };
    samplers.iter().map(sampler).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_contradict_each_other_are_refused_at_creation_and_later() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let consistent = common::RoutingOptions { consistent_replicas: true, ..Default::default() };
    let blank = common::RoutingOptions { samplers: samplers(&[(" ", 1)]), ..Default::default() };
    let refused = [
        (pb::CollectionOptions { routing: Some(consistent), ..Default::default() }, "consistent_replicas"),
        (pb::CollectionOptions { routing: Some(blank), ..Default::default() }, "blank name"),
        (
            pb::CollectionOptions { selector: Selector::MultiStageReplicaGroup.into(), ..Default::default() },
            "needs placement partitions",
        ),
        (pb::CollectionOptions { selector: 77, ..Default::default() }, "number 77"),
        (pb::CollectionOptions { clusters: vec!["a b".into()], ..Default::default() }, "'a b'"),
        (pb::CollectionOptions { shards: 5000, ..Default::default() }, "5000 shards"),
    ];
    for (options, text) in refused {
        let refused = create(&coordinator, "t", options).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::ParameterInvalid);
        assert!(refused.message().contains(text), "{refused}");
    }
    coordinator.create("t").await.unwrap();
    let request = pb::AlterCollectionRequest {
        name: "t".into(),
        consistent_replicas: Some(true),
        fail_closed: Some(true),
        ..Default::default()
    };
    assert_eq!(alter(&coordinator, request).await.unwrap_err().code(), ErrorCode::ParameterInvalid);
    let unknown = pb::AlterCollectionRequest { name: "u".into(), ..Default::default() };
    assert_eq!(alter(&coordinator, unknown).await.unwrap_err().code(), ErrorCode::CollectionNotFound);
    let nothing = pb::AlterCollectionRequest { name: "t".into(), ..Default::default() };
    let answer = alter(&coordinator, nothing).await.unwrap();
    assert!(!answer.changed);
    assert!(!answer.collection.unwrap().options.unwrap().routing.unwrap().fail_closed, "nothing has changed");
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_options_reach_brokers_with_a_new_version_of_the_collection_and_survive() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let options = pb::CollectionOptions {
        shards: 2,
        selector: Selector::ReplicaGroup.into(),
        routing: Some(common::RoutingOptions {
            consistent_replicas: true,
            samplers: samplers(&[(" Few", 2)]),
            ..Default::default()
        }),
        clusters: vec!["local".into(), "nowhere".into(), "local".into()],
        query_timeout_ms: Some(1500),
        ..Default::default()
    };
    assert!(create(&coordinator, "t", options.clone()).await.unwrap().created);
    assert!(!create(&coordinator, "t", options).await.unwrap().created, "the same again");
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let created = watch.until(|feed| feed.collection("t").is_some()).await;
    let entry = created.collection("t").unwrap();
    let expected = RoutingOptions {
        selector: SelectorKind::ReplicaGroup,
        consistent_replicas: true,
        samplers: vec![Sampler { name: "few".into(), first_n: 2 }],
        ..RoutingOptions::default()
    };
    assert_eq!(entry.routing, expected);
    assert_eq!(entry.clusters, ["local".parse().unwrap(), "nowhere".parse().unwrap()]);

    let change = pb::AlterCollectionRequest {
        name: "t".into(),
        fail_closed: Some(true),
        samplers: Some(pb::Samplers::default()),
        ..Default::default()
    };
    assert!(alter(&coordinator, change.clone()).await.unwrap().changed);
    assert!(!alter(&coordinator, change).await.unwrap().changed);
    let altered = watch.next().await.unwrap();
    let expected = RoutingOptions { fail_closed: true, samplers: vec![], ..expected };
    assert_eq!(altered.collection("t").unwrap().routing, expected);
    assert!(altered.collection("t").unwrap().version > entry.version);
    coordinator.stop().await.unwrap();

    let coordinator = cluster.active().await;
    let mut watch = coordinator.watch("b1", 0).await.unwrap();
    let again = watch.until(|feed| feed.collection("t").is_some()).await;
    assert_eq!(again.collection("t").unwrap().routing, expected);
    coordinator.stop().await.unwrap();
}

/// What `readiness.md` names in its table, but for `catalog_timeout`: the catalog is in memory.
#[tokio::test(flavor = "multi_thread")]
async fn every_setting_of_loads_takes_effect_while_the_cluster_runs() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let known: Vec<String> =
        get(&coordinator, "").await.unwrap().into_iter().map(|entry| entry.key).collect();
    for key in [
        "load_timeout",
        "load_recover_limit",
        "progress_interval",
        "target_check_interval",
        "next_target_max_age",
        "promotion_needs_segment_versions",
        "segment_check_interval",
        "leader_check_interval",
        "segment_task_timeout",
        "leader_task_timeout",
        "replica_check_interval",
        "resource_group_check_interval",
        "resource_group_auto_recover",
        "resource_group_limit",
        "resource_group_ready_timeout",
        "visibility_interval",
        "segment_load_tries",
        "active_lease_ttl",
        "active_lease_renew",
        "feed_history",
        "mass_loss_limit",
        "balancer",
        "auto_balance",
        "auto_balance_leaders",
        "balance_interval",
        "balance.global_row_factor",
        "balance.tolerance",
        "balance.reverse_tolerance",
        "balance.leader_overhead",
        "balance.segment_batch",
        "balance.leader_batch",
        "balance.drain_stopping",
        "default_replica_number",
        "default_resource_groups",
        "unqueryable_after",
        "failed_load_ttl",
        "report_interval",
        "node_lease_ttl",
        "broker_lease_ttl",
        "stop_lease_ttl",
        "drain_timeout",
    ] {
        assert!(known.contains(&format!("coordinator.{key}")), "{key}");
    }
    set(&coordinator, "coordinator.report_interval", "123ms").await.unwrap();
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    assert_eq!(node.welcome.report_interval_ms, 123);
    coordinator.stop().await.unwrap();
}
