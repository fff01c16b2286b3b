//! Workers on loopback, each with its own segments, and a router that knows who holds what.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use pointsman_channels::{ChannelSettings, Channels};
use pointsman_engine::{
    Catalog, Engine, EngineSettings, Part, PlannedQuery, QueryError, Routed, Router, SegmentFile,
    SegmentStore, Statement, Unavailable, WorkerSettings, worker_routes,
};
use pointsman_ids::{
    ClusterName, CollectionId, CollectionName, FeedVersion, NodeKey, NodeName, PartitionName, Result,
    SegmentId, SegmentName, UnavailableCause,
    catalog::{RoutingOptions, shard_name},
    feed::{CollectionEntry, LoadState, SegmentEntry, Snapshot},
};
use pointsman_testkit::free_address;
use tempfile::TempDir;
use tonic::transport::{Server, server::TcpIncoming};
use url::Url;

use crate::data::{self, Table};

/// A node's store that notes what was opened.
#[derive(Debug, Default)]
pub(crate) struct Store {
    files: Mutex<BTreeMap<SegmentId, (PathBuf, u64)>>,
    opened: Mutex<BTreeSet<SegmentId>>,
    suspected: Mutex<BTreeSet<SegmentId>>,
}

impl Store {
    pub(crate) fn forget(&self, segment: SegmentId) {
        self.files.lock().expect("a lock").remove(&segment).expect("the node holds it");
    }

    /// From now on the file that it holds is none of Parquet.
    pub(crate) fn spoil(&self, segment: SegmentId) {
        let mut files = self.files.lock().expect("a lock");
        let (path, bytes) = files.get_mut(&segment).expect("the node holds it");
        let spoilt = path.with_extension("spoilt");
        std::fs::write(&spoilt, vec![0x5a; usize::try_from(*bytes).expect("a length")]).expect("written");
        *path = spoilt;
    }

    pub(crate) fn held(&self) -> BTreeSet<SegmentId> {
        self.files.lock().expect("a lock").keys().copied().collect()
    }

    pub(crate) fn suspected(&self) -> BTreeSet<SegmentId> {
        self.suspected.lock().expect("a lock").clone()
    }

    pub(crate) fn opened(&self) -> BTreeSet<SegmentId> {
        self.opened.lock().expect("a lock").clone()
    }
}

impl SegmentStore for Store {
    fn open(&self, segment: SegmentId) -> Option<SegmentFile> {
        self.opened.lock().expect("a lock").insert(segment);
        let files = self.files.lock().expect("a lock");
        files.get(&segment).map(|(path, bytes)| SegmentFile { path: path.clone(), bytes: *bytes, hold: None })
    }

    fn suspect(&self, segment: SegmentId) {
        self.suspected.lock().expect("a lock").insert(segment);
    }
}

