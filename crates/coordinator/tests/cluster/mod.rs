//! Coordinators in this process over a real metastore file and object folder, with nodes that speak the real session.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

mod leads;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

pub use self::leads::Leads;
use pointsman_clock::SystemClock;
use pointsman_coordinator::{Deps, Objects, RunError, run};
use pointsman_ids::{Epoch, Error, ErrorCode, feed::Snapshot};
use pointsman_metastore::{Lease, LeaseOutcome, OpenOptions, SharedMetastore};
use pointsman_proto::{
    broker::v1::{self as feed_pb, routing_feed_client::RoutingFeedClient},
    common::v1::Column,
    coordinator::v1::{
        self as pb, catalog_client::CatalogClient, cluster_client::ClusterClient,
        query_coord_client::QueryCoordClient, resource_groups_client::ResourceGroupsClient,
    },
    error, error_to_proto,
    node::v1::{self as node_pb, node_session_client::NodeSessionClient},
};
use pointsman_settings::{CoordinatorSettings, SecretUrl};
use pointsman_testkit::free_address;
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tokio_util::sync::CancellationToken;
use tonic::{Streaming, transport::Channel};

pub const NODE_LEASE: Duration = Duration::from_millis(800);
const PATIENCE: Duration = Duration::from_secs(20);

/// How long another one waits for an active coordinator that stalls. A disk that is busy stalls all of them for a while.
const ACTIVE_LEASE: Duration = Duration::from_secs(4);

/// Asks again until it answers `Some`, and fails the test after a while.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The durable part of a cluster.
pub struct Cluster {
    folder: TempDir,
}

impl Cluster {
    pub fn new() -> Self {
        pointsman_telemetry::init_logs("warn", pointsman_telemetry::LogFormat::Text);
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn settings(&self, name: &str) -> CoordinatorSettings {
        CoordinatorSettings {
            name: name.into(),
            metastore: SecretUrl::new(format!("sqlite:{}", self.folder.path().join("meta.db").display())),
            objects: self.folder.path().join("objects").display().to_string(),
            resource_groups: BTreeMap::from([("east".into(), 0), ("west".into(), 0)]),
            active_lease_ttl: ACTIVE_LEASE,
            active_lease_renew: Duration::from_millis(100),
            node_lease_ttl: NODE_LEASE,
            report_interval: Duration::from_millis(100),
            progress_interval: Duration::from_millis(50),
            visibility_interval: Duration::from_millis(100),
            segment_check_interval: Duration::from_millis(200),
            leader_check_interval: Duration::from_millis(200),
            ..CoordinatorSettings::default()
        }
    }

    pub async fn metastore(&self) -> SharedMetastore {
        let url = self.settings("x").metastore;
        pointsman_metastore::open(url.expose(), OpenOptions::default()).await.unwrap()
    }

    /// Ends the lease of a coordinator that was killed, as if its time had passed.
    pub async fn end_lease(&self) {
        let metastore = self.metastore().await;
        let outcome = metastore.take_lease("test", Duration::from_millis(1), Epoch(0)).await.unwrap();
        let LeaseOutcome::Held { holder, .. } = outcome else { return };
        // Few were given in a test.
        for epoch in 1..20 {
            let lease = Lease { epoch: Epoch(epoch), holder: holder.clone() };
            metastore.give_back_lease(&lease).await.unwrap();
        }
    }

    pub async fn start(&self, name: &str) -> Coordinator {
        self.start_with(self.settings(name)).await
    }

    pub async fn start_with(&self, settings: CoordinatorSettings) -> Coordinator {
        let metastore = self.metastore().await;
        self.start_over(settings, metastore).await
    }

    /// Starts a coordinator over this metastore.
    pub async fn start_over(&self, settings: CoordinatorSettings, metastore: SharedMetastore) -> Coordinator {
        let grpc = TcpListener::bind(free_address().unwrap()).await.unwrap();
        let http = TcpListener::bind(free_address().unwrap()).await.unwrap();
        let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let (grpc_url, http_url) = (url(&grpc), url(&http));
        let deps = Deps {
            clock: Arc::new(SystemClock::default()),
            metastore,
            objects: Objects::open(&settings.objects, [("AWS_REGION", "none")]).unwrap(),
            grpc: Some(grpc),
            http: Some(http),
            metrics: None,
        };
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(settings, deps, shutdown.clone()));
        let channel = Channel::from_shared(grpc_url.clone()).unwrap().connect_lazy();
        Coordinator { grpc: grpc_url, http: http_url, channel, shutdown, task }
    }

