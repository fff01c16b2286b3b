//! One query's tries.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pointsman_ids::{Error, ErrorCode, NodeKey};

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
}

impl Attempts {
    /// The first attempt of a query that began at `started`.
    pub fn new(limits: Limits, started: Duration) -> Self {
        Self { limits, started, number: 1, failed: BTreeMap::new(), failed_nodes: BTreeSet::new() }
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
        let mut last = None;
        let mut somebody_new = false;
        for (node, error) in nodes {
            somebody_new |= self.failed_nodes.insert(node.clone());
            last = Some(error.clone());
            self.failed.insert(node, error);
        }
        let last = last.unwrap_or_else(|| {
            Error::new(ErrorCode::ServiceInternal, "an attempt failed because of a node that nobody named")
        });
        if self.remaining(now).is_zero() {
            return Decision::GiveUp(self.deadline_exceeded(now));
        }
        if !somebody_new {
            // The same query would meet the same node again.
            return Decision::GiveUp(last);
        }
        if self.number >= self.limits.max_attempts {
            return Decision::GiveUp(last.context(format_args!("gave up after {} attempts", self.number)));
        }
        self.number += 1;
        Decision::Again
    }

    /// The attempt met the routing at a bad moment, such as a node that does not hold a segment any more, without a
    /// node being at fault. It runs again while tries and time are left.
    pub fn lagged(&mut self, error: Error, now: Duration) -> Decision {
        if self.remaining(now).is_zero() {
            return Decision::GiveUp(self.deadline_exceeded(now));
        }
        if self.number >= self.limits.max_attempts {
            return Decision::GiveUp(error.context(format_args!("gave up after {} attempts", self.number)));
        }
        self.number += 1;
        Decision::Again
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
