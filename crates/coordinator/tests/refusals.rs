//! What is refused, by code and by name; and what may be repeated.
#![allow(clippy::unwrap_used, reason = "what helpers of tests cannot do fails the test")]

mod cluster;

use cluster::*;
use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::{
    common::v1::{Column, Metric, VectorIndex},
    coordinator::v1 as pb,
    error,
};

fn columns(names: &[&str]) -> Vec<Column> {
    names
        .iter()
        .map(|name| Column { name: (*name).into(), data_type: "Int64".into(), nullable: true })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_may_be_repeated_and_contradictions_are_refused() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    assert!(coordinator.create("t").await.unwrap());
    assert!(!coordinator.create("t").await.unwrap());
    let create = async |name: &str, columns| {
        let request = pb::CreateCollectionRequest { name: name.into(), columns, options: None };
        coordinator.catalog().create_collection(request).await.map_err(|status| error(&status))
    };
    let code = |result: Result<_, Error>| result.err().map(|error| error.code());
    for (name, columns) in
        [("t", columns(&["y"])), ("../t", columns(&["x"])), ("u", vec![]), ("u", columns(&["x", "X"]))]
    {
        assert_eq!(code(create(name, columns).await), Some(ErrorCode::ParameterInvalid), "{name}");
    }
    let drop = async |name: &str| {
        let request = pb::DropCollectionRequest { name: name.into() };
        coordinator.catalog().drop_collection(request).await.map_err(|status| error(&status).code())
    };
    assert_eq!(drop("u").await.unwrap_err(), ErrorCode::CollectionNotFound);
    drop("t").await.unwrap();
    assert_eq!(drop("t").await.unwrap_err(), ErrorCode::CollectionNotFound);
    coordinator.stop().await.unwrap();
}

