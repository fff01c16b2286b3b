//! How a broker says that it routes: `Routing.Route`, `/debug/route`, and options that steer it.

use std::sync::Arc;

use pointsman_ids::{Incarnation, catalog::Sampler, feed::CopyState};
use pointsman_proto::{
    broker::v1::{RouteRequest, RouteResponse, routing_client::RoutingClient},
    positions,
};
use pointsman_settings::AdaptiveKind;
use serde_json::{Value, json};
use tonic::Code;

use crate::cluster::{Cluster, change_collection, codes, complete, until};

async fn route(cluster: &Cluster, request: RouteRequest) -> Result<RouteResponse, tonic::Status> {
    let mut client = RoutingClient::connect(cluster.broker.grpc.clone()).await.unwrap();
    client.route(request).await.map(tonic::Response::into_inner)
}

fn whole(request_id: u64) -> RouteRequest {
    RouteRequest { collection: "t".into(), request_id: Some(request_id), ..RouteRequest::default() }
}

/// Node and names of each part.
fn parts(answer: &RouteResponse) -> Vec<(&str, Vec<&str>)> {
    let named = answer.parts.iter().map(|part| (part.node.as_str(), &part.names));
    named.map(|(node, names)| (node, names.iter().map(String::as_str).collect())).collect()
}

#[tokio::test]
async fn the_same_request_gets_the_same_table() {
    let cluster = Cluster::replicated().await;
    let named = RouteRequest { names: true, ..whole(0) };
    let answer = route(&cluster, named.clone()).await.unwrap();
    assert_eq!(parts(&answer), [("local/n0", vec!["s0", "s2"]), ("local/n1", vec!["s1", "s3"])]);
    assert_eq!(route(&cluster, named).await.unwrap(), answer);
    let turned = route(&cluster, RouteRequest { names: true, ..whole(1) }).await.unwrap();
    assert_eq!(parts(&turned), [("local/n0", vec!["s1", "s3"]), ("local/n1", vec!["s0", "s2"])]);
    let part = &answer.parts[0];
    assert_eq!(part.url, format!("{}/", cluster.workers[0].url));
    assert_eq!((part.pool, positions(&part.segments).collect::<Vec<_>>()), (Some(0), vec![0, 2]));
    assert_eq!((answer.feed_version, answer.request_id), (1, 0));
    // Without names and reasons it is as short as can be.
    let short = route(&cluster, whole(0)).await.unwrap();
    assert!(short.parts.iter().all(|part| part.names.is_empty()) && short.reasons.is_empty());
}

#[tokio::test]
async fn options_steer_the_table() {
    let mut cluster = Cluster::replicated().await;
    let sampler = Sampler { name: " Few ".into(), first_n: 1 };
    cluster
        .change(|snapshot| change_collection(snapshot, |entry| entry.routing.samplers = vec![sampler]))
        .await;
    let table = async |request| route(&cluster, request).await.unwrap();
    let sampled = table(RouteRequest { names: true, sampler: "FEW".into(), ..whole(0) }).await;
    assert_eq!(parts(&sampled), [("local/n0", vec!["s0"])]);
    let grouped = table(RouteRequest { resource_group: "g1".into(), ..whole(0) }).await;
    assert_eq!(grouped.parts.iter().map(|part| part.node.as_str()).collect::<Vec<_>>(), ["local/n1"]);
    let fixed = async |id| table(RouteRequest { fixed_replica: Some(true), ..whole(id) }).await.parts;
    assert_eq!(fixed(0).await, fixed(1).await);
    assert_eq!(fixed(0).await.len(), 1);
    let some =
        RouteRequest { segments: vec!["s3".into(), "nothing".into(), "s3".into()], names: true, ..whole(0) };
    let some = table(some).await;
    assert_eq!((parts(&some), some.left_out.unwrap().unknown), (vec![("local/n0", vec!["s3"])], 1));
}

#[tokio::test]
async fn what_makes_no_sense_has_its_code() {
    let cluster = Cluster::replicated().await;
    let error = async |request| {
        let status = route(&cluster, request).await.unwrap_err();
        (status.code(), pointsman_proto::error(&status).code().name())
    };
    let unknown = RouteRequest { collection: "nothing".into(), ..RouteRequest::default() };
    assert_eq!(error(unknown).await.1, "collection_not_loaded");
    let groups = RouteRequest { num_replica_groups: Some(0), ..whole(0) };
    assert_eq!(error(groups).await, (Code::InvalidArgument, "parameter_invalid"));
    let group = RouteRequest { resource_group: "nothing".into(), ..whole(0) };
    assert_eq!(error(group).await.1, "resource_group_not_found");
}

