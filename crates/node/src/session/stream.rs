//! One session: hello, the full report, then changes one way and wishes the other.

use std::time::Duration;

use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::node::v1::{
    self as pb, node_session_client::NodeSessionClient, open_session_request::Message as Request,
    open_session_response::Message as Response,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Endpoint};

use super::{End, Session, reporter::Reporter};
use crate::metrics;

/// The longest wait for a connection, and for the answer to a hello.
const ANSWER: Duration = Duration::from_secs(5);
/// Messages between the session and its connection. A connection that does not take so many is stalled.
const OUTGOING: usize = 16;
/// The largest desired state: a few hundred thousand segments.
const MAX_MESSAGE: usize = 256 << 20;
/// The shortest lease and report interval that are taken from a welcome, so that a wrong one cannot make a busy loop.
const SHORTEST: Duration = Duration::from_millis(50);

/// The promises of a welcome.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// The longest silence of the coordinator.
    silence: Duration,
    /// The longest pause between reports.
    report_interval: Duration,
}

impl Terms {
    fn of(welcome: &pb::Welcome) -> Self {
        let lease = Duration::from_millis(welcome.lease_ms).max(SHORTEST * 3);
        let report_interval = Duration::from_millis(welcome.report_interval_ms).max(SHORTEST);
        // Keep-alives come every third of the lease: with two of them missing there is still time for a new session.
        Self { silence: lease * 2 / 3, report_interval }
    }
}

impl Session {
    /// Opens a session and holds it to its end. Says also whether it stood, which means that a welcome was taken.
    pub(super) async fn session(&mut self, coordinator: &str) -> (End, bool) {
        let stop = self.stop.clone();
        let opened = tokio::select! {
            () = stop.cancelled() => return (End::Stopped, false),
            opened = timeout(ANSWER * 2, self.open(coordinator)) => opened,
        };
        let mut stream = match opened {
            Ok(Ok(stream)) => stream,
            Ok(Err(end)) => return (end, false),
            Err(_) => return (End::Broken(silent(ANSWER * 2)), false),
        };
        let end = tokio::select! {
            () = stop.cancelled() => End::Stopped,
            end = self.hold(&mut stream) => end,
        };
        metrics::session(false);
        (end, true)
    }

    async fn open(&mut self, coordinator: &str) -> Result<Stream, End> {
        let endpoint = Endpoint::from_shared(coordinator.to_owned())
            .map_err(|error| End::Broken(Error::new(ErrorCode::ParameterInvalid, error.to_string())))?
            .connect_timeout(ANSWER)
            .http2_keep_alive_interval(ANSWER)
            .keep_alive_timeout(ANSWER);
        let channel = endpoint.connect().await.map_err(|error| {
            End::Broken(Error::new(ErrorCode::ServiceUnavailable, pointsman_telemetry::chain(&error)))
        })?;
        let (outgoing, messages) = mpsc::channel(OUTGOING);
        let mut reporter = Reporter::default();
        let full = reporter.changes(&self.cache.observation().borrow(), &self.leads.states().borrow());
        // Both fit into the channel, which nobody reads yet.
        let full = full.map(|report| self.report(report));
        for message in [Some(Request::Hello(self.hello())), full].into_iter().flatten() {
            send(&outgoing, message, ANSWER).await?;
        }
        let mut client = NodeSessionClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        let answer =
            client.open_session(ReceiverStream::new(messages)).await.map_err(|status| answered(&status))?;
        let mut incoming = answer.into_inner();
        loop {
            match incoming.message().await.map_err(|status| answered(&status))?.map(|answer| answer.message) {
                Some(Some(Response::Welcome(welcome))) => {
                    self.welcome(coordinator, &welcome)?;
                    return Ok(Stream { outgoing, incoming, reporter, terms: Terms::of(&welcome) });
                }
                Some(_) => {}
                None => {
                    return Err(End::Broken(Error::new(
                        ErrorCode::ServiceUnavailable,
                        "ended without a welcome",
                    )));
                }
            }
        }
    }

