//! The stream of a node's session.

use std::{
    convert::Infallible,
    future::ready,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture};
use pointsman_ids::{Error, ErrorCode, NodeName};
use pointsman_proto::{node::v1 as pb, status};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming, body::Body, server::NamedService};
use tower::Service;

use crate::{
    encoded::{self, Encoded},
    leads::{NodeLeads, Told},
    server::MAX_MESSAGE,
    sessions::{Hello, SessionHandle},
    shared::Shared,
    tenure::Tenure,
};

/// How long a node may take from opening a session to its hello.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// Answers that wait in one session. The newest desired state takes the place of older ones before it enters.
const QUEUE: usize = 4;

/// The field of an answer that holds a desired state.
const DESIRED: u32 = 2;
/// The call that opens a session.
const OPEN_SESSION: &str = "/pointsman.node.v1.NodeSession/OpenSession";

/// Serves node sessions.
#[derive(Clone, Debug)]
pub(crate) struct SessionService(pub(crate) Arc<Shared>);

impl NamedService for SessionService {
    const NAME: &'static str = "pointsman.node.v1.NodeSession";
}

impl Service<http::Request<Body>> for SessionService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != OPEN_SESSION {
            return Box::pin(ready(Ok(Status::unimplemented("").into_http())));
        }
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let answers = open_session(&shared, encoded::messages(request, MAX_MESSAGE)).await;
            Ok(encoded::answer(answers, MAX_MESSAGE))
        })
    }
}

type Answer = Result<Encoded, Status>;

async fn open_session(
    shared: &Shared,
    mut incoming: Streaming<pb::OpenSessionRequest>,
) -> Result<ReceiverStream<Answer>, Status> {
    let tenure = shared.active().map_err(|error| status(&error))?;
    let hello = hello(&mut incoming).await?;
    let opened = open(&tenure, hello).await.map_err(|error| {
        tracing::warn!(%error, "a node's session was refused");
        crate::metrics::session_refused();
        status(&error)
    })?;
    let (answers, stream) = mpsc::channel(QUEUE);
    // The queue is empty and has room for the welcome.
    let _sent = answers.try_send(Ok(welcome(&tenure, &opened)));
    pointsman_telemetry::spawn("node-session", drive(tenure, opened, incoming, answers));
    Ok(ReceiverStream::new(stream))
}

async fn hello(incoming: &mut Streaming<pb::OpenSessionRequest>) -> Result<pb::Hello, Status> {
    let refuse = |text: &str| status(&Error::new(ErrorCode::ParameterInvalid, text));
    match timeout(HELLO_WAIT, incoming.next()).await {
        Ok(Some(Ok(pb::OpenSessionRequest {
            message: Some(pb::open_session_request::Message::Hello(hello)),
        }))) => Ok(hello),
        Ok(Some(Err(error))) => Err(error),
        Ok(_) => Err(refuse("a session begins with a hello")),
        Err(_) => Err(refuse("no hello came within 10 s")),
    }
}

async fn open(tenure: &Arc<Tenure>, hello: pb::Hello) -> Result<SessionHandle, Error> {
    tenure.shared.hear_epoch(tenure, hello.epoch_seen, &hello.name)?;
    tenure.open_session(&Hello::try_from(hello)?).await
}

fn welcome(tenure: &Tenure, session: &SessionHandle) -> Encoded {
    let settings = tenure.settings();
    let welcome = pb::Welcome {
        node_id: session.id.0,
        epoch: tenure.epoch().0,
        lease_ms: millis(settings.node_lease_ttl),
        report_interval_ms: millis(settings.report_interval),
        cluster: settings.cluster.clone(),
        objects: tenure.objects().root(),
        tells_leave: true,
    };
    answer(pb::open_session_response::Message::Welcome(welcome))
}