    /// Starts a coordinator and waits until it is active.
    pub async fn active(&self) -> Coordinator {
        let coordinator = self.start("c1").await;
        coordinator.is_active().await;
        coordinator
    }

    /// A segment whose object lies in the object store.
    pub fn segment(&self, collection: &str, name: &str, rows: u64) -> pb::Segment {
        let object = format!("{collection}/{name}.parquet");
        let path = self.folder.path().join("objects").join(&object);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, name.as_bytes()).unwrap();
        pb::Segment {
            name: name.into(),
            object,
            rows,
            bytes: name.len() as u64,
            checksum: format!("blake3:{}", "ab".repeat(32)),
            ..Default::default()
        }
    }

    pub fn has_object(&self, object: &str) -> bool {
        self.folder.path().join("objects").join(object).exists()
    }
}

/// A running coordinator.
pub struct Coordinator {
    pub grpc: String,
    pub http: String,
    pub channel: Channel,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Coordinator {
    pub fn catalog(&self) -> CatalogClient<Channel> {
        CatalogClient::new(self.channel.clone())
    }

    pub fn loads(&self) -> QueryCoordClient<Channel> {
        QueryCoordClient::new(self.channel.clone())
    }

    pub fn groups(&self) -> ResourceGroupsClient<Channel> {
        ResourceGroupsClient::new(self.channel.clone())
    }

    pub fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel.clone())
    }

    pub async fn describe(&self) -> Option<pb::GetCoordinatorResponse> {
        let answer = self.cluster().get_coordinator(pb::GetCoordinatorRequest {}).await;
        answer.ok().map(tonic::Response::into_inner)
    }

    pub async fn is_active(&self) {
        until("an active coordinator", || async { self.describe().await.filter(|c| c.active) }).await;
    }

    pub async fn create(&self, name: &str) -> Result<bool, Error> {
        let columns = vec![Column { name: "x".into(), data_type: "Int64".into(), nullable: false }];
        let request = pb::CreateCollectionRequest { name: name.into(), columns, options: None };
        let answer = self.catalog().create_collection(request).await;
        answer.map(|answer| answer.into_inner().created).map_err(|status| error(&status))
    }

    /// Pushes and gives (added, unchanged).
    pub async fn push(&self, collection: &str, segments: Vec<pb::Segment>) -> Result<(u64, u64), Error> {
        let request = pb::PushSegmentsRequest { collection: collection.into(), segments };
        let answer =
            self.catalog().push_segments(request).await.map_err(|status| error(&status))?.into_inner();
        Ok((answer.added, answer.unchanged))
    }

    pub async fn load(&self, collection: &str, groups: &[&str]) -> Result<bool, Error> {
        let request = pb::LoadCollectionRequest {
            collection: collection.into(),
            resource_groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Default::default()
        };
        let answer = self.loads().load_collection(request).await;
        answer.map(|answer| answer.into_inner().registered).map_err(|status| error(&status))
    }

    pub async fn release(&self, collection: &str) {
        let request = pb::ReleaseCollectionRequest { collection: collection.into() };
        self.loads().release_collection(request).await.unwrap();
    }

    pub async fn show(&self, collection: &str) -> Result<pb::CollectionLoad, Error> {
        let request = pb::ShowLoadRequest { collection: collection.into(), resource_group: String::new() };
        let answer = self.loads().show_load(request).await.map_err(|status| error(&status))?;
        Ok(answer.into_inner().collections.remove(0))
    }

    pub async fn loaded(&self, collection: &str) -> pb::CollectionLoad {
        let shown = || async { self.show(collection).await.ok().filter(|load| load.loaded) };
        until("a finished load", shown).await
    }

    pub async fn node(&self, name: &str) -> Option<pb::Node> {
        let answer = self.cluster().list_nodes(pb::ListNodesRequest {}).await.ok()?;
        answer.into_inner().nodes.into_iter().find(|node| node.name == name)
    }

    pub async fn watch(&self, broker: &str, epoch_seen: u64) -> Result<Watch, Error> {
        self.watch_from(broker, 0, epoch_seen).await
    }

    /// Watches as a broker that has a snapshot already.
    pub async fn watch_from(&self, broker: &str, version: u64, epoch_seen: u64) -> Result<Watch, Error> {
        let request =
            feed_pb::WatchRequest { broker: broker.into(), version, epoch_seen, ..Default::default() };
        let stream = self.feed().watch(request).await.map_err(|status| error(&status))?.into_inner();
        Ok(Watch { stream })
    }

    pub fn feed(&self) -> RoutingFeedClient<Channel> {
        RoutingFeedClient::new(self.channel.clone())
    }

    /// Ends it as a crash does: nothing is given back.
    pub async fn kill(self) {
        self.task.abort();
        let _aborted = self.task.await;
    }

    pub async fn stop(self) -> Result<(), RunError> {
        self.shutdown.cancel();
        self.task.await.unwrap()
    }

    pub async fn ended(self) -> Result<(), RunError> {
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap()
    }
}

