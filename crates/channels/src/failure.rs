//! Tells a dead transport from an answer.

use std::{error::Error, fmt, io, iter::successors, sync::Arc, time::Duration};

use url::Url;

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub struct CallError {
    failure: Failure,
    message: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl CallError {
    pub(crate) fn connect(url: &Url, source: impl Error + Send + Sync + 'static) -> Self {
        let message = format!("cannot connect to {url}").into();
        Self { failure: Failure::Connect, message, source: Some(Arc::new(source)) }
    }

    pub(crate) fn connect_deadline(url: &Url, limit: Duration) -> Self {
        let message = format!("cannot connect to {url} within {limit:?}").into();
        Self { failure: Failure::Connect, message, source: None }
    }

    pub(crate) fn closed() -> Self {
        Self { failure: Failure::Broken, message: "the channel was closed".into(), source: None }
    }

    pub(crate) fn broken(url: &Url, source: hyper::Error) -> Self {
        let failure = hyper_failure(&source);
        let message = format!("the call to {url} broke off").into();
        Self { failure, message, source: Some(Arc::new(source)) }
    }

    /// What became of the call.
    pub fn failure(&self) -> Failure {
        self.failure
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// What a failed call says about its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection could be made.
    Connect,
    /// The connection ended under the call: reset, closed, or a ping was not answered.
    Broken,
    /// This call alone was reset; the connection stands. Worth another try elsewhere, and no verdict on the node.
    Stream,
    /// The peer answered, if only with an error; or the error has nothing to do with a transport.
    Answer,
}

impl Failure {
    /// Whether the node could not be reached or broke off.
    pub fn is_transport(self) -> bool {
        matches!(self, Self::Connect | Self::Broken)
    }
}

/// What an error says about the node that was called. Walks the chain of sources and believes types alone: a
/// keep-alive that was missed under an open stream arrives as gRPC `Unknown`, so codes and texts prove nothing.
pub fn failure(error: &(dyn Error + 'static)) -> Failure {
    let Some(origin) = of_transport(error) else { return Failure::Answer };
    if let Some(error) = origin.downcast_ref::<CallError>() {
        error.failure
    } else if let Some(error) = origin.downcast_ref::<hyper::Error>() {
        hyper_failure(error)
    } else {
        origin.downcast_ref().map_or(Failure::Answer, h2_failure)
    }
}

/// What happened to the transport, in one line: the words of the errors that [`failure`] believes, with their causes and
/// without the notation of those that carried them. `None`: the error has nothing to do with a transport.
pub fn transport_text(error: &(dyn Error + 'static)) -> Option<String> {
    let origin = of_transport(error)?;
    Some(with_causes(origin.to_string(), origin))
}

/// The first error on the chain of sources that is about a transport.
fn of_transport<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let mut chain = successors(Some(error), |error| (**error).source());
    chain.find(|error| error.is::<CallError>() || error.is::<hyper::Error>() || error.is::<h2::Error>())
}

/// A text and the causes of the error that it is about, on one line; what it says already is not said again.
pub(crate) fn with_causes(mut text: String, error: &(dyn Error + 'static)) -> String {
    for cause in successors(error.source(), |error| (**error).source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = text + ": " + &cause;
        }
    }
    text
}

fn hyper_failure(error: &hyper::Error) -> Failure {
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(error) = source.downcast_ref::<h2::Error>() {
            return h2_failure(error);
        }
        if source.is::<io::Error>() {
            return Failure::Broken;
        }
        next = source.source();
    }
    if error.is_user() { Failure::Answer } else { Failure::Broken }
}

fn h2_failure(error: &h2::Error) -> Failure {
    if error.is_io() || error.is_go_away() { Failure::Broken } else { Failure::Stream }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_or_a_text_alone_is_no_proof() {
        let status = tonic::Status::unavailable("tcp connect error, broken pipe, h2 protocol error");
        assert_eq!(failure(&status), Failure::Answer);
        assert_eq!(failure(&io::Error::other("disk")), Failure::Answer);
    }

    #[test]
    fn the_words_are_those_of_the_transport_and_its_causes() {
        let url = Url::parse("http://127.0.0.1:1/").unwrap();
        let mut status = tonic::Status::unavailable("around it");
        status.set_source(Arc::new(CallError::connect(&url, io::Error::other("no route"))));
        let wrapped = io::Error::other(status);
        let text = transport_text(&wrapped);
        assert_eq!(text.as_deref(), Some("cannot connect to http://127.0.0.1:1/: no route"));
        assert_eq!(transport_text(&io::Error::other("disk")), None);
    }

    #[test]
    fn a_reset_of_one_call_is_no_verdict_on_the_node() {
        let mut status = tonic::Status::unknown("x");
        status.set_source(Arc::new(h2::Error::from(h2::Reason::REFUSED_STREAM)));
        assert_eq!(failure(&status), Failure::Stream);
    }
}