/// A worker with a runtime of its own, so that it can be killed.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) url: Url,
    pub(crate) key: NodeKey,
    pub(crate) store: Arc<Store>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Node {
    pub(crate) fn start(name: &str, settings: WorkerSettings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let store = Arc::new(Store::default());
        let entered = runtime.enter();
        let routes = worker_routes(Arc::clone(&store) as _, channels(), settings).expect("a worker");
        let incoming = TcpIncoming::bind(free_address().expect("an address")).expect("a port");
        let address = incoming.local_addr().expect("an address");
        runtime.spawn(
            Server::builder().add_routes(routes).serve_with_incoming(incoming.with_nodelay(Some(true))),
        );
        drop(entered);
        let url = Url::parse(&format!("http://{address}")).expect("a URL");
        let key = NodeKey {
            cluster: ClusterName::new("local").expect("a name"),
            node: NodeName::new(name).expect("a name"),
        };
        Self { url, key, store, runtime: Some(runtime) }
    }

    /// Closes every connection at once and listens no more.
    pub(crate) fn kill(&mut self) {
        self.runtime.take().expect("the node lives").shutdown_background();
    }

    /// Tasks that run on the node.
    pub(crate) fn tasks(&self) -> usize {
        self.runtime.as_ref().expect("the node lives").metrics().num_alive_tasks()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn channels() -> Channels {
    let second = Duration::from_secs(1);
    Channels::tcp(ChannelSettings {
        // Nodes of tests compute on the very threads that take connections and answer pings, and several tests share the
        // cores.
        connect_timeout: 5 * second,
        keep_alive_time: second,
        keep_alive_timeout: 5 * second,
        ..ChannelSettings::default()
    })
}

/// Nodes, data, and the engine of a broker.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) engine: Engine,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: Vec<Table>,
    pub(crate) snapshot: Snapshot,
    pub(crate) router: RouterOf,
    folder: TempDir,
}

impl Cluster {
    /// TPC-H on a number of nodes, each segment on `replicas` of them.
    pub(crate) fn tpch(nodes: usize, replicas: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tables = data::write(folder.path());
        Self::start(folder, tables, nodes, replicas, EngineSettings::default(), WorkerSettings::default())
    }

    pub(crate) fn start(
        folder: TempDir,
        tables: Vec<Table>,
        nodes: usize,
        replicas: usize,
        settings: EngineSettings,
        workers: WorkerSettings,
    ) -> Self {
        let nodes: Vec<_> = (1..=nodes).map(|n| Node::start(&format!("n{n}"), workers.clone())).collect();
        let snapshot = snapshot(&tables);
        let mut holders = BTreeMap::new();
        for (collection, table) in snapshot.collections.iter().zip(&tables) {
            for (segment, file) in collection.segments.iter().zip(&table.files) {
                let own: Vec<_> = (0..replicas).map(|r| (segment.id.0 as usize + r) % nodes.len()).collect();
                for node in &own {
                    let mut files = nodes[*node].store.files.lock().expect("a lock");
                    files.insert(segment.id, (file.path.clone(), file.bytes));
                }
                holders.insert(segment.id, own);
            }
        }
        let known = nodes.iter().map(|node| (node.key.clone(), node.url.clone())).collect();
        let router = RouterOf { nodes: known, holders, excluded: BTreeSet::new(), turn: 0, stages: true };
        let engine = Engine::new(settings, channels()).expect("an engine");
        let catalog = Arc::new(Catalog::build(&snapshot, None));
        Self { nodes, engine, catalog, tables, snapshot, router, folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn plan(&self, sql: &str) -> Result<PlannedQuery, QueryError> {
        self.plan_with(sql, self.router.clone()).await
    }

    pub(crate) async fn plan_with(&self, sql: &str, router: RouterOf) -> Result<PlannedQuery, QueryError> {
        self.engine.plan(&Statement::check(sql)?, &self.catalog, Arc::new(router)).await
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<Vec<RecordBatch>, QueryError> {
        self.run_with(sql, self.router.clone()).await
    }

    pub(crate) async fn run_with(&self, sql: &str, router: RouterOf) -> Result<Vec<RecordBatch>, QueryError> {
        self.plan_with(sql, router).await?.execute()?.try_collect().await
    }

    pub(crate) fn segment(&self, collection: &str, at: usize) -> &SegmentEntry {
        &self.snapshot.collection(collection).expect("a collection").segments[at]
    }
}

/// Chooses among the holders that are not excluded, in turn.
#[derive(Clone, Debug)]
pub(crate) struct RouterOf {
    pub(crate) nodes: Vec<(NodeKey, Url)>,
    pub(crate) holders: BTreeMap<SegmentId, Vec<usize>>,
    pub(crate) excluded: BTreeSet<usize>,
    pub(crate) turn: usize,
    /// Whether upper stages may run on nodes.
    pub(crate) stages: bool,
}

impl Router for RouterOf {
    fn route(&self, collection: &CollectionEntry, segments: &[u32]) -> Result<Routed> {
        let mut routed = Routed::default();
        let mut parts: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for at in segments {
            let holders = &self.holders[&collection.segments[*at as usize].id];
            let healthy: Vec<_> = holders.iter().filter(|node| !self.excluded.contains(node)).collect();
            match healthy.len() {
                0 => routed.unavailable.push(Unavailable {
                    segment: *at,
                    cause: UnavailableCause::AllExcluded,
                    nodes: holders.iter().map(|node| self.nodes[*node].0.clone()).collect(),
                }),
                n => parts.entry(*healthy[(*at as usize + self.turn) % n]).or_default().push(*at),
            }
        }
        routed.parts = parts
            .into_iter()
            .map(|(node, segments)| Part {
                node: self.nodes[node].0.clone(),
                url: self.nodes[node].1.clone(),
                segments,
            })
            .collect();
        Ok(routed)
    }

    fn stage_nodes(&self) -> Vec<(NodeKey, Url)> {
        let routable =
            self.nodes.iter().enumerate().filter(|(at, _)| self.stages && !self.excluded.contains(at));
        routable.map(|(_, node)| node.clone()).collect()
    }
}

fn snapshot(tables: &[Table]) -> Snapshot {
    let mut next = 0;
    let collections = tables.iter().enumerate().map(|(at, table)| {
        let segments = table.files.iter().enumerate().map(|(n, file)| {
            next += 1;
            Arc::new(SegmentEntry {
                promoted: true,
                id: SegmentId(next),
                name: SegmentName::new(&format!("part-{}", n + 1)).expect("a name"),
                partition: 0,
                shard: 0,
                rows: file.rows,
                bytes: file.bytes,
                created_at: 1_700_000_000_000_000_000,
                statistics: Arc::new(file.statistics.clone()),
                copies: vec![],
            })
        });
        Arc::new(CollectionEntry {
            name: CollectionName::new(&table.name).expect("a name"),
            id: CollectionId(at as u64),
            version: FeedVersion(1),
            routing: RoutingOptions::default(),
            query_timeout: None,
            key: None,
            vector_indexes: Vec::new(),
            clusters: vec![],
            columns: table.columns.clone(),
            partitions: vec![PartitionName::new(PartitionName::DEFAULT).expect("a name")],
            shards: vec![shard_name(0)],
            load: LoadState::Serving,
            finished_groups: vec![],
            replicas: vec![],
            segments: segments.collect(),
            leaders: vec![],
        })
    });
    let collections = collections.collect();
    let mut snapshot = Snapshot::empty(ClusterName::new("local").expect("a name"));
    snapshot.collections = collections;
    snapshot.version = FeedVersion(1);
    snapshot
}
