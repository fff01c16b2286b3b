//! One query's tries.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use pointsman_ids::{Error, ErrorCode, NodeKey};

use crate::RetryBudget;

/// How far a query may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How often it runs at most, the first time included; at least 1.
    pub max_attempts: u32,
    /// How long it may take in all, the tries together.
    pub timeout: Duration,
}

/// What comes after an attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run the query again without [`Attempts::failed_nodes`].
    Again,
    /// This is the answer.
    GiveUp(Error),
}

/// The attempts of one query.
#[derive(Clone, Debug)]
pub struct Attempts {
    limits: Limits,
    started: Duration,
    number: u32,
    failed: BTreeMap<NodeKey, Error>,
    failed_nodes: BTreeSet<NodeKey>,
    budget: Option<Arc<RetryBudget>>,
    /// Nodes that are asked although they are known to be ill.
    excused: BTreeSet<NodeKey>,
    /// Whether nodes failed since the budget was asked last, and whether one of them is not excused.
    blame: Option<bool>,
}

impl Attempts {
    /// The first attempt of a query that began at `started`.
    pub fn new(limits: Limits, started: Duration) -> Self {
        let (failed, failed_nodes) = (BTreeMap::new(), BTreeSet::new());
        Self {
            limits,
            started,
            number: 1,
            failed,
            failed_nodes,
            budget: None,
            excused: BTreeSet::new(),
            blame: None,
        }
    }

    /// The same, within what all queries of the broker may spend on retries.
    #[must_use]
    pub fn within(self, budget: Arc<RetryBudget>) -> Self {
        Self { budget: Some(budget), ..self }
    }

    /// Counts parts that are sent for this query.
    pub fn sent(&self, parts: u64, now: Duration) {
        if let Some(budget) = &self.budget {
            budget.sent(parts, now);
        }
    }

    /// How far the query may go.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Number of the attempt that runs, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Time left for this attempt and all that may follow.
    pub fn remaining(&self, now: Duration) -> Duration {
        self.limits.timeout.saturating_sub(now.saturating_sub(self.started))
    }

    /// Nodes that failed under this query: out for the rest of it.
    pub fn failed_nodes(&self) -> &BTreeSet<NodeKey> {
        &self.failed_nodes
    }

    /// The same nodes with how each of them failed last.
    pub fn failures(&self) -> &BTreeMap<NodeKey, Error> {
        &self.failed
    }

    /// The error of a query whose time has passed.
    pub fn deadline_exceeded(&self, now: Duration) -> Error {
        let (spent, timeout) = (now.saturating_sub(self.started), self.limits.timeout);
        let message = format!(
            "the query's timeout of {timeout:?} has passed ({spent:?} spent, attempt {})",
            self.number
        );
        Error::new(ErrorCode::DeadlineExceeded, message)
    }

    /// The attempt failed because of these nodes. Every one of them counts, not only the first.
    pub fn failed(&mut self, nodes: impl IntoIterator<Item = (NodeKey, Error)>, now: Duration) -> Decision {
        let (mut last, mut parts, mut somebody_new) = (None, 0, false);
        self.begin_failure();
        for (node, error) in nodes {
            somebody_new |= self.note(node, error.clone());
            last = Some(error);
            parts += 1;
        }
        let last = last.unwrap_or_else(|| {
            Error::new(ErrorCode::ServiceInternal, "an attempt failed because of a node that nobody named")
        });
        if !somebody_new && !self.remaining(now).is_zero() {
            // The same query would meet the same node again.
            return Decision::GiveUp(last);
        }
        self.again(last, parts, now)
    }

    /// The attempt met the routing at a bad moment, such as a node that does not hold a segment any more, without a
    /// node being at fault. It runs again while tries, time and the budget are left.
    pub fn lagged(&mut self, error: Error, now: Duration) -> Decision {
        self.begin_failure();
        self.again(error, 1, now)
    }

    /// Something else failed: whom the last failure is to be charged to does not matter any more.
    pub(crate) fn begin_failure(&mut self) {
        self.blame = None;
    }

    /// Remembers a node that failed; it is out for the rest of the query. Says whether it is new among them.
    pub(crate) fn note(&mut self, node: NodeKey, error: Error) -> bool {
        let excused = self.excused.contains(&node);
        self.blame = Some(self.blame.unwrap_or_default() || !excused);
        self.failed.insert(node.clone(), error);
        self.failed_nodes.insert(node)
    }

    /// The attempt that runs is at least the one of this number: parts of it were asked for so often.
    pub(crate) fn advance_to(&mut self, number: u32) {
        self.number = self.number.max(number);
    }

    /// Goes on to the next attempt, for so many parts that failed, if it is allowed.
    pub(crate) fn again(&mut self, error: Error, parts: u64, now: Duration) -> Decision {
        if self.remaining(now).is_zero() {
            return Decision::GiveUp(self.deadline_exceeded(now));
        }
        if self.number >= self.limits.max_attempts {
            return Decision::GiveUp(error.context(format_args!("gave up after {} attempts", self.number)));
        }
        if !self.take(parts, now) {
            return Decision::GiveUp(error.context("gave up, the broker's budget for retries is used up"));
        }
        self.number += 1;
        Decision::Again
    }