/// A broker's watch.
pub struct Watch {
    stream: Streaming<feed_pb::WatchResponse>,
}

impl Watch {
    /// The next snapshot.
    pub async fn next(&mut self) -> Result<Snapshot, Error> {
        loop {
            let answer =
                tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("a snapshot in time");
            let answer = answer.expect("a watch that goes on").map_err(|status| error(&status))?;
            if let Some(snapshot) = answer.snapshot {
                return Ok(Snapshot::try_from(snapshot).unwrap());
            }
        }
    }

    /// The first snapshot of which `wanted` holds.
    pub async fn until(&mut self, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
        loop {
            let snapshot = self.next().await.unwrap();
            if wanted(&snapshot) {
                return snapshot;
            }
        }
    }
}

/// Nodes by name that are observed to serve a segment.
pub fn servers(snapshot: &Snapshot, collection: &str, segment: &str) -> BTreeSet<String> {
    let Some(entry) = snapshot.collection(collection) else { return BTreeSet::new() };
    let segment = entry.segments.iter().find(|entry| entry.name.as_str() == segment);
    let copies = segment.into_iter().flat_map(|segment| &segment.copies);
    let serving = copies.filter(|copy| copy.observed.is_some_and(|state| state.serves()));
    let name = |id| snapshot.nodes.iter().find(|node| node.id == id).map(|node| node.name.to_string());
    serving.filter_map(|copy| name(copy.node)).collect()
}

/// How a node treats its desired state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It holds at once what it should.
    Obeys,
    /// It fails to load anything.
    Fails,
    /// It has no room for anything.
    Full,
    /// It reports nothing but that it lives.
    Idles,
}

/// What a node says hello with.
#[derive(Clone)]
pub struct Hello {
    pub name: String,
    pub incarnation: u64,
    pub address: String,
    pub group: String,
    pub labels: BTreeMap<String, String>,
    pub epoch_seen: u64,
    /// Whether it reads a desired state that says only what changed.
    pub reads_changes: bool,
    pub held: BTreeSet<u64>,
    /// What it led in an earlier session.
    pub leads: Leads,
    pub manner: Manner,
}

