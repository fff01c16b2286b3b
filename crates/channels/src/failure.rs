//! Tells a dead transport from an answer.

use std::{error::Error, fmt, io, sync::Arc, time::Duration};

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
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<CallError>() {
            return error.failure;
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return hyper_failure(error);
        }
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return h2_failure(error);
        }
        next = error.source();
    }
    Failure::Answer
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
    fn a_reset_of_one_call_is_no_verdict_on_the_node() {
        let mut status = tonic::Status::unknown("x");
        status.set_source(Arc::new(h2::Error::from(h2::Reason::REFUSED_STREAM)));
        assert_eq!(failure(&status), Failure::Stream);
    }
}
