//! What the coordinator answers about loaded collections, over the wire.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use std::time::Duration;

use cluster::*;
use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::{coordinator::v1 as pb, error};

async fn percentage(coordinator: &Coordinator, collection: &str, group: &str) -> Result<i32, Error> {
    let (collection, resource_group) = (collection.to_owned(), group.to_owned());
    let request = pb::GetLoadPercentageRequest { collection, resource_group, ..Default::default() };
    let answer = coordinator.loads().get_load_percentage(request).await.map_err(|status| error(&status))?;
    Ok(answer.into_inner().percentage)
}

async fn readiness(
    coordinator: &Coordinator,
    collection: &str,
    group: &str,
) -> Result<pb::GetReadinessResponse, Error> {
    let (collection, resource_group) = (collection.to_owned(), group.to_owned());
    let request = pb::GetReadinessRequest { collection, resource_group, ..Default::default() };
    let answer = coordinator.loads().get_readiness(request).await.map_err(|status| error(&status))?;
    Ok(answer.into_inner())
}

async fn ready(coordinator: &Coordinator, collection: &str, group: &str) {
    let is_ready =
        || async { readiness(coordinator, collection, group).await.ok().filter(|answer| answer.ready) };
    until("a ready group", is_ready).await;
}

async fn leaders(
    coordinator: &Coordinator,
    collection_id: u64,
    with_unserviceable: bool,
) -> Result<Vec<pb::ShardLeaders>, Error> {
    let request = pb::GetShardLeadersRequest { collection_id, with_unserviceable };
    let answer = coordinator.loads().get_shard_leaders(request).await.map_err(|status| error(&status))?;
    Ok(answer.into_inner().shards)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_group_answers_for_itself() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let _east = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    let west =
        Hello { manner: Manner::Idles, ..Hello::new("n2", "west") }.connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3), cluster.segment("t", "b", 4)]).await.unwrap();
    assert_eq!(percentage(&coordinator, "t", "east").await, Ok(-1));
    let verdict = readiness(&coordinator, "t", "east").await.unwrap();
    assert_eq!((verdict.reason.as_str(), verdict.error), ("collection_not_loaded", None));

    coordinator.load("t", &["east", "west"]).await.unwrap();
    ready(&coordinator, "t", "east").await;
    assert_eq!(percentage(&coordinator, "t", "east").await, Ok(100));
    assert_eq!(percentage(&coordinator, "t", "west").await, Ok(0));
    assert_eq!(percentage(&coordinator, "t", "").await, Ok(0));
    assert_eq!(percentage(&coordinator, "t", "default").await, Ok(-1));
    let late = readiness(&coordinator, "t", "west").await.unwrap();
    assert_eq!((late.ready, late.reason.as_str(), late.error), (false, "shards_without_leader", None));
    assert_eq!((late.total_shards as usize, late.behind.len()), (late.unready_shards.len(), 0));
    let cause = &late.unready_shards[0].causes[0];
    assert_eq!((cause.cause.as_str(), cause.resource_group.as_str()), ("no_leader_reported", "west"));

    // Beside the verdicts the load as a whole says the same.
    let shown = coordinator.show("t").await.unwrap();
    let west_shown = &shown.groups[1];
    assert_eq!(
        (west_shown.phase(), west_shown.reason.as_str()),
        (pb::LoadPhase::Loading, late.reason.as_str())
    );
    assert_eq!(west_shown.unready_shards, late.unready_shards);
    assert_eq!(shown.groups[0].phase(), pb::LoadPhase::Serving);

    // Routing by shard: the strict form waits for the whole load, the loose one lists who is there.
    let id = shown.collection_id;
    let refused = leaders(&coordinator, id, false).await.unwrap_err();
    assert_eq!((refused.code(), refused.is_retriable()), (ErrorCode::CollectionNotFullyLoaded, true));
    let listed = leaders(&coordinator, id, true).await.unwrap();
    assert_eq!(listed.len(), late.total_shards as usize);
    assert_eq!(listed[0].node_ids.len(), 1);
    assert_eq!(listed[0].node_addrs, ["http://n1.example:1"]);
    assert_eq!(
        (&listed[0].serviceable[..], &listed[0].resource_groups[..]),
        (&[true][..], &["east".to_owned()][..])
    );
    west.kill().await;
    let _west = Hello { incarnation: 2, ..Hello::new("n2", "west") }.connect(&coordinator).await.unwrap();
    coordinator.loaded("t").await;
    ready(&coordinator, "t", "west").await;
    let listed = leaders(&coordinator, id, false).await.unwrap();
    assert_eq!(listed[0].resource_groups, ["east", "west"]);
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn slips_are_told_apart_and_the_group_comes_first() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let unknown = percentage(&coordinator, "nowhere", "wset").await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::ResourceGroupNotFound);
    assert!(
        unknown.message().contains("'wset'") && unknown.message().contains("default, east, west"),
        "{unknown}"
    );
    let verdict = readiness(&coordinator, "nowhere", "wset").await.unwrap();
    assert_eq!((verdict.ready, verdict.reason.as_str()), (false, "resource_group_not_found"));
    assert_eq!(verdict.error.unwrap().code, ErrorCode::ResourceGroupNotFound.number());

    for answer in [
        percentage(&coordinator, "nowhere", "east").await.map(drop),
        readiness(&coordinator, "nowhere", "east").await.map(drop),
    ] {
        assert_eq!(answer.unwrap_err().code(), ErrorCode::CollectionNotFound);
    }
    // By number anything may be asked about.
    let request = pb::GetLoadPercentageRequest { collection_id: 4711, ..Default::default() };
    assert_eq!(coordinator.loads().get_load_percentage(request).await.unwrap().into_inner().percentage, -1);
    let refused = leaders(&coordinator, 4711, true).await.unwrap_err();
    assert_eq!((refused.code(), refused.is_retriable()), (ErrorCode::CollectionNotLoaded, false));
    assert!(refused.message().contains("4711"), "{refused}");
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_served_recovers_and_says_what_it_awaits() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    coordinator.loaded("t").await;
    ready(&coordinator, "t", "east").await;

    // An operator takes the node out of everything that routes; its data stays.
    let switch = |enabled| pb::SetNodeEnabledRequest { nodes: vec!["n1".into()], enabled };
    coordinator.cluster().set_node_enabled(switch(false)).await.unwrap();
    let verdict = readiness(&coordinator, "t", "east").await.unwrap();
    assert_eq!(verdict.reason, "shards_without_leader");
    assert_eq!(verdict.unready_shards[0].causes[0].cause, "node_unknown");
    assert_eq!(coordinator.show("t").await.unwrap().groups[0].phase(), pb::LoadPhase::Recovering);
    let refused = leaders(&coordinator, coordinator.show("t").await.unwrap().collection_id, false).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.code(), refused.is_retriable()), (ErrorCode::ChannelNotAvailable, false));
    assert!(refused.message().contains("leader n1 is not known"), "{refused}");
    coordinator.cluster().set_node_enabled(switch(true)).await.unwrap();
    ready(&coordinator, "t", "east").await;

    // A coordinator that starts anew knows no views: it says wait, and never stop.
    coordinator.stop().await.unwrap();
    let coordinator = cluster.active().await;
    let verdict = readiness(&coordinator, "t", "east").await.unwrap();
    assert_eq!((verdict.reason.as_str(), verdict.error), ("shards_without_leader", None));
    assert_eq!(percentage(&coordinator, "t", "east").await, Ok(0));
    drop(node);
    let _node = Hello { incarnation: 2, ..Hello::new("n1", "east") }.connect(&coordinator).await.unwrap();
    ready(&coordinator, "t", "east").await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_stands_by_knows_nothing() {
    let cluster = Cluster::new();
    let active = cluster.active().await;
    let other = cluster.start("c2").await;
    until("the other one", || async { other.describe().await }).await;
    assert_eq!(percentage(&other, "t", "east").await.unwrap_err().code(), ErrorCode::ServiceNotReady);
    let verdict = readiness(&other, "t", "east").await.unwrap();
    let error = verdict.error.unwrap();
    assert_eq!((verdict.reason.as_str(), error.retriable), ("coordinator_not_ready", true));
    assert_eq!(error.code, ErrorCode::ServiceNotReady.number());
    assert_eq!(leaders(&other, 1, true).await.unwrap_err().code(), ErrorCode::ServiceNotReady);
    let health = other.loads().check_health(pb::CheckHealthRequest {}).await.unwrap_err();
    assert_eq!(pointsman_proto::error(&health).code(), ErrorCode::ServiceNotReady);
    other.stop().await.unwrap();
    active.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_check_names_what_has_not_been_queryable_for_a_while() {
    let cluster = Cluster::new();
    let settings = cluster.settings("c1");
    let short = Duration::from_millis(300);
    let coordinator = cluster
        .start_with(pointsman_settings::CoordinatorSettings { unqueryable_after: short, ..settings })
        .await;
    coordinator.is_active().await;
    let idle =
        Hello { manner: Manner::Idles, ..Hello::new("n1", "east") }.connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    coordinator.push("t", vec![cluster.segment("t", "a", 3)]).await.unwrap();
    coordinator.load("t", &["east"]).await.unwrap();
    let check = || async {
        let answer = coordinator.loads().check_health(pb::CheckHealthRequest {}).await.unwrap();
        answer.into_inner().collections
    };
    let found = until("a report", || async { Some(check().await).filter(|found| !found.is_empty()) }).await;
    assert_eq!(found[0].collection, "t");
    assert_eq!(found[0].error.as_ref().unwrap().code, ErrorCode::CollectionNotFullyLoaded.number());
    idle.kill().await;
    let _node = Hello { incarnation: 2, ..Hello::new("n1", "east") }.connect(&coordinator).await.unwrap();
    coordinator.loaded("t").await;
    until("health", || async { check().await.is_empty().then_some(()) }).await;
    coordinator.stop().await.unwrap();
}
