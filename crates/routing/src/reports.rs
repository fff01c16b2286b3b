//! What queries tell of nodes, until the keeper takes it. Telling never waits.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use parking_lot::Mutex;
use pointsman_failure_detector::{Event, Key, SuspicionCause};
use pointsman_ids::{Incarnation, NodeKey};
use tokio::sync::Notify;

/// Suspicions and answers that wait. The keeper takes all that wait at once, so there are more only while it is held
/// up; one that finds no room is dropped, and the next query sees the same.
const ROOM: usize = 1024;

/// Reports of queries.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    waiting: Mutex<Waiting>,
    /// Whether an answer may end a row of suspicions. Set before a suspicion can be taken, so that no answer after it
    /// is lost.
    suspicious: AtomicBool,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By process: many queries see the same failure.
    failed: BTreeMap<(NodeKey, Incarnation), String>,
    others: VecDeque<Event>,
}

impl Reports {
    pub(crate) fn failed(&self, node: &NodeKey, incarnation: Incarnation, evidence: &str) {
        let mut waiting = self.waiting.lock();
        waiting.failed.entry((node.clone(), incarnation)).or_insert_with(|| evidence.to_owned());
        drop(waiting);
        self.news.notify_one();
    }

    pub(crate) fn suspicious(
        &self,
        node: &NodeKey,
        incarnation: Incarnation,
        cause: SuspicionCause,
        evidence: &str,
    ) {
        let (node, evidence) = (node.clone(), evidence.to_owned());
        self.add(Event::Suspicious { node, incarnation, cause, evidence });
    }

    /// Costs one read while no node is suspected.
    pub(crate) fn answered(&self, node: &NodeKey, incarnation: Incarnation) {
        if self.suspicious.load(Relaxed) {
            self.add(Event::Answered { node: node.clone(), incarnation });
        }
    }

    fn add(&self, event: Event) {
        let mut waiting = self.waiting.lock();
        let again = matches!(event, Event::Answered { .. }) && waiting.others.back() == Some(&event);
        if again || waiting.others.len() >= ROOM {
            return;
        }
        waiting.others.push_back(event);
        self.suspicious.store(true, Relaxed);
        drop(waiting);
        self.news.notify_one();
    }

    /// Whether the detector, having taken all that was waiting, suspects anybody.
    pub(crate) fn set_suspicious(&self, suspicious: bool) {
        let waiting = self.waiting.lock();
        self.suspicious.store(suspicious || !waiting.others.is_empty(), Relaxed);
    }

    /// All that waits; waits for something.
    pub(crate) async fn next(&self) -> Vec<Event> {
        loop {
            let Waiting { failed, others } = std::mem::take(&mut *self.waiting.lock());
            if !failed.is_empty() || !others.is_empty() {
                let failed = failed.into_iter().map(|((node, incarnation), evidence)| Event::Failed {
                    key: Key::Node(node),
                    incarnation: Some(incarnation),
                    evidence,
                });
                return failed.chain(others).collect();
            }
            self.news.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeKey {
        NodeKey { cluster: "local".parse().unwrap(), node: "n1".parse().unwrap() }
    }

    #[tokio::test]
    async fn the_same_failure_is_told_once() {
        let reports = Reports::default();
        for _ in 0..3 {
            reports.failed(&node(), Incarnation(1), "reset");
        }
        reports.failed(&node(), Incarnation(2), "reset");
        assert_eq!(reports.next().await.len(), 2);
    }

    #[tokio::test]
    async fn an_answer_is_told_from_the_first_suspicion_on_until_nobody_is_suspected() {
        let reports = Reports::default();
        reports.answered(&node(), Incarnation(1));
        reports.suspicious(&node(), Incarnation(1), SuspicionCause::Silent, "no answer");
        reports.answered(&node(), Incarnation(1));
        reports.answered(&node(), Incarnation(1));
        let told = reports.next().await;
        assert!(matches!(told[..], [Event::Suspicious { .. }, Event::Answered { .. }]), "{told:?}");
        reports.set_suspicious(false);
        reports.answered(&node(), Incarnation(1));
        reports.failed(&node(), Incarnation(1), "reset");
        assert!(matches!(reports.next().await[..], [Event::Failed { .. }]));
    }

    #[tokio::test]
    async fn a_suspicion_that_comes_while_others_are_taken_keeps_answers_coming() {
        let reports = Reports::default();
        reports.suspicious(&node(), Incarnation(1), SuspicionCause::Fault, "io");
        let _taken = reports.next().await;
        reports.suspicious(&node(), Incarnation(1), SuspicionCause::Fault, "io");
        reports.set_suspicious(false);
        reports.answered(&node(), Incarnation(1));
        assert_eq!(reports.next().await.len(), 2);
    }

    #[tokio::test]
    async fn it_holds_so_many_and_no_more() {
        let reports = Reports::default();
        for _ in 0..2 * ROOM {
            reports.suspicious(&node(), Incarnation(1), SuspicionCause::Fault, "io");
        }
        reports.failed(&node(), Incarnation(1), "reset");
        assert_eq!(reports.next().await.len(), ROOM + 1, "and a failure always has room");
    }
}
