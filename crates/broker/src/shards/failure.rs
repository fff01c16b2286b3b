//! What a failed call to the leader of a shard means: for the request, and for the node.

use pointsman_channels::{Failure, failure, transport_text};
use pointsman_failure_detector::SuspicionCause;
use pointsman_ids::{ErrorClass, ErrorCode, NodeId};
use pointsman_proto::{common::v1 as pb, details, error_from_proto};
use pointsman_shard_client::ShardError;
use tonic::{Code, Status};

use super::nodes::Nodes;

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// For the request.
    pub(super) error: ShardError,
    charge: Charge,
}

/// What it holds against the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    /// It could not be reached, or broke off.
    Broken,
    /// It may be ill.
    Fault,
    /// It answered well: the question is wrong.
    Answered,
    /// Nothing.
    Nothing,
}

impl Failed {
    /// Reads a status. Only our own details can make an error the caller's fault: a node that does not know the call, or
    /// somebody on the way to it, says nothing about the question.
    pub(super) fn of(status: &Status) -> Self {
        match details(status) {
            Some(details) => Self::told(told(details)),
            None => Self::untold(status),
        }
    }

    fn told(error: ShardError) -> Self {
        let is_fault =
            matches!(error.code(), ErrorCode::ServiceInternal | ErrorCode::NodeIoError | ErrorCode::Unknown);
        let charge = match () {
            () if error.is_input() => Charge::Answered,
            () if is_fault => Charge::Fault,
            () => Charge::Nothing,
        };
        Self { error, charge }
    }

    fn untold(status: &Status) -> Self {
        let text = transport_text(status).unwrap_or_else(|| status.message().to_owned());
        let broken = |code| ShardError::new(code, text.clone());
        match (failure(status), status.code()) {
            (Failure::Connect | Failure::Broken, _) => {
                Self { error: broken(ErrorCode::NodeNotAvailable), charge: Charge::Broken }
            }
            // This call alone: worth another try elsewhere, and no verdict on the node.
            (Failure::Stream, _) => {
                Self { error: broken(ErrorCode::ServiceUnavailable), charge: Charge::Nothing }
            }
            // The node ends calls at the deadline that came with them.
            (Failure::Answer, Code::DeadlineExceeded | Code::Cancelled) => {
                Self { error: broken(ErrorCode::DeadlineExceeded), charge: Charge::Nothing }
            }
            (Failure::Answer, Code::Unimplemented) => {
                let text = "the node does not know requests by shard; it is of an older version";
                Self { error: ShardError::foreign(text), charge: Charge::Nothing }
            }
            (Failure::Answer, code) => {
                let text = format!("the node answered {code:?} without saying more: {text}");
                Self { error: ShardError::foreign(text), charge: Charge::Fault }
            }
        }
    }

    /// Tells the failure detector.
    pub(super) fn report(&self, nodes: &Nodes, node: NodeId) {
        match self.charge {
            Charge::Broken => nodes.report_unreachable(node, self.error.message()),
            Charge::Fault => nodes.report_suspicious(node, SuspicionCause::Fault, self.error.message()),
            Charge::Answered => nodes.report_answered(node),
            Charge::Nothing => {}
        }
    }
}

/// The error that its sender meant: of a newer version even one whose code is not known here.
pub(super) fn told(details: pb::Error) -> ShardError {
    let (retriable, class) = (details.retriable, class(details.class()));
    ShardError::from(error_from_proto(details)).with_retriable(retriable).with_class(class)
}

fn class(class: pb::ErrorClass) -> ErrorClass {
    match class {
        pb::ErrorClass::Input => ErrorClass::Input,
        pb::ErrorClass::System | pb::ErrorClass::Unspecified => ErrorClass::System,
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::Error;

    use super::*;

    fn of(status: &Status) -> (ErrorCode, bool, bool, Charge) {
        let Failed { error, charge } = Failed::of(status);
        (error.code(), error.is_retriable(), error.is_input(), charge)
    }

    #[test]
    fn what_a_node_says_counts_as_it_says_it() {
        let ours = |code| pointsman_proto::status(&Error::new(code, "it"));
        for (code, retriable, input, charge) in [
            (ErrorCode::ParameterInvalid, false, true, Charge::Answered),
            (ErrorCode::ChannelMisrouted, true, false, Charge::Nothing),
            (ErrorCode::CollectionNotFullyLoaded, true, false, Charge::Nothing),
            (ErrorCode::SegmentNotLoaded, false, false, Charge::Nothing),
            (ErrorCode::NodeIoError, true, false, Charge::Fault),
            (ErrorCode::ServiceInternal, false, false, Charge::Fault),
        ] {
            assert_eq!(of(&ours(code)), (code, retriable, input, charge));
        }
        let newer = pb::Error { code: 4711, retriable: true, class: 1, ..pb::Error::default() };
        let newer = told(newer);
        assert_eq!((newer.code(), newer.is_retriable(), newer.is_input()), (ErrorCode::Unknown, true, true));
    }

    #[test]
    fn without_our_details_nothing_is_the_callers_fault() {
        for (status, code, retriable, charge) in [
            (Status::unimplemented("no such method"), ErrorCode::Unknown, false, Charge::Nothing),
            (Status::invalid_argument("bad"), ErrorCode::Unknown, false, Charge::Fault),
            (Status::not_found("what"), ErrorCode::Unknown, false, Charge::Fault),
            (Status::deadline_exceeded("late"), ErrorCode::DeadlineExceeded, false, Charge::Nothing),
            (Status::cancelled("Timeout expired"), ErrorCode::DeadlineExceeded, false, Charge::Nothing),
        ] {
            assert_eq!(of(&status), (code, retriable, false, charge), "{status}");
        }
    }
}
