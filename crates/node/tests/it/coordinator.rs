//! A coordinator that says what a test tells it, behind the real generated server.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::Stream;
use pointsman_ids::Error;
use pointsman_proto::node::v1::{
    self as pb,
    node_session_server::{NodeSession, NodeSessionServer},
    open_session_request::Message as Request,
    open_session_response::Message as Response,
};
use tokio::{
    runtime::Runtime,
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Server};

/// Longer than anything may take on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// What the coordinator says.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) epoch: u64,
    /// The number that it gives the node.
    pub(crate) node_id: u64,
    pub(crate) lease_ms: u64,
    pub(crate) report_interval_ms: u64,
    /// Root of the object store in the welcome.
    pub(crate) objects: String,
    /// Refuses every hello with this.
    pub(crate) refuses: Option<Error>,
    /// Says nothing more in sessions that stand.
    pub(crate) silent: bool,
    pub(crate) desired: pb::DesiredState,
    /// Shards to lead. As long as it is empty nothing is said of them.
    pub(crate) leads: pb::DesiredLeads,
    /// Promises to tell a node that stops when it may leave.
    pub(crate) tells_leave: bool,
    /// Tells it.
    pub(crate) leave: bool,
}

/// What the coordinator heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// Hellos, refused ones too.
    pub(crate) hellos: Vec<pb::Hello>,
    /// Every report, in order.
    pub(crate) reports: Vec<pb::Report>,
    /// The grace of each node that said that it stops, milliseconds.
    pub(crate) stopping: Vec<u64>,
    /// What the reports of the newest session add up to.
    pub(crate) segments: BTreeMap<u64, pb::SegmentReport>,
}

impl Heard {
    /// Whether exactly these segments are held, and nothing else is reported.
    pub(crate) fn holds(&self, ids: &[u64]) -> bool {
        self.segments.keys().eq(ids) && ids.iter().all(|id| self.state(*id) == pb::SegmentState::Held)
    }

    pub(crate) fn state(&self, id: u64) -> pb::SegmentState {
        self.segments.get(&id).map_or(pb::SegmentState::Unspecified, pb::SegmentReport::state)
    }

    /// Number and message of the error of a segment that failed.
    pub(crate) fn failure(&self, id: u64) -> Option<(u32, String, u32)> {
        let report = self.segments.get(&id)?;
        let error = report.error.as_ref()?;
        Some((error.code, error.message.clone(), report.tries))
    }
}

#[derive(Debug)]
struct Shared {
    script: watch::Sender<Script>,
    heard: watch::Sender<Heard>,
}

/// A running coordinator. Dropped, it is gone like one that was killed.
#[derive(Debug)]
pub(crate) struct Coordinator {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

impl Coordinator {
    pub(crate) fn start(objects: &str) -> Self {
        let script = Script {
            epoch: 1,
            node_id: 7,
            lease_ms: 3000,
            report_interval_ms: 200,
            objects: objects.to_owned(),
            refuses: None,
            silent: false,
            desired: pb::DesiredState { version: 1, ..Default::default() },
            leads: pb::DesiredLeads::default(),
            tells_leave: false,
            leave: false,
        };
        Self::start_at(pointsman_testkit::free_address().unwrap(), script)
    }

