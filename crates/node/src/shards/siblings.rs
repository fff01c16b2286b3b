//! Other nodes of the replica, which answer for segments that this one does not hold.

use pointsman_channels::{Channels, Failure, failure, transport_text};
use pointsman_ids::{Error, ErrorClass, ErrorCode};
use pointsman_proto::node::v1::{self as pb, shard_requests_client::ShardRequestsClient};
use tokio::time::timeout;
use tonic::{Request, Status};

use super::{MAX_ANSWER, broken::Broken, time::Time};
use crate::{leads::Peers, metrics};

/// Calls of other nodes.
#[derive(Clone, Debug)]
pub(crate) struct Siblings {
    channels: Channels,
    broken: Broken,
}

impl Siblings {
    pub(crate) fn new(channels: Channels) -> Self {
        Self { broken: Broken::new(channels.clone()), channels }
    }

    /// Asks a node, at most until the request's time is over.
    ///
    /// # Errors
    /// What the node says is wrong with the question; else a retriable one that names the node and what happened.
    pub(crate) async fn ask(
        &self,
        peers: &Peers,
        request: pb::AnswerSegmentsRequest,
        time: Time,
    ) -> Result<pb::AnswerSegmentsResponse, Error> {
        let number = request.node_id;
        let name = match peers.get(&number) {
            Some(peer) => format!("node '{}' ({number})", peer.name),
            None => format!("node {number}"),
        };
        let answer = self.call(peers, request, time).await.map_err(|error| error.context(name));
        metrics::sibling_call(answer.as_ref().err().map(Error::code));
        answer
    }

    async fn call(
        &self,
        peers: &Peers,
        request: pb::AnswerSegmentsRequest,
        time: Time,
    ) -> Result<pb::AnswerSegmentsResponse, Error> {
        let url = peers.get(&request.node_id).and_then(|peer| peer.url.as_ref()).ok_or_else(|| {
            Error::new(ErrorCode::CollectionNotFullyLoaded, "the coordinator gave no address of it")
        })?;
        self.broken.check(url)?;
        let mut client = ShardRequestsClient::new(self.channels.channel(url))
            .max_decoding_message_size(MAX_ANSWER)
            .max_encoding_message_size(usize::MAX);
        let left = time.left();
        let mut request = Request::new(request);
        request.set_timeout(left);
        match timeout(left, client.answer_segments(request)).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => {
                let error = refusal(&status);
                match failure(&status) {
                    Failure::Connect | Failure::Broken => self.broken.broke(url, error.clone()),
                    Failure::Answer if error.code() == ErrorCode::NodeSilent => self.broken.was_silent(url),
                    Failure::Answer | Failure::Stream => {}
                }
                Err(error)
            }
            Err(_) => {
                self.broken.was_silent(url);
                Err(silent())
            }
        }
    }
}

fn silent() -> Error {
    Error::new(ErrorCode::NodeSilent, "no answer came within the request's time")
}

/// What the failure of another node's part is to whoever asked this one.
fn refusal(status: &Status) -> Error {
    if failure(status) != Failure::Answer {
        let text = transport_text(status).unwrap_or_else(|| status.message().to_owned());
        return Error::new(ErrorCode::ServiceUnavailable, text);
    }
    let error = pointsman_proto::error(status);
    if status.details().is_empty() {
        // Nothing of ours wrote this: a deadline that passed there, or a process that does not know the call.
        return match error.code() {
            ErrorCode::DeadlineExceeded | ErrorCode::Cancelled => silent(),
            _ => Error::new(ErrorCode::ServiceUnavailable, error.message()),
        };
    }
    match error.code() {
        code if code.class() == ErrorClass::Input
            || code.is_retriable() && code != ErrorCode::ChannelMisrouted =>
        {
            error
        }
        // The question went the right way up to here; what the coordinator said of the other node is old.
        ErrorCode::SegmentNotLoaded | ErrorCode::ChannelMisrouted => {
            Error::new(ErrorCode::CollectionNotFullyLoaded, error.message())
        }
        ErrorCode::DeadlineExceeded => silent(),
        _ => Error::new(ErrorCode::ServiceUnavailable, error.message()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: ErrorCode) -> ErrorCode {
        refusal(&pointsman_proto::status(&Error::new(code, "why"))).code()
    }

    #[test]
    fn what_another_node_lacks_is_retriable_and_what_the_caller_did_wrong_is_not() {
        for code in [ErrorCode::ParameterInvalid, ErrorCode::QueryMemoryLimit, ErrorCode::NodeIoError] {
            assert_eq!(told(code), code);
        }
        assert_eq!(told(ErrorCode::SegmentNotLoaded), ErrorCode::CollectionNotFullyLoaded);
        assert_eq!(told(ErrorCode::ChannelMisrouted), ErrorCode::CollectionNotFullyLoaded);
        assert_eq!(told(ErrorCode::ServiceInternal), ErrorCode::ServiceUnavailable);
        assert_eq!(told(ErrorCode::DeadlineExceeded), ErrorCode::NodeSilent);
    }

    #[test]
    fn an_answer_that_is_not_ours_is_no_fault_of_the_caller() {
        for status in
            [Status::unimplemented("no such call"), Status::invalid_argument("?"), Status::unknown("x")]
        {
            assert_eq!(refusal(&status).code(), ErrorCode::ServiceUnavailable);
        }
        assert_eq!(refusal(&Status::cancelled("Timeout expired")).code(), ErrorCode::NodeSilent);
    }
}