fn answer(message: pb::open_session_response::Message) -> Encoded {
    Encoded::new(&pb::OpenSessionResponse { message: Some(message) })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads and writes until one side, a newer session or the tenure ends it.
async fn drive(
    tenure: Arc<Tenure>,
    mut session: SessionHandle,
    incoming: Streaming<pb::OpenSessionRequest>,
    answers: mpsc::Sender<Answer>,
) {
    let retired = session.retired.clone();
    let wishes = Wishes {
        node: session.node.clone(),
        desired: session.desired.clone(),
        reads_changes: session.reads_changes,
        has: 0,
        leads: session.leads.clone(),
        told: Told::default(),
        leave: session.leave.clone(),
    };
    let ended = tokio::select! {
        // Reasons first: a session that is retired loses its desired state too.
        biased;
        () = retired.cancelled() => Some(Error::new(ErrorCode::ServiceUnavailable, "a newer session took its place")),
        () = tenure.over.cancelled() => {
            Some(Error::new(ErrorCode::ServiceNotReady, "this coordinator is not active any more"))
        }
        why = tenure.sends_away() => Some(why),
        ended = read(&tenure, &mut session, incoming) => ended,
        () = write(&tenure, wishes, &answers) => None,
    };
    tenure.close_session(&session);
    if let Some(error) = ended {
        tracing::info!(node = %session.node, %error, "a node's session was ended");
        // A node that does not read learns it from the end of the stream.
        let _full = answers.try_send(Err(status(&error)));
    }
}

/// Reads what the node says, to the end of its stream. `Some`: why the session is ended from here.
async fn read(
    tenure: &Tenure,
    session: &mut SessionHandle,
    mut incoming: Streaming<pb::OpenSessionRequest>,
) -> Option<Error> {
    use pb::open_session_request::Message;
    loop {
        let message = match incoming.next().await? {
            Ok(request) => request.message,
            Err(error) => {
                tracing::info!(node = %session.node, error = pointsman_telemetry::chain(&error), "a session broke off");
                return None;
            }
        };
        match message {
            Some(Message::Report(report)) => {
                if let Err(error) = tenure.report(session, report) {
                    return Some(error);
                }
            }
            Some(Message::Stopping(stopping)) => {
                tenure.stopping(session, Duration::from_millis(stopping.grace_ms));
            }
            Some(Message::Hello(_)) => {
                return Some(Error::new(ErrorCode::ParameterInvalid, "a second hello in one session"));
            }
            None => {}
        }
    }
}

/// What a session is told, and what it was told.
struct Wishes {
    node: NodeName,
    desired: watch::Receiver<u64>,
    reads_changes: bool,
    /// The version of the desired state that was told last; 0: none.
    has: u64,
    leads: watch::Receiver<Option<Arc<NodeLeads>>>,
    told: Told,
    leave: CancellationToken,
}

impl Wishes {
    /// What of the desired state is not told yet; it counts as told.
    fn desired(&mut self, tenure: &Tenure) -> Option<Encoded> {
        let told = if self.reads_changes { self.has } else { 0 };
        let (version, message) = {
            let state = tenure.state();
            state.desired.message(self.node.as_str(), told, &state.stores)
        };
        let news = version > self.has;
        self.has = version;
        news.then(|| Encoded::around(DESIRED, message.into(), &pb::OpenSessionResponse::default()))
    }
}

/// Sends the newest wishes whenever they changed, once that the node may leave, and a sign of life while there is nothing
/// else, until the node is gone.
async fn write(tenure: &Tenure, mut wishes: Wishes, answers: &mpsc::Sender<Answer>) {
    use pb::open_session_response::Message;
    let pause = tenure.settings().node_lease_ttl / 3;
    let mut told = false;
    loop {
        let message = tokio::select! {
            changed = wishes.desired.changed() => match changed {
                Ok(()) => {
                    wishes.desired.mark_unchanged();
                    wishes.desired(tenure)
                }
                Err(_) => return,
            },
            changed = wishes.leads.changed() => match changed {
                Ok(()) => {
                    let leads = wishes.leads.borrow_and_update().clone();
                    leads.and_then(|leads| wishes.told.news(&leads)).map(Message::Leads).map(answer)
                }
                Err(_) => return,
            },
            () = wishes.leave.cancelled(), if !told => {
                told = true;
                Some(answer(Message::Leave(pb::Leave {})))
            }
            () = sleep(pause) => Some(answer(Message::KeepAlive(pb::KeepAlive {}))),
        };
        if let Some(message) = message
            && answers.send(Ok(message)).await.is_err()
        {
            return;
        }
    }
}
