//! The list of exceptions: codes and order.

use pointsman_ids::{AnswerCode, Error};
use serde::Serialize;

/// One entry of `exceptions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Exception {
    /// The answer's code.
    pub(crate) error_code: i32,
    /// The text for people.
    pub(crate) message: String,
}

/// What went wrong, in the order in which clients are told: errors that nodes reported, errors of merging, nodes that
/// broke off, nodes that were silent, segments that are missing, clusters that are away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exceptions {
    found: Vec<(AnswerCode, String)>,
}

impl Exceptions {
    /// Adds an error under the code that its identity maps to.
    pub(crate) fn push(&mut self, error: &Error) {
        self.push_as(error.code().into(), error.message());
    }

    /// Adds a message under a code.
    pub(crate) fn push_as(&mut self, code: AnswerCode, message: impl Into<String>) {
        self.found.push((code, message.into()));
    }

    /// Whether nothing went wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The list as it stands in the answer. Errors of equal rank keep the order in which they were added.
    pub(crate) fn into_list(mut self) -> Vec<Exception> {
        self.found.sort_by_key(|(code, _)| rank(*code));
        let entry = |(code, message): (AnswerCode, String)| Exception { error_code: code.number(), message };
        self.found.into_iter().map(entry).collect()
    }
}

impl From<&Error> for Exceptions {
    fn from(error: &Error) -> Self {
        let mut exceptions = Self::default();
        exceptions.push(error);
        exceptions
    }
}

fn rank(code: AnswerCode) -> u8 {
    match code {
        AnswerCode::MergeFailed => 1,
        AnswerCode::NodeNotAvailable => 2,
        AnswerCode::NodeSilent => 3,
        AnswerCode::SegmentsUnavailable => 4,
        AnswerCode::ClusterNotConnected => 5,
        _ => 0,
    }
}

/// The HTTP status of an exception's code, for clients that ask for one by request header.
pub(crate) fn http_status(error_code: i32) -> u16 {
    let known = AnswerCode::ALL.iter().find(|code| code.number() == error_code);
    known.map_or(200, |code| code.http_status())
}

#[cfg(test)]
mod tests {
    use pointsman_ids::ErrorCode;

    use super::*;

    #[test]
    fn exceptions_stand_in_the_order_that_clients_know() {
        let mut exceptions = Exceptions::default();
        for code in [
            ErrorCode::ClusterNotConnected,
            ErrorCode::SegmentsUnavailable,
            ErrorCode::NodeSilent,
            ErrorCode::NodeNotAvailable,
            ErrorCode::Unknown,
        ] {
            exceptions.push(&Error::new(code, ""));
        }
        exceptions.push_as(AnswerCode::MergeFailed, "");
        let codes: Vec<_> = exceptions.into_list().iter().map(|exception| exception.error_code).collect();
        assert_eq!(codes, [200, 500, 425, 427, 305, 510]);
    }

    #[test]
    fn no_exception_is_http_200() {
        assert_eq!(http_status(-1), 200);
        assert_eq!(http_status(190), 404);
    }
}