/// Columns with a number, a score and vectors, and options over them.
fn vectors(key: &str, index: (&str, Metric)) -> (Vec<Column>, pb::CollectionOptions) {
    let types = [("id", "Int64"), ("score", "Float64"), ("v", "FixedSizeList(4 x Float32)")];
    let column = |(name, data_type): (&str, &str)| Column {
        name: name.into(),
        data_type: data_type.into(),
        nullable: true,
    };
    let indexes = vec![VectorIndex { column: index.0.into(), metric: index.1.into() }];
    let options =
        pb::CollectionOptions { shards: 3, key: key.into(), vector_indexes: indexes, ..Default::default() };
    (types.map(column).into(), options)
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_indexes_are_over_columns_that_can_be_that() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let create = async |(columns, options)| {
        let options = Some(options);
        let request = pb::CreateCollectionRequest { name: "t".into(), columns, options };
        let answer = coordinator.catalog().create_collection(request).await;
        answer.map(|answer| answer.into_inner().created).map_err(|status| error(&status))
    };
    let index = ("v", Metric::Cosine);
    for (wrong, code, told) in [
        (vectors("idd", index), ErrorCode::ColumnNotFound, "did you mean id?"),
        (vectors("score", index), ErrorCode::ParameterInvalid, "'score' of type Float64 cannot be the key"),
        (vectors("id", ("w", Metric::L2)), ErrorCode::ColumnNotFound, "vector index is over column 'w'"),
        (vectors("id", ("id", Metric::L2)), ErrorCode::ParameterInvalid, "Int64 holds no vectors"),
    ] {
        let refused = create(wrong).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.message().contains(told), "{refused}");
    }
    let (columns, mut strange) = vectors("id", index);
    strange.vector_indexes[0].metric = 77;
    assert!(create((columns, strange)).await.unwrap_err().message().contains("77"));

    assert!(create(vectors("id", index)).await.unwrap());
    assert!(!create(vectors("id", index)).await.unwrap(), "the same again");
    let other = create(vectors("", ("v", Metric::L2))).await.unwrap_err();
    let told = "key is 'id', not none; vector_indexes is 'v' by cosine, not 'v' by l2";
    assert!(other.code() == ErrorCode::ParameterInvalid && other.message().contains(told), "{other}");

    let alter = async |request| {
        let answer = coordinator.catalog().alter_collection(request).await;
        answer.map(|answer| answer.into_inner().changed).map_err(|status| error(&status))
    };
    let change = |key: &str| pb::AlterCollectionRequest {
        name: "t".into(),
        key: Some(key.into()),
        ..Default::default()
    };
    assert_eq!(alter(change("nothing")).await.unwrap_err().code(), ErrorCode::ColumnNotFound);
    assert_eq!((alter(change("")).await, alter(change("")).await), (Ok(true), Ok(false)));
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_all_or_nothing_and_may_be_repeated() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    coordinator.create("t").await.unwrap();
    let (a, b) = (cluster.segment("t", "a", 3), cluster.segment("t", "b", 4));
    assert_eq!(coordinator.push("t", vec![a.clone()]).await.unwrap(), (1, 0));
    assert_eq!(coordinator.push("t", vec![a.clone(), b.clone()]).await.unwrap(), (1, 1));

    let c = cluster.segment("t", "c", 5);
    let other_sum = pb::Segment { checksum: format!("blake3:{}", "cd".repeat(32)), ..a.clone() };
    let missing = pb::Segment { name: "d".into(), object: "t/nowhere.parquet".into(), ..c.clone() };
    let short = pb::Segment { name: "d".into(), bytes: 999, ..c.clone() };
    let no_shard = pb::Segment { name: "d".into(), shard: "shard-7".into(), ..c.clone() };
    for bad in [other_sum, missing, short, no_shard, c.clone()] {
        let name = bad.name.clone();
        let refused = coordinator.push("t", vec![c.clone(), bad]).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::ParameterInvalid, "{refused}");
        assert!(refused.message().contains(&format!("'{name}'")), "{refused}");
    }
    assert_eq!(coordinator.push("u", vec![a]).await.unwrap_err().code(), ErrorCode::CollectionNotFound);
    assert_eq!(coordinator.push("t", vec![]).await.unwrap_err().code(), ErrorCode::ParameterMissing);

    let page = async |after: &str, limit| {
        let request = pb::ListSegmentsRequest { collection: "t".into(), after: after.into(), limit };
        let answer = coordinator.catalog().list_segments(request).await.unwrap().into_inner();
        (answer.segments.into_iter().map(|segment| segment.name).collect::<Vec<_>>(), answer.more)
    };
    assert_eq!(page("", 1).await, (vec!["a".to_owned()], true));
    assert_eq!(page("a", 0).await, (vec!["b".to_owned()], false));
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_names_what_it_lacks() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let _node = Hello::new("n1", "east").connect(&coordinator).await.unwrap();
    coordinator.create("t").await.unwrap();
    let refused = coordinator.load("t", &["north"]).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ResourceGroupNotFound);
    assert!(refused.message().contains("north") && refused.message().contains("east"), "{refused}");
    let refused = coordinator.load("t", &["east", "west"]).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ResourceGroupNotEnoughNodes);
    assert!(refused.message().contains("'west' has 0 live nodes and needs 1"), "{refused}");
    assert_eq!(coordinator.load("u", &[]).await.unwrap_err().code(), ErrorCode::CollectionNotFound);
    let switch = async |enabled| {
        let request = pb::SetNodeEnabledRequest { nodes: vec!["n1".into()], enabled };
        coordinator.cluster().set_node_enabled(request).await.unwrap();
    };
    switch(false).await;
    let refused = coordinator.load("t", &["east"]).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ResourceGroupNotEnoughNodes);
    assert!(refused.message().contains("'east' has 0 live nodes"), "{refused}");
    assert!(refused.message().ends_with("disabled by an operator: n1)"), "{refused}");
    switch(true).await;

    let count = pb::LoadCollectionRequest {
        collection: "t".into(),
        replicas: 3,
        resource_groups: vec!["east".into(), "west".into()],
        ..Default::default()
    };
    let refused = coordinator.loads().load_collection(count).await.unwrap_err();
    assert_eq!(error(&refused).code(), ErrorCode::ParameterInvalid);

    assert!(coordinator.load("t", &["east"]).await.unwrap());
    assert!(!coordinator.load("t", &["east"]).await.unwrap());
    assert_eq!(coordinator.load("t", &["north"]).await.unwrap_err().code(), ErrorCode::ResourceGroupNotFound);
    let drop = pb::DropCollectionRequest { name: "t".into() };
    let refused = coordinator.catalog().drop_collection(drop).await.unwrap_err();
    assert_eq!(error(&refused).code(), ErrorCode::ParameterInvalid);
    let show = pb::ShowLoadRequest { collection: String::new(), resource_group: "north".into() };
    let refused = coordinator.loads().show_load(show).await.unwrap_err();
    assert_eq!(error(&refused).code(), ErrorCode::ResourceGroupNotFound);
    coordinator.release("t").await;
    coordinator.release("t").await;
    coordinator.release("never seen").await;
    coordinator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_from_the_past_or_from_a_double_is_refused_naming_both() {
    let cluster = Cluster::new();
    let coordinator = cluster.active().await;
    let hello = Hello { incarnation: 5, ..Hello::new("n1", "east") };
    let first = hello.clone().connect(&coordinator).await.unwrap();

    let old = Hello { incarnation: 4, ..hello.clone() }.connect(&coordinator).await.err().unwrap();
    assert_eq!(old.code(), ErrorCode::ParameterInvalid);
    assert!(old.message().contains('4') && old.message().contains('5'), "{old}");
    let double = Hello { address: "http://other.example:1".into(), ..hello.clone() };
    let double = double.connect(&coordinator).await.err().unwrap();
    assert_eq!(double.code(), ErrorCode::ParameterInvalid);
    assert!(
        double.message().contains("other.example") && double.message().contains("n1.example"),
        "{double}"
    );
    let unknown = Hello::new("n2", "north").connect(&coordinator).await.err().unwrap();
    assert_eq!(unknown.code(), ErrorCode::ResourceGroupNotFound);
    let nameless = Hello { address: "nowhere".into(), ..Hello::new("n3", "") };
    assert_eq!(nameless.connect(&coordinator).await.err().unwrap().code(), ErrorCode::ParameterInvalid);

    // The same process again keeps its number; a newer one retires it and gets a new one.
    let again = hello.clone().connect(&coordinator).await.unwrap();
    assert_eq!(again.welcome.node_id, first.welcome.node_id);
    assert_eq!(first.ended().await.map(|error| error.code()), Some(ErrorCode::ServiceUnavailable));
    let newer = Hello { incarnation: 6, address: "http://other.example:1".into(), ..hello };
    let newer = newer.connect(&coordinator).await.unwrap();
    assert!(newer.welcome.node_id > again.welcome.node_id);
    assert_eq!(again.ended().await.map(|error| error.code()), Some(ErrorCode::ServiceUnavailable));
    assert_eq!(coordinator.node("n1").await.unwrap().incarnation, 6);
    coordinator.stop().await.unwrap();
}
