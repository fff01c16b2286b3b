//! Queries over a real engine: answered from what is held, refused for what is not.

use std::{fs, sync::Arc, time::Duration};

use futures::TryStreamExt;
use pointsman_channels::{ChannelSettings, Channels};
use pointsman_engine::{
    Catalog, Engine, EngineSettings, Part, QueryError, Routed, Router, Statement, ingest,
};
use pointsman_ids::{
    ClusterName, CollectionId, FeedVersion, NodeKey, Result, SegmentId,
    catalog::{RoutingOptions, shard_name},
    feed::{CollectionEntry, LoadState, SegmentEntry, Snapshot},
};
use pointsman_proto::node::v1 as pb;
use url::Url;

use crate::{
    cluster::{Cluster, segment},
    coordinator::DEADLINE,
    node,
};

/// Routes everything to one node.
#[derive(Debug)]
struct To(NodeKey, Url);

impl Router for To {
    fn route(&self, _: &CollectionEntry, segments: &[u32]) -> Result<Routed> {
        let part = Part { node: self.0.clone(), url: self.1.clone(), segments: segments.to_vec() };
        Ok(Routed { parts: vec![part], ..Routed::default() })
    }

    fn stage_nodes(&self) -> Vec<(NodeKey, Url)> {
        vec![(self.0.clone(), self.1.clone())]
    }
}

/// Segments `orders/part-1` and `orders/part-2`, as objects and as a broker sees them.
fn orders(cluster: &Cluster) -> (Vec<pb::DesiredSegment>, Snapshot) {
    let folder = tempfile::tempdir().unwrap();
    let mut desired = vec![];
    let mut entries = vec![];
    let mut columns = vec![];
    for id in 1..=2_u64 {
        let (csv, parquet) = (folder.path().join("part.csv"), folder.path().join("part.parquet"));
        let rows: String = (0..1000).map(|row| format!("{row},{id}\n")).collect();
        fs::write(&csv, format!("row,part\n{rows}")).unwrap();
        let inspection = ingest::csv_to_parquet(&csv, &parquet, None).unwrap();
        let content = fs::read(&parquet).unwrap();
        desired.push(cluster.push(id, &content));
        columns = inspection.columns;
        entries.push(Arc::new(SegmentEntry {
            promoted: true,
            id: SegmentId(id),
            name: segment(id, &content).name.parse().unwrap(),
            partition: 0,
            shard: 0,
            rows: inspection.rows,
            bytes: content.len() as u64,
            created_at: 0,
            statistics: Arc::default(),
            copies: vec![],
        }));
    }
    let collection = CollectionEntry {
        name: "orders".parse().unwrap(),
        id: CollectionId(1),
        version: FeedVersion(1),
        routing: RoutingOptions::default(),
        query_timeout: None,
        key: None,
        vector_indexes: Vec::new(),
        clusters: vec![],
        columns,
        partitions: vec!["default".parse().unwrap()],
        shards: vec![shard_name(0)],
        load: LoadState::Serving,
        finished_groups: vec![],
        replicas: vec![],
        segments: entries.into(),
        leaders: vec![vec![]],
    };
    let snapshot = Snapshot {
        collections: vec![Arc::new(collection)],
        ..Snapshot::empty(ClusterName::new("test").unwrap())
    };
    (desired, snapshot)
}

/// Rows of both parts that pass a filter which no statistics answer.
async fn count(snapshot: &Snapshot, node: &str) -> std::result::Result<usize, QueryError> {
    let engine = Engine::new(EngineSettings::default(), Channels::tcp(ChannelSettings::default())).unwrap();
    let catalog = Arc::new(Catalog::build(snapshot, None));
    let key = NodeKey { cluster: snapshot.cluster.clone(), node: "n1".parse().unwrap() };
    let statement = Statement::check("SELECT row FROM orders WHERE row % 10 = 3").unwrap();
    let planned = engine.plan(&statement, &catalog, Arc::new(To(key, node.parse().unwrap()))).await?;
    let batches: Vec<_> = planned.execute()?.try_collect().await?;
    Ok(batches.iter().map(|batch| batch.num_rows()).sum())
}

async fn until_missing(snapshot: &Snapshot, node: &str, missing: &[u64]) {
    let waiting = async {
        loop {
            match count(snapshot, node).await {
                Err(QueryError::NotLoaded { segments, .. }) => {
                    let mut ids: Vec<_> = segments.iter().map(|segment| segment.id.0).collect();
                    ids.sort_unstable();
                    assert_eq!(ids, missing);
                    return;
                }
                Ok(rows) => assert_eq!(rows, 200),
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.expect("still answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_answers_from_what_it_holds_and_names_what_it_does_not() {
    let cluster = Cluster::start();
    let (segments, snapshot) = orders(&cluster);
    cluster.coordinator.want(&segments);
    let node = cluster.node();
    cluster.coordinator.until("held", |heard| heard.holds(&[1, 2])).await;
    assert_eq!(count(&snapshot, &node.grpc).await.unwrap(), 200);

    cluster.coordinator.want(&segments[..1]);
    until_missing(&snapshot, &node.grpc, &[2]).await;
    cluster.coordinator.until("one held", |heard| heard.holds(&[1])).await;

    cluster.coordinator.want(&segments);
    cluster.coordinator.until("both held", |heard| heard.holds(&[1, 2])).await;
    assert_eq!(count(&snapshot, &node.grpc).await.unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_meets_a_removed_file_says_so_and_has_it_fetched_again() {
    let cluster = Cluster::start();
    let (segments, snapshot) = orders(&cluster);
    cluster.coordinator.want(&segments);
    // Nobody but the query looks for files.
    let node =
        cluster.node_with(pointsman_node::Pace { presence_check: Duration::from_secs(3600), ..node::pace() });
    cluster.coordinator.until("held", |heard| heard.holds(&[1, 2])).await;
    fs::remove_file(node.file(2)).unwrap();
    until_missing(&snapshot, &node.grpc, &[2]).await;
    let answered = async {
        loop {
            match count(&snapshot, &node.grpc).await {
                Ok(rows) => return rows,
                Err(QueryError::NotLoaded { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    assert_eq!(tokio::time::timeout(DEADLINE, answered).await.expect("not fetched again"), 200);
    cluster.coordinator.until("held", |heard| heard.holds(&[1, 2])).await;
}
