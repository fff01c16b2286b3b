//! The stream of a node's session.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::{node::v1 as pb, status};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    sessions::{Hello, SessionHandle},
    shared::Shared,
    tenure::Tenure,
};

/// How long a node may take from opening a session to its hello.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// Answers that wait in one session. The newest desired state takes the place of older ones before it enters.
const QUEUE: usize = 4;

/// Serves node sessions.
#[derive(Debug)]
pub(crate) struct SessionService(pub(crate) Arc<Shared>);

type Answer = Result<pb::OpenSessionResponse, Status>;

#[tonic::async_trait]
impl pb::node_session_server::NodeSession for SessionService {
    type OpenSessionStream = ReceiverStream<Answer>;

    async fn open_session(
        &self,
        request: Request<Streaming<pb::OpenSessionRequest>>,
    ) -> Result<Response<Self::OpenSessionStream>, Status> {
        let tenure = self.0.active().map_err(|error| status(&error))?;
        let mut incoming = request.into_inner();
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
        Ok(Response::new(ReceiverStream::new(stream)))
    }
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

fn welcome(tenure: &Tenure, session: &SessionHandle) -> pb::OpenSessionResponse {
    let settings = &tenure.shared.settings;
    let welcome = pb::Welcome {
        node_id: session.id.0,
        epoch: tenure.epoch().0,
        lease_ms: millis(settings.node_lease_ttl),
        report_interval_ms: millis(settings.report_interval),
        cluster: settings.cluster.clone(),
        objects: tenure.objects().root(),
    };
    answer(pb::open_session_response::Message::Welcome(welcome))
}

fn answer(message: pb::open_session_response::Message) -> pb::OpenSessionResponse {
    pb::OpenSessionResponse { message: Some(message) }
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
    let mut desired = session.desired.clone();
    let ended = tokio::select! {
        // Reasons first: a session that is retired loses its desired state too.
        biased;
        () = retired.cancelled() => Some(Error::new(ErrorCode::ServiceUnavailable, "a newer session took its place")),
        () = tenure.over.cancelled() => {
            Some(Error::new(ErrorCode::ServiceNotReady, "this coordinator is not active any more"))
        }
        ended = read(&tenure, &mut session, incoming) => ended,
        () = write(&tenure, &mut desired, &answers) => None,
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
            Some(Message::Stopping(_)) => tenure.stopping(session),
            Some(Message::Hello(_)) => {
                return Some(Error::new(ErrorCode::ParameterInvalid, "a second hello in one session"));
            }
            None => {}
        }
    }
}

/// Sends the newest desired state whenever it changed, and a sign of life while it does not, until the node is gone.
async fn write(
    tenure: &Tenure,
    desired: &mut tokio::sync::watch::Receiver<Option<Arc<pb::DesiredState>>>,
    answers: &mpsc::Sender<Answer>,
) {
    use pb::open_session_response::Message;
    let pause = tenure.shared.settings.node_lease_ttl / 3;
    loop {
        let message = match timeout(pause, desired.changed()).await {
            Ok(Ok(())) => desired.borrow_and_update().as_deref().cloned().map(Message::Desired),
            Ok(Err(_)) => return,
            Err(_) => Some(Message::KeepAlive(pb::KeepAlive {})),
        };
        if let Some(message) = message
            && answers.send(Ok(answer(message))).await.is_err()
        {
            return;
        }
    }
}