    async fn hold(&self, stream: &mut Stream) -> End {
        let (mut observation, mut leads) = (self.cache.observation(), self.leads.states());
        let (draining, mut said_stopping) = (self.draining.begun(), false);
        let mut heard = Instant::now();
        let mut report_due = Instant::now() + stream.terms.report_interval;
        // `Some`: something changed; what else changes until then is reported with it.
        let mut changes_due = Some(Instant::now());
        loop {
            let report_at = changes_due.map_or(report_due, |at| at.min(report_due));
            let sent = tokio::select! {
                answer = stream.incoming.message() => {
                    heard = Instant::now();
                    match answer {
                        Ok(Some(answer)) => self.take(answer),
                        Ok(None) => return End::Broken(Error::new(ErrorCode::ServiceUnavailable, "it ended the session")),
                        Err(status) => return answered(&status),
                    }
                }
                () = sleep_until(heard + stream.terms.silence) => return End::Broken(silent(stream.terms.silence)),
                Ok(()) = observation.changed(), if changes_due.is_none() => {
                    changes_due = Some(Instant::now() + self.pace.coalesce);
                    Ok(())
                }
                Ok(()) = leads.changed(), if changes_due.is_none() => {
                    changes_due = Some(Instant::now() + self.pace.coalesce);
                    Ok(())
                }
                () = draining.cancelled(), if !said_stopping => {
                    said_stopping = true;
                    stream.send(Request::Stopping(self.stopping())).await
                }
                () = sleep_until(report_at) => {
                    let news =
                        stream.reporter.changes(&observation.borrow_and_update(), &leads.borrow_and_update());
                    let due = report_due <= Instant::now();
                    changes_due = None;
                    match news.or_else(|| due.then(|| stream.reporter.alive())) {
                        Some(report) => {
                            report_due = Instant::now() + stream.terms.report_interval;
                            metrics::reported();
                            stream.send(self.report(report)).await
                        }
                        None => Ok(()),
                    }
                }
            };
            if let Err(end) = sent {
                return end;
            }
        }
    }

    /// A report with the calls that run now.
    fn report(&self, report: pb::Report) -> Request {
        Request::Report(pb::Report { calls: Some(self.in_flight.count() as u64), ..report })
    }

    fn stopping(&self) -> pb::Stopping {
        let grace = self.draining.remaining().as_millis();
        pb::Stopping { grace_ms: u64::try_from(grace).unwrap_or(u64::MAX) }
    }

    fn take(&self, answer: pb::OpenSessionResponse) -> Result<(), End> {
        match answer.message {
            Some(Response::Desired(desired)) => {
                if !self.cache.told(desired) {
                    return Err(End::Broken(Error::new(
                        ErrorCode::ParameterInvalid,
                        "it changed another wish",
                    )));
                }
            }
            Some(Response::Leads(leads)) => {
                let node_id = self.standing.borrow().node_id;
                self.leads.desire(&leads, node_id).map_err(End::Broken)?;
            }
            Some(Response::Leave(_)) => self.leave.cancel(),
            // A keep-alive says what its coming says; a second welcome and what a newer peer invents say nothing.
            Some(Response::KeepAlive(_) | Response::Welcome(_)) | None => {}
        }
        Ok(())
    }
}

/// A session that stands.
#[derive(Debug)]
struct Stream {
    outgoing: mpsc::Sender<pb::OpenSessionRequest>,
    incoming: Streaming<pb::OpenSessionResponse>,
    reporter: Reporter,
    terms: Terms,
}

impl Stream {
    async fn send(&self, message: Request) -> Result<(), End> {
        send(&self.outgoing, message, self.terms.silence).await
    }
}

async fn send(
    outgoing: &mpsc::Sender<pb::OpenSessionRequest>,
    message: Request,
    patience: Duration,
) -> Result<(), End> {
    let sent = timeout(patience, outgoing.send(pb::OpenSessionRequest { message: Some(message) })).await;
    match sent {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Broken(Error::new(ErrorCode::ServiceUnavailable, "it takes no more reports"))),
        Err(_) => Err(End::Broken(silent(patience))),
    }
}

fn silent(time: Duration) -> Error {
    Error::new(ErrorCode::ServiceUnavailable, format!("nothing was heard for {} ms", time.as_millis()))
}

fn answered(status: &tonic::Status) -> End {
    End::of(pointsman_proto::error(status))
}