impl Hello {
    pub fn new(name: &str, group: &str) -> Self {
        Self {
            name: name.into(),
            incarnation: 1,
            address: format!("http://{name}.example:1"),
            group: group.into(),
            labels: BTreeMap::new(),
            epoch_seen: 0,
            reads_changes: true,
            held: BTreeSet::new(),
            leads: Leads::default(),
            manner: Manner::Obeys,
        }
    }

    /// Opens a session with the coordinator.
    pub async fn connect(self, coordinator: &Coordinator) -> Result<Node, Error> {
        Node::connect(self, coordinator.channel.clone()).await
    }
}

/// A node that speaks the session's protocol and holds nothing.
pub struct Node {
    pub welcome: node_pb::Welcome,
    pub desired: watch::Receiver<node_pb::DesiredState>,
    /// The last message about that, as it came.
    pub message: watch::Receiver<node_pb::DesiredState>,
    pub leads: watch::Receiver<Leads>,
    /// Whether it was told that it may leave.
    pub leave: watch::Receiver<bool>,
    /// Calls that it says run on it.
    pub calls: watch::Sender<u64>,
    stopping: tokio::sync::mpsc::Sender<Duration>,
    task: JoinHandle<Option<Error>>,
}

impl Node {
    async fn connect(hello: Hello, channel: Channel) -> Result<Self, Error> {
        use node_pb::{open_session_request::Message as Said, open_session_response::Message as Heard};
        let (say, said) = tokio::sync::mpsc::channel(64);
        let message = Said::Hello(node_pb::Hello {
            name: hello.name.clone(),
            incarnation: hello.incarnation,
            address: hello.address.clone(),
            resource_group: hello.group.clone(),
            labels: hello.labels.clone().into_iter().collect(),
            epoch_seen: hello.epoch_seen,
            reads_changes: hello.reads_changes,
            ..Default::default()
        });
        say.send(node_pb::OpenSessionRequest { message: Some(message) }).await.unwrap();
        let mut client = NodeSessionClient::new(channel);
        let answer = client.open_session(ReceiverStream::new(said)).await.map_err(|status| error(&status))?;
        let mut heard = answer.into_inner();
        let welcome = match heard.next().await.unwrap().map_err(|status| error(&status))?.message {
            Some(Heard::Welcome(welcome)) => welcome,
            other => panic!("a session begins with a welcome, not {other:?}"),
        };
        let (desired, desired_receiver) = watch::channel(node_pb::DesiredState::default());
        let (came, message) = watch::channel(node_pb::DesiredState::default());
        let (stopping, mut stop) = tokio::sync::mpsc::channel::<Duration>(1);
        let (told, leave) = watch::channel(false);
        let (calls, calls_now) = watch::channel(0);
        let (led, leads_receiver) = watch::channel(hello.leads.clone());
        let task = tokio::spawn(async move {
            let mut held = hello.held.clone();
            let mut leads = hello.leads;
            let (segments, known) = (reports(&held, Ok(())), leads.reports());
            let full = node_pb::Report { full: true, segments, leads: known, ..Default::default() };
            say.send(node_pb::OpenSessionRequest { message: Some(Said::Report(full)) }).await.ok()?;
            let mut beat = tokio::time::interval(Duration::from_millis(100));
            loop {
                let mut report = tokio::select! {
                    _ = beat.tick() => node_pb::Report::default(),
                    Some(grace) = stop.recv() => {
                        let grace_ms = u64::try_from(grace.as_millis()).unwrap();
                        let message = Some(Said::Stopping(node_pb::Stopping { grace_ms }));
                        say.send(node_pb::OpenSessionRequest { message }).await.ok()?;
                        continue;
                    }
                    answer = heard.next() => match answer?.map(|answer| answer.message) {
                        Ok(Some(Heard::Desired(state))) => {
                            came.send_replace(state.clone());
                            let state = changed(&desired.borrow(), state);
                            let report = obey(&mut held, &state, hello.manner);
                            desired.send_replace(state);
                            report
                        }
                        Ok(Some(Heard::Leave(_))) => {
                            told.send_replace(true);
                            continue;
                        }
                        Ok(Some(Heard::Leads(wish))) if hello.manner != Manner::Idles => {
                            let report = leads.follow(wish);
                            led.send_replace(leads.clone());
                            report
                        }
                        Ok(_) => continue,
                        Err(status) => return Some(error(&status)),
                    },
                };
                report.calls = Some(*calls_now.borrow());
                say.send(node_pb::OpenSessionRequest { message: Some(Said::Report(report)) }).await.ok()?;
            }
        });
        let leads = leads_receiver;
        Ok(Self { welcome, desired: desired_receiver, message, leads, leave, calls, stopping, task })
    }

