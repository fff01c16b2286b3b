//! Workers, a feed and a broker over one collection `t` with 4 segments of 25 rows: `id` 0 to 99 and `name`.

use std::{
    future::Future,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{
    array::{ArrayRef, Int64Array, StringArray},
    record_batch::RecordBatch,
};
use pointsman_broker::{Deps, RunError, run};
use pointsman_engine::ingest;
use pointsman_ids::{
    CollectionId, FeedVersion, GroupNumber, Incarnation, NodeId, ReplicaId, SegmentId,
    catalog::RoutingOptions,
    feed::{
        CollectionEntry, CopyEntry, CopyState, GroupEntry, LoadState, NodeEntry, ReplicaEntry, SegmentEntry,
        Snapshot,
    },
};
use pointsman_settings::BrokerSettings;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{feed::Feed, worker::Worker};

pub(crate) const SEGMENTS: u64 = 4;
pub(crate) const ROWS: i64 = 25;

/// A cluster of one collection.
pub(crate) struct Cluster {
    pub(crate) workers: Vec<Worker>,
    pub(crate) feed: Feed,
    pub(crate) snapshot: Snapshot,
    pub(crate) broker: Broker,
    pub(crate) dir: TempDir,
}

/// A running broker.
pub(crate) struct Broker {
    pub(crate) url: String,
    pub(crate) grpc: String,
    pub(crate) shutdown: CancellationToken,
    pub(crate) running: JoinHandle<Result<(), RunError>>,
    client: reqwest::Client,
}

impl Cluster {
    /// Two groups with one worker each, and every segment in both.
    pub(crate) async fn replicated() -> Self {
        Self::start(2, |_| vec![0, 1], |_| {}).await
    }

    /// `place` says which workers hold a segment, `adapt` changes the broker's settings.
    pub(crate) async fn start(
        workers: usize,
        place: impl Fn(u64) -> Vec<usize>,
        adapt: impl FnOnce(&mut BrokerSettings),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workers: Vec<Worker> = (0..workers).map(|_| Worker::start()).collect();
        let snapshot = snapshot(dir.path(), &workers, place);
        let feed = Feed::start(snapshot.clone());
        let mut settings = settings(dir.path(), &feed.url);
        adapt(&mut settings);
        let broker = Broker::start(settings).await;
        broker.ready().await;
        Self { workers, feed, snapshot, broker, dir }
    }

    /// Sends a changed snapshot and waits until the broker routes by it.
    pub(crate) async fn change(&mut self, change: impl FnOnce(&mut Snapshot)) {
        self.snapshot.version.0 += 1;
        change(&mut self.snapshot);
        self.feed.send(self.snapshot.clone());
        let version = self.snapshot.version.0;
        let follows = async || self.broker.get("/ready").await.1["feed_version"] == json!(version);
        until("the broker follows the feed", follows).await;
    }

    pub(crate) async fn sql(&self, sql: &str) -> Value {
        self.broker.sql(sql).await
    }
}

/// Changes the collection of a snapshot.
pub(crate) fn change_collection(snapshot: &mut Snapshot, change: impl FnOnce(&mut CollectionEntry)) {
    let mut entry = CollectionEntry::clone(&snapshot.collections[0]);
    entry.version = snapshot.version;
    change(&mut entry);
    snapshot.collections[0] = Arc::new(entry);
}

impl Broker {
    pub(crate) async fn start(settings: BrokerSettings) -> Self {
        let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let grpc = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", http.local_addr().unwrap());
        let grpc_url = format!("http://{}", grpc.local_addr().unwrap());
        let deps = Deps { http: Some(http), grpc: Some(grpc), ..Deps::without_metrics() };
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(run(settings, deps, shutdown.clone()));
        Self { url, grpc: grpc_url, shutdown, running, client: reqwest::Client::new() }
    }

    pub(crate) async fn ready(&self) {
        until("the broker is ready", async || self.get("/ready").await.0 == 200).await;
    }

    /// The answer to a statement, which must come with HTTP 200.
    pub(crate) async fn sql(&self, sql: &str) -> Value {
        let (status, answer) = self.post(&json!({"sql": sql}).to_string(), &[]).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub(crate) async fn post(&self, body: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut request = self.client.post(format!("{}/query/sql", self.url)).body(body.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let code = response.headers()["X-Pointsman-Error-Code"].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let answer: Value = response.json().await.unwrap();
        let first = answer["exceptions"][0]["errorCode"].as_i64().unwrap_or(-1);
        assert_eq!(code, first.to_string(), "the header repeats the first exception's code");
        (status, answer)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }
}

pub(crate) fn settings(dir: &Path, coordinator: &str) -> BrokerSettings {
    BrokerSettings {
        coordinators: vec![coordinator.to_owned()],
        data_dir: dir.join("broker"),
        ..BrokerSettings::default()
    }
}

/// Waits for a condition, at most 10 s.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while !condition().await {
        assert!(Instant::now() < give_up, "gave up waiting until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Codes of an answer's exceptions.
pub(crate) fn codes(answer: &Value) -> Vec<i64> {
    answer["exceptions"].as_array().unwrap().iter().map(|one| one["errorCode"].as_i64().unwrap()).collect()
}

/// Asserts that nothing is missing, and returns the rows.
pub(crate) fn complete(answer: &Value) -> &Value {
    assert_eq!(answer["exceptions"], json!([]), "{answer}");
    assert_eq!(answer["partialResult"], json!(false), "{answer}");
    assert_eq!(answer["numServersQueried"], answer["numServersResponded"], "{answer}");
    &answer["resultTable"]["rows"]
}

pub(crate) fn snapshot(dir: &Path, workers: &[Worker], place: impl Fn(u64) -> Vec<usize>) -> Snapshot {
    let node = |at: usize| NodeEntry {
        name: format!("n{at}").parse().unwrap(),
        id: NodeId(at as u64 + 1),
        address: workers[at].url.clone(),
        incarnation: Incarnation(1),
        switched_on: true,
        enabled: true,
        lost: false,
        pool: GroupNumber(i32::try_from(at).unwrap()),
    };
    let group = |at: usize| GroupEntry {
        number: GroupNumber(i32::try_from(at).unwrap()),
        name: format!("g{at}").parse().unwrap(),
    };
    let replica = |at: usize| ReplicaEntry {
        id: ReplicaId(at as u64 + 1),
        group: GroupNumber(i32::try_from(at).unwrap()),
    };
    let numbers = 0..workers.len();
    let mut columns = vec![];
    let mut segments = vec![];
    for at in 0..SEGMENTS {
        let path = dir.join(format!("s{at}.parquet"));
        let batch = rows(i64::try_from(at).unwrap() * ROWS);
        ingest::write_parquet(&path, batch.schema(), [batch]).unwrap();
        let inspected = ingest::inspect_parquet(&path).unwrap();
        let copies = place(at);
        for holder in &copies {
            workers[*holder].store.add(SegmentId(at + 1), path.clone());
        }
        columns = inspected.columns;
        segments.push(Arc::new(SegmentEntry {
            promoted: true,
            id: SegmentId(at + 1),
            name: format!("s{at}").parse().unwrap(),
            partition: 0,
            shard: 0,
            rows: inspected.rows,
            bytes: path.metadata().unwrap().len(),
            created_at: 1,
            statistics: Arc::new(inspected.statistics),
            copies: copies.iter().map(|holder| copy(*holder)).collect(),
        }));
    }
    let entry = CollectionEntry {
        name: "t".parse().unwrap(),
        id: CollectionId(1),
        version: FeedVersion(1),
        routing: RoutingOptions::default(),
        query_timeout: None,
        key: None,
        vector_indexes: Vec::new(),
        clusters: vec![],
        columns,
        partitions: vec!["default".parse().unwrap()],
        shards: vec!["shard-0".parse().unwrap()],
        load: LoadState::Serving,
        finished_groups: numbers.clone().map(|at| group(at).number).collect(),
        replicas: numbers.clone().map(replica).collect(),
        segments: segments.into(),
        leaders: vec![vec![]],
    };
    Snapshot {
        cluster: "local".parse().unwrap(),
        version: FeedVersion(1),
        nodes: numbers.clone().map(node).collect(),
        groups: numbers.map(group).collect(),
        collections: vec![Arc::new(entry)],
        config: Default::default(),
    }
}

fn copy(holder: usize) -> CopyEntry {
    CopyEntry {
        node: NodeId(holder as u64 + 1),
        replica: u32::try_from(holder).unwrap(),
        assigned: Some(CopyState::Online),
        observed: Some(CopyState::Online),
    }
}

fn rows(first: i64) -> RecordBatch {
    let ids: Int64Array = (first..first + ROWS).map(Some).collect();
    let names: StringArray = (first..first + ROWS).map(|id| Some(format!("name {id}"))).collect();
    RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef), ("name", Arc::new(names))]).unwrap()
}
