//! What changed of late in the feed, for brokers that were told some of it.

use std::sync::Arc;

use imbl::Vector;
use pointsman_ids::{
    Error, FeedVersion,
    feed::{CollectionDelta, CollectionEntry, Delta},
};
use pointsman_proto::broker::v1 as pb;

/// More bytes of changes than this are not sent: a snapshot takes their place.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// Changes that tell of so much are kept, however little there is.
const FEW: usize = 100_000;

/// Of more, those that tell of one in so many of all segments. A snapshot takes half the bytes of a change of all.
const SHARE: usize = 4;

/// One change.
#[derive(Debug)]
struct Step {
    delta: Delta,
    /// How much it tells of: segments above all, but also columns, partitions, nodes and settings.
    told: usize,
}

/// The newest changes in a row. Clones share everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    steps: Vector<Arc<Step>>,
    told: usize,
}

impl History {
    /// Adds the next change, that to a snapshot of `all` segments, and forgets the oldest: beyond `limit` changes, and
    /// those that would take more than the snapshot with all that came after them.
    pub(crate) fn push(&mut self, delta: Delta, limit: usize, all: usize) {
        let told = told(&delta);
        self.told += told;
        self.steps.push_back(Arc::new(Step { delta, told }));
        while self.steps.len() > limit || self.told > FEW.max(all / SHARE) {
            let Some(gone) = self.steps.pop_front() else { break };
            self.told -= gone.told;
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

fn told(delta: &Delta) -> usize {
    let head = |entry: &CollectionEntry| entry.columns.len() + entry.partitions.len();
    let collection = |told: &CollectionDelta| match told {
        CollectionDelta::Whole(entry) => entry.segments.len() + head(entry),
        CollectionDelta::Changed(change) => {
            let segments = change.segments.len() + change.removed.len() + change.copies.len();
            segments + change.leaders.len() + change.head.as_deref().map_or(0, head)
        }
    };
    let settings = delta.config.as_ref().map_or(0, |config| config.len());
    delta.nodes.len() + settings + delta.collections.iter().map(collection).sum::<usize>()
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

    use pointsman_ids::{CollectionName, feed::CollectionChange};

    use super::*;

    fn step(before: u64) -> Delta {
        Delta {
            config: Some(BTreeMap::from([("key".to_owned(), before.to_string())])),
            ..Delta::empty("local".parse().unwrap(), FeedVersion(before), FeedVersion(before + 1))
        }
    }

    /// One that takes so many segments away.
    fn removes(before: u64, count: usize) -> Delta {
        let name: CollectionName = "t".parse().unwrap();
        let removed = (0..count).map(|at| format!("s{at:06}").parse().unwrap()).collect();
        let change = CollectionChange { removed, ..CollectionChange::empty(name, FeedVersion(before + 1)) };
        Delta { collections: vec![CollectionDelta::Changed(change)], config: None, ..step(before) }
    }

    fn history(steps: std::ops::Range<u64>, limit: usize) -> History {
        let mut history = History::default();
        steps.for_each(|at| history.push(step(at), limit, 0));
        history
    }

    fn knows(history: &History, version: u64) -> bool {
        history.since(FeedVersion(version)).unwrap().is_some()
    }

    #[test]
    fn what_a_broker_missed_comes_as_one_change() {
        let history = history(5..12, 100);
        for from in 5..12 {
            let delta = Delta::try_from(history.since(FeedVersion(from)).unwrap().unwrap()).unwrap();
            assert_eq!((delta.before, delta.after), (FeedVersion(from), FeedVersion(12)));
            assert_eq!(delta.config.unwrap()["key"], "11");
        }
        assert!(!knows(&history, 12) && !knows(&history, 4));
    }

    #[test]
    fn it_keeps_so_many_changes_and_no_more() {
        let history = history(0..10, 3);
        assert!(!knows(&history, 6) && knows(&history, 7));
    }

    #[test]
    fn it_keeps_what_tells_of_little_and_no_more() {
        let mut history = history(0..3, 100);
        history.push(removes(3, FEW - 4), 100, 0);
        history.push(removes(4, 1), 100, 0);
        assert!(knows(&history, 0), "that much is kept");
        history.push(removes(5, 1), 100, 0);
        assert!(!knows(&history, 0) && knows(&history, 1), "the oldest made room");
        history.push(removes(6, FEW + 1), 100, 0);
        assert!(!knows(&history, 6), "one that is too large alone is not kept");
        assert_eq!(history.told, 0);
    }

    #[test]
    fn where_there_are_many_segments_changes_of_a_share_of_them_are_kept() {
        let mut history = History::default();
        history.push(removes(0, 2 * FEW), 100, 2 * FEW * SHARE);
        assert!(knows(&history, 0));
        history.push(removes(1, 1), 100, 2 * FEW * SHARE);
        assert!(!knows(&history, 0) && knows(&history, 1));
    }
}
