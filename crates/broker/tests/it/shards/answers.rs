//! Answers over HTTP and gRPC: whole, merged over all shards, inside their scope.

use arrow::ipc::reader::StreamReader;
use pointsman_ids::{GroupNumber, feed::LoadState};
use pointsman_proto::{
    broker::v1::{
        GetRequest, QueryRequest, RequestOptions, SearchRequest, shard_requests_client::ShardRequestsClient,
    },
    common::v1::{self as pb, value},
};
use serde_json::json;

use super::cluster::{Cluster, ids};
use crate::cluster::change_collection;

#[tokio::test]
async fn a_search_merges_all_shards_and_says_who_answered() {
    let cluster = Cluster::start(3).await;
    let body = json!({
        "collection": "docs",
        "column": "v",
        "vectors": [[9.6, 0.0], [25.0, 0.0]],
        "k": 3,
        "metric": "l2",
        "columns": ["id", "name", "v"],
    });
    let (status, answer) = cluster.post("search", body).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(ids(&answer), [10, 9, 11], "{answer}");
    let second = answer["rows"][1].as_array().unwrap();
    assert_eq!(
        second[0],
        json!({"_distance": 0.0, "id": 25, "name": "name 25", "v": [25.0, 0.0]}),
        "{answer}"
    );
    assert_eq!(second.len(), 3);
    let coverage = &answer["coverage"];
    assert_eq!((&coverage["target_version"], &coverage["segments"]), (&json!(7), &json!(3)), "{coverage}");
    assert_eq!(coverage["rows_scanned"], json!(30), "{coverage}");
    let shards = coverage["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 3);
    for (at, shard) in shards.iter().enumerate() {
        assert_eq!(shard["shard"], super::cluster::shard(at));
        let node = shard["node_id"].as_u64().unwrap();
        let group = ["east", "west"][usize::try_from(node).unwrap() - 1];
        assert_eq!((&shard["node"], &shard["replica_id"]), (&json!(format!("n{node}")), &json!(node + 10)));
        assert_eq!(shard["resource_group"], group);
    }
}

#[tokio::test]
async fn rows_come_by_key_and_by_condition() {
    let cluster = Cluster::start(3).await;
    let (status, answer) = cluster.post("get", json!({"collection": "docs", "keys": [21, 3, 999]})).await;
    assert_eq!((status, ids(&answer)), (200, vec![21, 3]), "{answer}");
    assert_eq!(answer["rows"][0], json!({"id": 21, "v": [21.0, 0.0], "name": "name 21"}));
    let query = json!({"collection": "docs", "filter": "id >= 8 AND id < 22", "columns": ["id"], "limit": 5});
    let (status, answer) = cluster.post("query", query).await;
    assert_eq!((status, ids(&answer)), (200, vec![8, 9, 10, 11, 12]), "{answer}");
}

#[tokio::test]
async fn a_scope_is_never_left_and_none_means_any() {
    let cluster = Cluster::start(3).await;
    for (group, visits) in [("west", [0, 3]), ("east", [3, 3])] {
        let answer = cluster.nearest(14.2, 2, json!({"resource_group": group})).await;
        assert_eq!(ids(&answer), [14, 15]);
        assert_eq!(cluster.visits(), visits);
        let shards = answer["coverage"]["shards"].as_array().unwrap();
        assert!(shards.iter().all(|shard| shard["resource_group"] == group), "{answer}");
    }
    assert_eq!(ids(&cluster.nearest(14.2, 2, json!({"resource_group": ""})).await), [14, 15]);
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_before_anybody_is() {
    let mut cluster = Cluster::start(1).await;
    let search = |collection: &str, group: &str| json!({"collection": collection, "vector": [0, 0], "k": 1, "resource_group": group});
    for (body, status, name, words) in [
        (search("dogs", ""), 404, "collection_not_found", "did you mean docs?"),
        (search("docs", "eats"), 400, "resource_group_not_found", "did you mean east"),
        (search("docs", "empty"), 503, "collection_not_fully_loaded", "no replica in resource group 'empty'"),
        (json!({"collection": "docs", "vector": [0], "k": 1}), 400, "parameter_invalid", "dimensions"),
        (json!({"collection": "docs", "vector": [0, 0], "k": 0}), 400, "parameter_invalid", "k is 0"),
        (
            json!({"collection": "docs", "vector": [0, 0], "k": 1, "filter": "nmae = 'x'"}),
            400,
            "column_not_found",
            "name",
        ),
    ] {
        let (found, answer) = cluster.post("search", body).await;
        assert_eq!((found, &answer["error"]["name"]), (status, &json!(name)), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    }
    let spanning = |entry: &mut pointsman_ids::feed::CollectionEntry| {
        entry.clusters = vec!["local".parse().unwrap(), "far".parse().unwrap()];
    };
    cluster.change(|snapshot| change_collection(snapshot, spanning)).await;
    let (status, answer) = cluster.post("search", search("docs", "")).await;
    assert_eq!((status, &answer["error"]["name"]), (400, &json!("not_implemented")), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("(far)"), "{answer}");
    for (load, status, name) in [
        (LoadState::NotLoaded, 503, "collection_not_loaded"),
        (LoadState::Loading { percent: 40 }, 503, "collection_not_fully_loaded"),
    ] {
        cluster
            .change(|snapshot| {
                change_collection(snapshot, |entry| {
                    entry.clusters = vec![];
                    entry.load = load;
                });
            })
            .await;
        let (found, answer) = cluster.post("search", search("docs", "")).await;
        assert_eq!((found, &answer["error"]["name"]), (status, &json!(name)), "{answer}");
    }
    assert_eq!((cluster.visits(), cluster.coordinator.played.calls()), ([0, 0], 0));
}

#[tokio::test]
async fn a_group_that_loses_its_replica_is_refused_retriably() {
    let mut cluster = Cluster::start(1).await;
    cluster.nearest(1.0, 1, json!({"resource_group": "west"})).await;
    let gone = |entry: &mut pointsman_ids::feed::CollectionEntry| {
        entry.replicas.retain(|replica| replica.group != GroupNumber(1));
    };
    cluster.change(|snapshot| change_collection(snapshot, gone)).await;
    let (status, answer) = cluster
        .post("search", json!({"collection": "docs", "vector": [0, 0], "k": 1, "resource_group": "west"}))
        .await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!(103)), "{answer}");
}

#[tokio::test]
async fn the_same_over_grpc() {
    let cluster = Cluster::start(3).await;
    let mut client = ShardRequestsClient::connect(cluster.broker.grpc.clone()).await.unwrap();
    let read = |rows: Vec<u8>| {
        let batches: Vec<_> = StreamReader::try_new(&*rows, None).unwrap().map(Result::unwrap).collect();
        arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
    };
    let vector = |place: f32| pb::Vector { values: vec![place, 0.0] };
    let search = pb::Search { vectors: vec![vector(9.6), vector(0.0)], k: 2, ..pb::Search::default() };
    let options =
        RequestOptions { resource_group: "west".into(), timeout_ms: 5000, ..RequestOptions::default() };
    let request =
        SearchRequest { collection: "docs".into(), search: Some(search.clone()), options: Some(options) };
    let answer = client.search(request).await.unwrap().into_inner();
    let rows = read(answer.rows);
    let names: Vec<_> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!((names, rows.num_rows()), (["_query", "_distance", "id"].map(str::to_owned).to_vec(), 4));
    let coverage = answer.coverage.unwrap();
    assert_eq!(coverage.shards.len(), 3);
    assert!(coverage.shards.iter().all(|shard| shard.resource_group == "west" && shard.node == "n2"));

    let key = pb::Value { kind: Some(value::Kind::Integer(21)) };
    let get = pb::Get { keys: vec![key], columns: vec!["name".into()] };
    let answer =
        client.get(GetRequest { collection: "docs".into(), get: Some(get), options: None }).await.unwrap();
    assert_eq!(read(answer.into_inner().rows).num_rows(), 1);
    let query = pb::Query { filter: "id < 3".into(), columns: vec![], limit: 10 };
    let query = QueryRequest { collection: "docs".into(), query: Some(query), options: None };
    assert_eq!(read(client.query(query).await.unwrap().into_inner().rows).num_rows(), 3);

    for (request, name, retriable) in [
        (
            SearchRequest { collection: "dogs".into(), search: Some(search), options: None },
            "collection_not_found",
            false,
        ),
        (SearchRequest { collection: "docs".into(), ..SearchRequest::default() }, "parameter_missing", false),
    ] {
        let error = pointsman_proto::error(&client.search(request).await.unwrap_err());
        assert_eq!((error.code().name(), error.is_retriable()), (name, retriable), "{error}");
    }
}
