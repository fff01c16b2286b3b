//! What is counted of each request.

use pointsman_ids::Error;
use pointsman_proto::common::v1::{Question as Sent, question::Kind};
use tokio::time::Instant;

use crate::metrics;

/// One request, until it has ended. Dropped before, it counts as cancelled.
#[derive(Debug)]
pub(super) struct Watch {
    call: &'static str,
    kind: &'static str,
    began: Instant,
    ended: bool,
}

impl Watch {
    /// It begins.
    pub(super) fn begin(call: &'static str, question: Option<&Sent>) -> Self {
        let kind = match question.and_then(|question| question.kind.as_ref()) {
            Some(Kind::Search(_)) => "search",
            Some(Kind::Get(_)) => "get",
            Some(Kind::Query(_)) => "query",
            None => "none",
        };
        Self { call, kind, began: Instant::now(), ended: false }
    }

    /// It ends.
    pub(super) fn end<T>(mut self, result: &Result<T, Error>) {
        self.ended = true;
        let outcome = result.as_ref().err().map_or("ok", |error| error.code().name());
        metrics::shard_request(self.call, self.kind, outcome, self.began.elapsed());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.ended {
            metrics::shard_request(self.call, self.kind, "cancelled", self.began.elapsed());
        }
    }
}
