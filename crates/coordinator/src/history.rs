//! What changed of late in the feed, for brokers that were told some of it.

use std::sync::Arc;

use imbl::Vector;
use pointsman_ids::{Error, FeedVersion, feed::Delta};
use pointsman_proto::broker::v1 as pb;
use prost::Message;

/// More bytes of changes than this are not kept and not sent: a snapshot takes their place.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// One change.
#[derive(Debug)]
struct Step {
    delta: Delta,
    /// Its length on the wire.
    bytes: usize,
}

/// The newest changes in a row, few enough that all of them together may be sent. Clones share everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    steps: Vector<Arc<Step>>,
    bytes: usize,
}

impl History {
    /// Adds the next change and forgets the oldest beyond `limit` changes or [`MAX_BYTES`].
    pub(crate) fn push(&mut self, delta: Delta, limit: usize) {
        // The message itself is made again for who asks: kept, it would take more memory than all that it tells of.
        let bytes = pb::Delta::from(&delta).encoded_len();
        self.bytes += bytes;
        self.steps.push_back(Arc::new(Step { delta, bytes }));
        while self.steps.len() > limit || self.bytes > MAX_BYTES {
            let Some(gone) = self.steps.pop_front() else { break };
            self.bytes -= gone.bytes;
        }
    }

    /// Everything since a version as one change; `None` when that is not known any more, or never was.
    ///
    /// # Errors
    /// `parameter_invalid` if the changes do not continue each other, which they do.
    pub(crate) fn since(&self, version: FeedVersion) -> Result<Option<pb::Delta>, Error> {
        let Ok(at) = self.steps.binary_search_by(|step| step.delta.before.cmp(&version)) else {
            return Ok(None);
        };
        let steps: Vec<&Arc<Step>> = self.steps.iter().skip(at).collect();
        Ok(Some(match *steps {
            [only] => (&only.delta).into(),
            _ => (&joined(&steps)?).into(),
        }))
    }
}

/// Halves are joined first, so that nothing is copied more often than the logarithm of their number.
fn joined(steps: &[&Arc<Step>]) -> Result<Delta, Error> {
    match steps {
        [only] => Ok(only.delta.clone()),
        _ => {
            let (earlier, later) = steps.split_at(steps.len() / 2);
            joined(earlier)?.then(&joined(later)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn step(before: u64, value: String) -> Delta {
        Delta {
            config: Some(BTreeMap::from([("key".to_owned(), value)])),
            ..Delta::empty("local".parse().unwrap(), FeedVersion(before), FeedVersion(before + 1))
        }
    }

    fn history(steps: std::ops::Range<u64>, limit: usize) -> History {
        let mut history = History::default();
        steps.for_each(|at| history.push(step(at, at.to_string()), limit));
        history
    }

    #[test]
    fn what_a_broker_missed_comes_as_one_change() {
        let history = history(5..12, 100);
        for from in 5..12 {
            let delta = Delta::try_from(history.since(FeedVersion(from)).unwrap().unwrap()).unwrap();
            assert_eq!((delta.before, delta.after), (FeedVersion(from), FeedVersion(12)));
            assert_eq!(delta.config.unwrap()["key"], "11");
        }
        assert!(
            history.since(FeedVersion(12)).unwrap().is_none()
                && history.since(FeedVersion(4)).unwrap().is_none()
        );
    }

    #[test]
    fn it_keeps_so_many_changes_and_no_more() {
        let history = history(0..10, 3);
        assert!(history.since(FeedVersion(6)).unwrap().is_none());
        assert!(history.since(FeedVersion(7)).unwrap().is_some());
    }

    #[test]
    fn it_keeps_so_many_bytes_and_no_more() {
        let mut history = history(0..3, 100);
        history.push(step(3, "x".repeat(MAX_BYTES - 40)), 100);
        assert!(history.since(FeedVersion(0)).unwrap().is_none(), "the oldest made room");
        assert!(history.since(FeedVersion(3)).unwrap().is_some());
        history.push(step(4, "x".repeat(MAX_BYTES)), 100);
        assert!(history.since(FeedVersion(4)).unwrap().is_none(), "one that is too large alone is not kept");
        assert_eq!(history.bytes, 0);
    }
}