    pub(crate) fn start_at(address: SocketAddr, script: Script) -> Self {
        let shared = Arc::new(Shared {
            script: watch::Sender::new(script),
            heard: watch::Sender::new(Heard::default()),
        });
        let listener = bind(address);
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let service = NodeSessionServer::new(Service(Arc::clone(&shared)));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
            Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        Self { address, shared, runtime: Some(runtime) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn script(&self) -> Script {
        self.shared.script.borrow().clone()
    }

    /// Changes what is said from now on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Script)) {
        self.shared.script.send_modify(change);
    }

    /// Wants exactly these segments.
    pub(crate) fn want(&self, segments: &[pb::DesiredSegment]) {
        self.change(|script| {
            let version = script.desired.version + 1;
            script.desired = pb::DesiredState { version, segments: segments.to_vec(), ..Default::default() };
        });
    }

    /// Wants something else than what it said last, and says only the difference to the wish of version `before`.
    pub(crate) fn want_also(&self, before: u64, segments: &[pb::DesiredSegment], removed: &[u64]) {
        self.change(|script| {
            let version = script.desired.version + 1;
            let (segments, removed) = (segments.to_vec(), removed.to_vec());
            script.desired = pb::DesiredState { version, segments, before: Some(before), removed };
        });
    }

    pub(crate) fn heard(&self) -> Heard {
        self.shared.heard.borrow().clone()
    }

    /// Waits until something was heard.
    pub(crate) async fn until(&self, what: &str, condition: impl FnMut(&Heard) -> bool) -> Heard {
        let mut heard = self.shared.heard.subscribe();
        let waited = timeout(DEADLINE, heard.wait_for(condition)).await;
        match waited {
            Ok(heard) => heard.unwrap().clone(),
            Err(_) => panic!("{what}: not heard in {DEADLINE:?}; heard {:#?}", self.heard()),
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// Binds an address that a coordinator before may be about to let go.
fn bind(address: SocketAddr) -> TcpListener {
    let began = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(error) => assert!(began.elapsed() < DEADLINE, "{address}: {error}"),
        }
        std::thread::yield_now();
    }
}

#[derive(Debug)]
struct Service(Arc<Shared>);

#[tonic::async_trait]
impl NodeSession for Service {
    type OpenSessionStream = Pin<Box<dyn Stream<Item = Result<pb::OpenSessionResponse, Status>> + Send>>;

    async fn open_session(
        &self,
        request: tonic::Request<Streaming<pb::OpenSessionRequest>>,
    ) -> Result<tonic::Response<Self::OpenSessionStream>, Status> {
        let mut incoming = request.into_inner();
        let first = incoming.message().await?.and_then(|first| first.message);
        let Some(Request::Hello(hello)) = first else { return Err(Status::invalid_argument("no hello")) };
        self.0.heard.send_modify(|heard| heard.hellos.push(hello));
        if let Some(error) = &self.0.script.borrow().refuses {
            return Err(pointsman_proto::status(error));
        }
        let (sender, outgoing) = mpsc::channel(16);
        tokio::spawn(listen(Arc::clone(&self.0), incoming));
        tokio::spawn(speak(Arc::clone(&self.0), sender));
        Ok(tonic::Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}

async fn listen(shared: Arc<Shared>, mut incoming: Streaming<pb::OpenSessionRequest>) {
    while let Ok(Some(request)) = incoming.message().await {
        shared.heard.send_modify(|heard| match request.message {
            Some(Request::Report(report)) => {
                if report.full {
                    heard.segments.clear();
                }
                for segment in &report.segments {
                    heard.segments.insert(segment.segment_id, segment.clone());
                }
                report.removed.iter().for_each(|id| _ = heard.segments.remove(id));
                heard.reports.push(report);
            }
            Some(Request::Stopping(stopping)) => heard.stopping.push(stopping.grace_ms),
            Some(Request::Hello(_)) | None => {}
        });
    }
}

/// Says what there is to lead, when that is news.
async fn lead(
    leads: &pb::DesiredLeads,
    said: &mut pb::DesiredLeads,
    outgoing: &mpsc::Sender<Result<pb::OpenSessionResponse, Status>>,
) {
    if leads != said {
        said.clone_from(leads);
        let message = Some(Response::Leads(leads.clone()));
        let _gone = outgoing.send(Ok(pb::OpenSessionResponse { message })).await;
    }
}

async fn speak(shared: Arc<Shared>, outgoing: mpsc::Sender<Result<pb::OpenSessionResponse, Status>>) {
    let say = |message| outgoing.send(Ok(pb::OpenSessionResponse { message: Some(message) }));
    let mut script = shared.script.subscribe();
    let now = script.borrow_and_update().clone();
    let welcome = pb::Welcome {
        node_id: now.node_id,
        epoch: now.epoch,
        lease_ms: now.lease_ms,
        report_interval_ms: now.report_interval_ms,
        cluster: "test".into(),
        objects: now.objects,
        tells_leave: now.tells_leave,
    };
    if say(Response::Welcome(welcome)).await.is_err() || say(Response::Desired(now.desired)).await.is_err() {
        return;
    }
    let mut said = pb::DesiredLeads::default();
    lead(&now.leads, &mut said, &outgoing).await;
    loop {
        let third = Duration::from_millis(now.lease_ms / 3);
        let message = match timeout(third, script.changed()).await {
            Ok(Ok(())) => match script.borrow_and_update().clone() {
                Script { leave: true, .. } => Response::Leave(pb::Leave {}),
                Script { desired, .. } => Response::Desired(desired),
            },
            Ok(Err(_)) => return,
            Err(_) => Response::KeepAlive(pb::KeepAlive {}),
        };
        let leads = script.borrow().leads.clone();
        lead(&leads, &mut said, &outgoing).await;
        let silent = script.borrow().silent;
        if !silent && say(message).await.is_err() {
            return;
        }
        if outgoing.is_closed() {
            return;
        }
    }
}