    /// Numbers of the segments that it should hold.
    pub fn wanted(&self) -> BTreeSet<u64> {
        self.desired.borrow().segments.iter().map(|segment| segment.segment_id).collect()
    }

    /// Waits for a desired state of so many segments.
    pub async fn wants(&self, count: usize) {
        until("a desired state", || async { (self.wanted().len() == count).then_some(()) }).await;
    }

    /// Says that it stops.
    pub async fn stop(&self) {
        self.stop_within(Duration::ZERO).await;
    }

    /// Says that it stops, and how long it may still serve.
    pub async fn stop_within(&self, grace: Duration) {
        self.stopping.send(grace).await.unwrap();
    }

    /// Waits until it is told that it may leave.
    pub async fn may_leave(&mut self) {
        let told = tokio::time::timeout(PATIENCE, self.leave.wait_for(|told| *told)).await;
        told.expect("in time").expect("a session that goes on");
    }

    /// Breaks off without a word.
    pub async fn kill(self) {
        self.task.abort();
        let _aborted = self.task.await;
    }

    /// Why its session ended.
    pub async fn ended(self) -> Option<Error> {
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap()
    }
}

/// Says that the segments are held, or why not.
fn reports(segments: &BTreeSet<u64>, held: Result<(), ErrorCode>) -> Vec<node_pb::SegmentReport> {
    let state = if held.is_ok() { node_pb::SegmentState::Held } else { node_pb::SegmentState::Failed };
    let why = held.err().map(|code| error_to_proto(&Error::new(code, "so it goes")));
    let report = |id: &u64| node_pb::SegmentReport {
        segment_id: *id,
        state: state.into(),
        error: why.clone(),
        tries: 1,
    };
    segments.iter().map(report).collect()
}

/// The wish after a message, which is whole or says what changed.
fn changed(before: &node_pb::DesiredState, mut message: node_pb::DesiredState) -> node_pb::DesiredState {
    if let Some(version) = message.before.take() {
        assert_eq!(version, before.version, "a change of something else");
        let named = |id: u64| message.segments.iter().any(|segment| segment.segment_id == id);
        let stay = before
            .segments
            .iter()
            .filter(|segment| !message.removed.contains(&segment.segment_id) && !named(segment.segment_id));
        let stay: Vec<_> = stay.cloned().collect();
        message.removed.clear();
        message.segments.extend(stay);
        message.segments.sort_unstable_by_key(|segment| segment.segment_id);
    }
    message
}

/// What a node reports when it has read a desired state.
fn obey(held: &mut BTreeSet<u64>, state: &node_pb::DesiredState, manner: Manner) -> node_pb::Report {
    let wanted: BTreeSet<u64> = state.segments.iter().map(|segment| segment.segment_id).collect();
    let new: BTreeSet<u64> = wanted.difference(held).copied().collect();
    let removed = held.difference(&wanted).copied().collect();
    let segments = match manner {
        Manner::Obeys => reports(&new, Ok(())),
        Manner::Fails => reports(&new, Err(ErrorCode::SegmentLoadFailed)),
        Manner::Full => reports(&new, Err(ErrorCode::SegmentRequestResourceFailed)),
        Manner::Idles => return node_pb::Report::default(),
    };
    *held = wanted;
    node_pb::Report { segments, removed, desired_version: state.version, ..Default::default() }
}
