//! Collection `docs` in two groups: its rows are `id`, `v` (id, 0) and `name`, ten of them in each shard, led by one node
//! in each group.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::{
    array::{ArrayRef, FixedSizeListArray, Float32Array, Int64Array, StringArray},
    datatypes::{DataType, Field},
    record_batch::RecordBatch,
};
use pointsman_engine::ingest;
use pointsman_ids::{
    CollectionId, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, SegmentId,
    catalog::{Column, RoutingOptions},
    feed::{
        CollectionEntry, Delta, GroupEntry, LeaderDrops, LeaderEntry, LoadState, NodeEntry, ReplicaEntry,
        Snapshot,
    },
};
use pointsman_proto::coordinator::v1::ShardLeaders;
use pointsman_settings::BrokerSettings;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{coordinator::Coordinator, leader::Leader};
use crate::cluster::{Broker, settings, until};

pub(crate) const DOCS: CollectionId = CollectionId(31);
pub(crate) const GROUPS: [&str; 2] = ["east", "west"];
pub(crate) const ROWS: i64 = 10;

/// Node 1 leads in `east`, node 2 in `west`.
pub(crate) struct Cluster {
    pub(crate) leaders: Vec<Leader>,
    pub(crate) coordinator: Coordinator,
    pub(crate) snapshot: Snapshot,
    pub(crate) broker: Broker,
    pub(crate) client: reqwest::Client,
    pub(crate) dir: TempDir,
}

pub(crate) fn shard(at: usize) -> String {
    format!("docs-{at:02}")
}

impl Cluster {
    pub(crate) async fn start(shards: usize) -> Self {
        Self::with(shards, |_| {}).await
    }

    pub(crate) async fn with(shards: usize, adapt: impl FnOnce(&mut BrokerSettings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let leaders: Vec<Leader> = (1..=2).map(|id| Leader::start(id, id + 10)).collect();
        let (files, columns) = write(&dir, shards);
        leaders.iter().for_each(|leader| leader.played.lead(files.clone()));
        let snapshot = snapshot(&leaders, shards, columns);
        let coordinator = Coordinator::start(&snapshot);
        for at in 0..shards {
            coordinator.played.set(ShardLeaders {
                shard: shard(at),
                node_ids: vec![1, 2],
                node_addrs: leaders.iter().map(|leader| leader.url.clone()).collect(),
                serviceable: vec![true, true],
                resource_groups: GROUPS.map(str::to_owned).to_vec(),
            });
        }
        let mut settings = settings(dir.path(), &coordinator.url);
        settings.shard_client.connections_per_node = 2;
        adapt(&mut settings);
        let broker = Broker::start(settings).await;
        broker.ready().await;
        Self { leaders, coordinator, snapshot, broker, client: reqwest::Client::new(), dir }
    }

    /// Status, body and whether a time to wait is named.
    pub(crate) async fn post(&self, what: &str, body: Value) -> (u16, Value) {
        let (status, retry_after, body) = self.send(what, body.to_string().into_bytes()).await;
        let retriable = body["error"]["retriable"] == json!(true);
        assert_eq!(retry_after, retriable, "{body}");
        (status, body)
    }

    pub(crate) async fn send(&self, what: &str, body: Vec<u8>) -> (u16, bool, Value) {
        let url = format!("{}/v1/{what}", self.broker.url);
        let response = self.client.post(url).body(body).send().await.unwrap();
        let (status, waits) = (response.status().as_u16(), response.headers().contains_key("retry-after"));
        (status, waits, response.json().await.unwrap())
    }

    /// The ids nearest to a place, which must be all there.
    pub(crate) async fn nearest(&self, place: f32, k: u32, more: Value) -> Value {
        let mut body = json!({"collection": "docs", "vector": [place, 0.0], "k": k});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = self.post("search", body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// `/debug/shards` of the collection.
    pub(crate) async fn debug(&self) -> Value {
        let (status, page) = self.broker.get("/debug/shards?collection=docs").await;
        assert_eq!(status, 200, "{page}");
        page
    }

    /// A leader on that page.
    pub(crate) async fn leader(&self, at: usize, node: u64) -> Value {
        let page = self.debug().await;
        let shard = page["shards"].as_array().unwrap().iter().find(|one| one["shard"] == shard(at)).unwrap();
        shard["leaders"].as_array().unwrap().iter().find(|one| one["node_id"] == node).unwrap().clone()
    }

    pub(crate) fn visits(&self) -> [u64; 2] {
        [self.leaders[0].played.visits(), self.leaders[1].played.visits()]
    }

    /// Sends a changed snapshot and waits until the broker has acknowledged it.
    pub(crate) async fn change(&mut self, change: impl FnOnce(&mut Snapshot)) {
        self.snapshot.version.0 += 1;
        change(&mut self.snapshot);
        self.coordinator.send(&self.snapshot);
        self.acknowledged().await;
    }

    /// Sends a version that changes nothing but drops leaders, and waits until the broker has acknowledged it.
    pub(crate) async fn drop_leaders(&mut self, drops: LeaderDrops) {
        let before = self.snapshot.version;
        self.snapshot.version.0 += 1;
        let empty = Delta::empty(self.snapshot.cluster.clone(), before, self.snapshot.version);
        self.coordinator.send_delta(&Delta { leader_drops: drops, ..empty });
        self.acknowledged().await;
    }

    async fn acknowledged(&self) {
        let wanted = self.snapshot.version;
        until("the version is acknowledged", async || self.coordinator.played.acknowledged() >= wanted).await;
    }

    /// Waits until nothing counts as running anywhere.
    pub(crate) async fn idle(&self) {
        let executing = |page: &Value| {
            let shards = page["shards"].as_array().unwrap().iter();
            let leaders = shards.flat_map(|shard| shard["leaders"].as_array().unwrap());
            leaders.map(|leader| leader["executing"].as_i64().unwrap()).sum::<i64>()
        };
        until("nothing counts as running", async || executing(&self.debug().await) == 0).await;
        until("nothing runs", async || self.leaders.iter().all(|leader| leader.played.running() == 0)).await;
    }
}

/// Ids of an answer's rows, for a search those of its first vector.
pub(crate) fn ids(answer: &Value) -> Vec<i64> {
    let rows = answer["rows"].as_array().unwrap();
    let rows = rows.first().and_then(Value::as_array).unwrap_or(rows);
    rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

type Files = BTreeMap<String, BTreeMap<SegmentId, std::path::PathBuf>>;

fn write(dir: &TempDir, shards: usize) -> (Files, Vec<Column>) {
    let mut columns = vec![];
    let file = |at: usize| {
        let path = dir.path().join(format!("{}.parquet", shard(at)));
        let batch = rows(i64::try_from(at).unwrap() * ROWS);
        ingest::write_parquet(&path, batch.schema(), [batch]).unwrap();
        columns = ingest::inspect_parquet(&path).unwrap().columns;
        (shard(at), BTreeMap::from([(SegmentId(at as u64 + 1), path)]))
    };
    let files = (0..shards).map(file).collect();
    (files, columns)
}

fn rows(first: i64) -> RecordBatch {
    let numbers: Vec<i64> = (first..first + ROWS).collect();
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let values: Float32Array = numbers.iter().flat_map(|id| [Some(*id as f32), Some(0.0)]).collect();
    let vectors = FixedSizeListArray::new(item, 2, Arc::new(values), None);
    let names: StringArray = numbers.iter().map(|id| Some(format!("name {id}"))).collect();
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(numbers)) as ArrayRef),
        ("v", Arc::new(vectors)),
        ("name", Arc::new(names)),
    ])
    .unwrap()
}

