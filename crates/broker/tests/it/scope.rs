//! Requests in the scope of a resource group that cannot serve them: refused before anything is sent, in every way to ask.

use pointsman_ids::{
    GroupNumber,
    feed::{CollectionEntry, GroupEntry},
};
use pointsman_proto::broker::v1::{RouteRequest, routing_client::RoutingClient};
use serde_json::{Value, json};

use crate::cluster::{Cluster, change_collection, complete};

/// Two groups that hold the collection, of which `g1` has not finished its load, and `empty` that holds nothing.
async fn cluster() -> Cluster {
    let mut cluster = Cluster::replicated().await;
    let unfinished = |entry: &mut CollectionEntry| entry.finished_groups = vec![GroupNumber(0)];
    cluster
        .change(|snapshot| {
            snapshot.groups.push(GroupEntry { number: GroupNumber(7), name: "empty".parse().unwrap() });
            change_collection(snapshot, unfinished);
        })
        .await;
    cluster
}

/// The answers to a query in the scope of a group, asked for in every way, with their HTTP status.
async fn in_scope(cluster: &Cluster, group: &str) -> Vec<(u16, Value)> {
    let sql = "SELECT count(*) FROM t";
    let status = ("Pointsman-Use-Http-Status-For-Errors", "true");
    let mut answers = Vec::new();
    for body in [
        json!({"sql": format!("SET resource_group = '{group}'; {sql}")}),
        json!({"sql": format!("{sql} OPTION(resource_group='{group}')")}),
        json!({"sql": sql, "queryOptions": format!("resource_group={group}")}),
    ] {
        answers.push(cluster.broker.post(&body.to_string(), &[status]).await);
    }
    let query: String = url_encoded(&format!("SET resource_group = '{group}'; {sql}"));
    answers.push(cluster.broker.get(&format!("/query/sql?sql={query}")).await);
    answers
}

/// Every byte that is more than a letter or a digit, as `%20`.
fn url_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[tokio::test]
async fn a_group_that_cannot_serve_refuses_in_every_way_to_ask() {
    let cluster = cluster().await;
    for (group, code, http, words) in [
        ("g1", 410, 503, "collection 't' is not fully loaded in resource group 'g1'"),
        ("empty", 410, 503, "collection 't' has no replica in resource group 'empty'"),
        ("nothing", 700, 400, "there is no resource group 'nothing'"),
    ] {
        for (at, (status, answer)) in in_scope(&cluster, group).await.into_iter().enumerate() {
            let case = format!("{group}, way {at}: {answer}");
            // Queries by address have no header that asks for a status.
            assert_eq!(status, if at == 3 { 200 } else { http }, "{case}");
            assert_eq!(answer["exceptions"][0]["errorCode"], json!(code), "{case}");
            let message = answer["exceptions"][0]["message"].as_str().unwrap();
            assert!(message.contains(words), "{case}");
            assert!(answer.get("resultTable").is_none(), "{case}");
            assert_eq!(answer["partialResult"], json!(false), "{case}");
            assert_eq!(answer["coverage"]["nodes_asked"], json!(0), "nothing is sent: {case}");
        }
    }
    for (_, answer) in in_scope(&cluster, "g0").await {
        assert_eq!(complete(&answer), &json!([[100]]));
        assert_eq!(answer["pools"], json!([0]));
    }
}

/// What tools ask over gRPC has the code itself, and whether the same request may succeed later.
#[tokio::test]
async fn a_refusal_over_grpc_says_whether_it_passes() {
    let cluster = cluster().await;
    for (group, name, retriable) in [
        ("g1", "collection_not_fully_loaded", true),
        ("empty", "collection_not_fully_loaded", true),
        ("nothing", "resource_group_not_found", false),
    ] {
        let mut client = RoutingClient::connect(cluster.broker.grpc.clone()).await.unwrap();
        let request =
            RouteRequest { collection: "t".into(), resource_group: group.into(), ..RouteRequest::default() };
        let error = pointsman_proto::error(&client.route(request).await.unwrap_err());
        assert_eq!((error.code().name(), error.is_retriable()), (name, retriable), "{group}: {error}");
    }
}

/// A group that finishes serves from the next version of the feed on, and one that loses a replica refuses again.
#[tokio::test]
async fn a_scope_follows_the_feed() {
    let mut cluster = cluster().await;
    let sql = "SET resource_group = 'g1'; SELECT count(*) FROM t";
    let finished = |entry: &mut CollectionEntry| entry.finished_groups.push(GroupNumber(1));
    cluster.change(|snapshot| change_collection(snapshot, finished)).await;
    assert_eq!(complete(&cluster.sql(sql).await), &json!([[100]]));
    let gone = |entry: &mut CollectionEntry| {
        entry.replicas.retain(|replica| replica.group != GroupNumber(1));
        entry.finished_groups.retain(|group| *group != GroupNumber(1));
        for segment in &mut entry.segments {
            std::sync::Arc::make_mut(segment).copies.retain(|copy| copy.replica != 1);
        }
    };
    cluster.change(|snapshot| change_collection(snapshot, gone)).await;
    let answer = cluster.sql(sql).await;
    assert_eq!(answer["exceptions"][0]["errorCode"], json!(410), "{answer}");
    assert_eq!(complete(&cluster.sql("SELECT count(*) FROM t").await), &json!([[100]]));
}