    /// These nodes are asked although they are known to be ill, because nobody else holds what they hold. When nobody
    /// but them fails, what comes next costs nothing of the budget: it was to be expected, and a try that may help is
    /// not to take the retries of others away.
    pub fn excuse(&mut self, nodes: impl IntoIterator<Item = NodeKey>) {
        self.excused.extend(nodes);
    }

    /// Asks the budget for so many parts; without one everything is granted.
    pub(crate) fn take(&mut self, parts: u64, now: Duration) -> bool {
        if self.blame.take() == Some(false) {
            return true;
        }
        self.budget.as_ref().is_none_or(|budget| budget.take(parts, now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn failure(node: u32) -> (NodeKey, Error) {
        let key = NodeKey { cluster: "local".parse().unwrap(), node: format!("n{node}").parse().unwrap() };
        (key, Error::new(ErrorCode::NodeNotAvailable, format!("node 'n{node}' broke off")))
    }

    fn attempts(max_attempts: u32) -> Attempts {
        Attempts::new(Limits { max_attempts, timeout: Duration::from_secs(10) }, Duration::from_secs(100))
    }

    const SOON: Duration = Duration::from_secs(101);

    #[test]
    fn it_gives_up_with_the_last_cause_when_the_tries_are_used_up() {
        let mut attempts = attempts(2);
        assert_eq!(attempts.failed([failure(1)], SOON), Decision::Again);
        assert_eq!(attempts.number(), 2);
        let Decision::GiveUp(error) = attempts.failed([failure(2)], SOON) else { panic!("went on") };
        assert_eq!(error.to_string(), "gave up after 2 attempts: node 'n2' broke off");
        assert_eq!(error.code(), ErrorCode::NodeNotAvailable);
        assert_eq!(attempts.failed_nodes().len(), 2);
    }

    #[test]
    fn it_gives_up_when_the_time_has_passed() {
        let mut attempts = attempts(3);
        let Decision::GiveUp(error) = attempts.failed([failure(1)], Duration::from_secs(110)) else {
            panic!("went on")
        };
        assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
        assert!(error.to_string().contains("10s"), "{error}");
    }

    #[test]
    fn a_node_that_was_left_out_and_fails_again_ends_it() {
        let mut attempts = attempts(9);
        assert_eq!(attempts.failed([failure(1)], SOON), Decision::Again);
        assert!(matches!(attempts.failed([failure(1)], SOON), Decision::GiveUp(_)));
    }

    #[test]
    fn a_routing_that_lags_leaves_nobody_out() {
        let mut attempts = attempts(2);
        let lack = || Error::new(ErrorCode::SegmentNotLoaded, "n1 does not hold 'a'");
        assert_eq!(attempts.lagged(lack(), SOON), Decision::Again);
        assert!(attempts.failed_nodes().is_empty());
        assert!(
            matches!(attempts.lagged(lack(), SOON), Decision::GiveUp(error) if error.code() == ErrorCode::SegmentNotLoaded)
        );
    }

    #[test]
    fn nodes_that_are_known_to_be_ill_cost_nothing_of_the_budget() {
        let budget = Arc::new(RetryBudget::new(0.2));
        for _ in 0..50 {
            let mut attempts = attempts(3).within(Arc::clone(&budget));
            attempts.excuse([failure(1).0]);
            assert_eq!(attempts.failed([failure(1)], SOON), Decision::Again);
        }
        assert_eq!(budget.exhausted(), 0);
        let again = (0..50).filter(|_| {
            let mut attempts = attempts(3).within(Arc::clone(&budget));
            attempts.excuse([failure(1).0]);
            attempts.failed([failure(1), failure(2)], SOON) == Decision::Again
        });
        assert_eq!(again.count(), 5, "two parts each, ten in all: one node was well");
    }

    #[test]
    fn what_is_excused_is_one_failure_and_not_the_next() {
        let budget = Arc::new(RetryBudget::new(0.2));
        let again = (0..20).filter(|_| {
            let mut attempts = attempts(3).within(Arc::clone(&budget));
            attempts.excuse([failure(1).0]);
            attempts.note(failure(1).0, failure(1).1);
            attempts.lagged(failure(2).1, SOON) == Decision::Again
        });
        assert_eq!(again.count(), 10);
    }

    #[test]
    fn the_budget_of_all_queries_bounds_each() {
        let budget = Arc::new(RetryBudget::new(0.2));
        let mut again = 0;
        for query in 0..30 {
            let mut attempts = attempts(3).within(Arc::clone(&budget));
            attempts.sent(1, SOON);
            match attempts.failed([failure(query)], SOON) {
                Decision::Again => again += 1,
                Decision::GiveUp(error) => {
                    assert!(error.to_string().contains("budget"), "{error}");
                    assert_eq!(error.code(), ErrorCode::NodeNotAvailable);
                }
            }
        }
        assert_eq!((again, budget.exhausted()), (10, 20));
    }

    proptest! {
        #[test]
        fn attempts_end(max in 1..5u32, rounds in proptest::collection::vec((0..4u32, 0..3u64), 0..20)) {
            let mut attempts = attempts(max);
            let mut now = Duration::from_secs(100);
            let mut again = 0;
            for (node, pause) in rounds {
                now += Duration::from_secs(pause);
                if attempts.failed([failure(node)], now) != Decision::Again {
                    break;
                }
                again += 1;
            }
            prop_assert!(again < max);
            prop_assert_eq!(attempts.number(), again + 1);
        }
    }
}