fn snapshot(leaders: &[Leader], shards: usize, columns: Vec<Column>) -> Snapshot {
    let number = |at: usize| GroupNumber(i32::try_from(at).unwrap());
    let node = |(at, leader): (usize, &Leader)| NodeEntry {
        name: format!("n{}", at + 1).parse().unwrap(),
        id: NodeId(at as u64 + 1),
        address: leader.url.clone(),
        incarnation: Incarnation(1),
        switched_on: true,
        enabled: true,
        lost: false,
        pool: number(at),
    };
    let leads =
        (0..2).map(|at| LeaderEntry { node: NodeId(at as u64 + 1), serviceable: true, group: number(at) });
    let leads: Vec<LeaderEntry> = leads.collect();
    let entry = CollectionEntry {
        name: "docs".parse().unwrap(),
        id: DOCS,
        version: FeedVersion(1),
        routing: RoutingOptions::default(),
        query_timeout: Some(Duration::from_secs(30)),
        key: Some("id".into()),
        vector_indexes: vec![],
        clusters: vec![],
        columns,
        partitions: vec!["default".parse().unwrap()],
        shards: (0..shards).map(|at| shard(at).parse().unwrap()).collect(),
        load: LoadState::Serving,
        finished_groups: vec![number(0), number(1)],
        replicas: (0..2)
            .map(|at| ReplicaEntry { id: ReplicaId(at as u64 + 11), group: number(at) })
            .collect(),
        segments: Default::default(),
        leaders: vec![leads; shards],
    };
    let names = GROUPS.into_iter().chain(["empty"]).enumerate();
    Snapshot {
        cluster: "local".parse().unwrap(),
        version: FeedVersion(1),
        nodes: leaders.iter().enumerate().map(node).collect(),
        groups: names
            .map(|(at, name)| GroupEntry { number: number(at), name: name.parse().unwrap() })
            .collect(),
        collections: vec![Arc::new(entry)],
        config: Default::default(),
    }
}
