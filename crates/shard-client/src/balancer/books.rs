//! What look-aside knows about each node: its last cost, the work that runs there, and its health.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_clock::MonoTime;
use pointsman_ids::NodeId;

use super::{Cost, NodeReport, score::score};
use crate::{Leader, Settings};

/// Forgotten nodes whose return is awaited; the oldest processes give way.
const FORGOTTEN: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct Rules {
    cost_expiry: Duration,
    check_every: Duration,
    check_timeout: Duration,
    retries: u32,
    session_ttl: Duration,
}

impl From<&Settings> for Rules {
    fn from(settings: &Settings) -> Self {
        Self {
            cost_expiry: settings.cost_expiry,
            check_every: settings.check_every(),
            check_timeout: settings.health_check_timeout,
            retries: settings.health_check_retries,
            session_ttl: settings.session_ttl,
        }
    }
}

impl Rules {
    fn makes_unavailable(&self, failures: u32) -> bool {
        failures >= self.retries
    }

    fn forgets(&self, failures: u32) -> bool {
        failures > self.retries && self.check_timeout.saturating_mul(failures) >= self.session_ttl
    }
}

/// A node's entry. It exists as long as it says anything.
#[derive(Debug, Default)]
struct Book {
    cost: Option<(Cost, MonoTime)>,
    executing: i64,
    /// Requests that failed since the last answer, where they count.
    failed: i64,
    /// Health checks that failed in a row.
    failures: u32,
    unavailable: bool,
    /// Where it was registered; `None`: it was not, or it was forgotten.
    registered: Option<Arc<str>>,
    forgotten: bool,
    checking: bool,
}

impl Book {
    fn is_alive(&mut self) {
        (self.failures, self.unavailable, self.forgotten) = (0, false, false);
    }

    fn score(&self, rules: &Rules, now: MonoTime) -> i64 {
        let work = self.executing.saturating_add(self.failed);
        score(work, self.cost.map(|(cost, told)| (cost, now - told > rules.cost_expiry)))
    }
}

/// The books of all nodes.
#[derive(Debug)]
pub(super) struct Books {
    rules: Rules,
    nodes: BTreeMap<NodeId, Book>,
}

impl Books {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, nodes: BTreeMap::new() }
    }

    /// A forgotten node comes back as one that has yet to pass a check: neither out for ever nor spotless.
    pub(super) fn register(&mut self, leader: &Leader) {
        let book = self.nodes.entry(leader.node).or_default();
        if std::mem::take(&mut book.forgotten) {
            (book.unavailable, book.failures) = (true, self.rules.retries);
        }
        if book.registered.as_deref() != Some(&*leader.address) {
            book.registered = Some(leader.address.clone());
        }
    }

    pub(super) fn is_unavailable(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|book| book.unavailable)
    }

    pub(super) fn score(&self, node: NodeId, now: MonoTime) -> i64 {
        self.nodes.get(&node).map_or(0, |book| book.score(&self.rules, now))
    }

    pub(super) fn begin(&mut self, node: NodeId, nq: i64) {
        let book = self.nodes.entry(node).or_default();
        book.executing = book.executing.saturating_add(nq);
    }

    pub(super) fn end(&mut self, node: NodeId, nq: i64) {
        let book = self.nodes.entry(node).or_default();
        book.executing = book.executing.saturating_sub(nq);
    }

    pub(super) fn ended(&mut self, node: NodeId, failed: bool) {
        if let Some(book) = self.nodes.get_mut(&node) {
            book.failed = if failed { book.failed.saturating_add(1) } else { 0 };
        }
    }

    pub(super) fn report_cost(&mut self, node: NodeId, cost: Cost, now: MonoTime) {
        let book = self.nodes.entry(node).or_default();
        book.cost = Some((cost, now));
        book.is_alive();
    }

    /// Nodes to check. One whose answer is younger than the interval has passed.
    pub(super) fn start_checks(&mut self, now: MonoTime) -> Vec<(NodeId, Arc<str>)> {
        let mut due = Vec::new();
        for (node, book) in &mut self.nodes {
            let Some(address) = &book.registered else { continue };
            if book.cost.is_some_and(|(_, told)| now - told <= self.rules.check_every) {
                book.is_alive();
            } else if !std::mem::replace(&mut book.checking, true) {
                due.push((*node, address.clone()));
            }
        }
        due
    }

    pub(super) fn checked(&mut self, node: NodeId, is_healthy: bool) {
        let Some(book) = self.nodes.get_mut(&node) else { return };
        book.checking = false;
        if book.registered.is_none() {
            return;
        }
        if is_healthy {
            book.is_alive();
            return;
        }
        book.failures = book.failures.saturating_add(1);
        book.unavailable = self.rules.makes_unavailable(book.failures);
        if self.rules.forgets(book.failures) {
            *book = Book { executing: book.executing, forgotten: true, ..Book::default() };
            self.limit_forgotten();
        }
    }

    pub(super) fn not_checked(&mut self, node: NodeId) {
        if let Some(book) = self.nodes.get_mut(&node) {
            book.checking = false;
        }
    }

    fn limit_forgotten(&mut self) {
        let forgotten = |book: &Book| book.forgotten && book.executing == 0;
        if self.nodes.values().filter(|book| forgotten(book)).count() > FORGOTTEN {
            let oldest = self.nodes.iter().find(|(_, book)| forgotten(book)).map(|(node, _)| *node);
            oldest.and_then(|node| self.nodes.remove(&node));
        }
    }

    pub(super) fn report(&self, now: MonoTime) -> Vec<NodeReport> {
        let report = |(node, book): (&NodeId, &Book)| NodeReport {
            node: *node,
            executing: book.executing,
            score: book.score(&self.rules, now),
            unavailable: book.unavailable,
            known: book.registered.is_some(),
        };
        self.nodes.iter().map(report).collect()
    }
}