#[tokio::test]
async fn every_candidate_has_its_reason() {
    let mut cluster = Cluster::replicated().await;
    cluster
        .change(|snapshot| {
            change_collection(snapshot, |entry| {
                for (at, change) in [(1, CopyState::Error), (2, CopyState::Offline)] {
                    Arc::make_mut(&mut entry.segments[at]).copies[1].observed = Some(change);
                }
            });
        })
        .await;
    let answer = route(&cluster, RouteRequest { reasons: true, ..whole(0) }).await.unwrap();
    let reason = &answer.reasons[0];
    assert_eq!(
        (reason.name.as_str(), reason.cluster.as_str(), reason.outcome.as_str()),
        ("s0", "local", "served")
    );
    assert_eq!(reason.rule, "balanced, turn 0: node 1 of 2 that can be chosen");
    let ruled_out = |at: usize| {
        let candidates = &answer.reasons[at].candidates;
        candidates.iter().map(|one| (one.node.as_str(), one.ruled_out.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(ruled_out(0), [("n0", ""), ("n1", "not its turn")]);
    assert_eq!(ruled_out(1), [("n0", ""), ("n1", "reports it as error")]);
    assert_eq!(ruled_out(2), [("n0", ""), ("n1", "reports it as offline")]);
}

#[tokio::test]
async fn a_statement_is_explained_scan_by_scan_without_being_run() {
    let cluster = Cluster::replicated().await;
    let (status, page) = cluster
        .broker
        .get("/debug/route?sql=SELECT%20count(*)%20FROM%20t%20WHERE%20id%20%3E%3D%2050&request_id=0")
        .await;
    assert_eq!(
        (status, &page["cluster"], &page["fail_open"]["enabled"]),
        (200, &json!("local"), &json!(false))
    );
    let scan = &page["scans"][0];
    assert_eq!(
        (&scan["collection"], &scan["selector"], &scan["pruned"]),
        (&json!("t"), &json!("balanced"), &json!(2))
    );
    let expected = json!([
        {"node": "local/n0", "segments": ["s2"], "fail_open": [], "optional": []},
        {"node": "local/n1", "segments": ["s3"], "fail_open": [], "optional": []},
    ]);
    assert_eq!(scan["parts"], expected);
    assert_eq!(scan["segments"][0]["candidates"][1]["ruled_out"], json!("not its turn"));
    assert!(cluster.workers.iter().all(|worker| !worker.store.is_used()));

    for (query, status, code) in [
        ("sql=SELECT%20*%20FROM%20nothing", 404, 100),
        ("collection=nothing", 404, 100),
        ("sql=SELEC%201", 400, 1110),
        ("", 400, 1101),
    ] {
        let (found, page) = cluster.broker.get(&format!("/debug/route?{query}")).await;
        assert_eq!((found, &page["error"]["code"]), (status, &json!(code)), "{query}: {page}");
    }
    let (_, unknown) = cluster.broker.get("/debug/route?collection=T").await;
    assert_eq!(unknown["known"], json!(["t"]), "the one that was meant can be told");
}

#[tokio::test]
async fn a_collection_is_explained_segment_by_segment() {
    let mut cluster = Cluster::start(2, |segment| vec![usize::from(segment >= 2)], |_| {}).await;
    cluster.workers[1].kill();
    until("the dead node is excluded", async || codes(&cluster.sql("SELECT sum(id) FROM t").await) == [305])
        .await;
    let (_, page) = cluster.broker.get("/debug/route?collection=t&segment=s3").await;
    let segment = &page["scans"][0]["segments"][0];
    let shown = (&segment["segment"], &segment["outcome"], &segment["node"], &segment["rule"]);
    assert_eq!(
        shown,
        (&json!("s3"), &json!("unavailable"), &Value::Null, &json!("all_excluded; fail-open is off"))
    );
    let ruled_out = segment["candidates"][0]["ruled_out"].as_str().unwrap();
    assert!(ruled_out.starts_with("excluded ") && ruled_out.contains(" ago: "), "{ruled_out}");
}

#[tokio::test]
async fn options_of_a_query_steer_its_nodes() {
    let mut cluster = Cluster::replicated().await;
    let sampler = Sampler { name: "few".into(), first_n: 2 };
    cluster
        .change(|snapshot| change_collection(snapshot, |entry| entry.routing.samplers = vec![sampler]))
        .await;
    let sampled = cluster.sql("SELECT count(*) FROM t OPTION(sampler='Few')").await;
    assert_eq!(complete(&sampled), &json!([[50]]));
    assert_eq!(sampled["coverage"]["segments_asked"], json!(2), "{sampled}");
    let mut pools = vec![];
    for _ in 0..2 {
        let fixed = cluster.sql("SET useFixedReplica = true; SELECT count(*) FROM t").await;
        assert_eq!(complete(&fixed), &json!([[100]]));
        pools.push(fixed["pools"].clone());
    }
    assert_eq!((pools[0].as_array().map(Vec::len), &pools[0]), (Some(1), &pools[1]));
    for bad in ["numReplicaGroupsToQuery = 0", "orderedPreferredPools = 'a'", "useMultistageEngine = 3"] {
        assert_eq!(codes(&cluster.sql(&format!("SET {bad}; SELECT count(*) FROM t")).await), [700], "{bad}");
    }
}

#[tokio::test]
async fn preferred_pools_steer_while_nodes_are_ranked() {
    let adapt = |settings: &mut pointsman_settings::BrokerSettings| {
        settings.adaptive.kind = AdaptiveKind::Latency;
    };
    let cluster = Cluster::start(2, |_| vec![0, 1], adapt).await;
    for pool in [1, 0] {
        let sql = format!("SELECT count(*) FROM t OPTION(orderedPreferredPools='{pool}|{}')", 1 - pool);
        let answer = cluster.sql(&sql).await;
        assert_eq!((complete(&answer), &answer["pools"]), (&json!([[100]]), &json!([pool])));
    }
}

#[tokio::test]
async fn a_disabled_node_gets_nothing_from_that_moment_on() {
    let mut cluster = Cluster::replicated().await;
    cluster
        .change(|snapshot| {
            snapshot.nodes[0].switched_on = false;
            snapshot.nodes[0].enabled = false;
            snapshot.nodes[0].incarnation = Incarnation(1);
        })
        .await;
    for _ in 0..3 {
        let answer = cluster.sql("SELECT sum(id) FROM t").await;
        assert_eq!((complete(&answer), &answer["pools"]), (&json!([[4950]]), &json!([1])));
    }
}
