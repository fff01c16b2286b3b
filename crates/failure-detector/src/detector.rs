//! The state machine.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{Error, Incarnation, NodeKey, NodeName};

use crate::{Action, Counters, Event, Inclusion, Key, Kind, Outcome, Settings};

/// Who is excluded, and when they are looked at again. Times are since the driver's start.
#[derive(Debug)]
pub struct Detector {
    settings: Settings,
    members: BTreeMap<NodeKey, Member>,
    /// The unhealthy set.
    records: BTreeMap<Key, Record>,
    /// Probes under way: one per key.
    probing: BTreeMap<Key, Purpose>,
    illnesses: u64,
    counters: Counters,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    incarnation: Incarnation,
    enabled: bool,
}

/// The illness of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was marked.
    pub since: Duration,
    /// What was seen.
    pub evidence: String,
    /// When the next retry is due.
    pub next: Duration,
    /// The wait that led to it.
    pub delay: Duration,
    /// Failed probes so far.
    pub tries: u64,
    /// Number of this illness among all, so that a verdict about an earlier one is told apart.
    illness: u64,
}

/// Why a probe is under way.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The retry of this illness.
    Retry(u64),
    /// A healthy node of this incarnation that was suspected.
    Check(Incarnation),
}

impl Detector {
    /// A detector that knows nobody.
    ///
    /// # Errors
    /// `parameter_invalid` naming the setting that is out of range.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        Ok(Self {
            settings,
            members: BTreeMap::new(),
            records: BTreeMap::new(),
            probing: BTreeMap::new(),
            illnesses: 0,
            counters: Counters::default(),
        })
    }

    /// Takes an event and says what is to be done, in this order.
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Failed { key, incarnation, evidence } => {
                if self.is_stale(&key, incarnation) {
                    self.counters.stale_reports += 1;
                } else {
                    self.mark_unhealthy(key, evidence, now, &mut actions);
                }
            }
            Event::Recovered { key } => self.mark_healthy(key, Inclusion::Reported, &mut actions),
            Event::Suspected { node } => self.check(node, &mut actions),
            Event::Probed { key, outcome } => self.probed(key, outcome, now, &mut actions),
            Event::Member { node, incarnation, enabled } => {
                self.member(node, Member { incarnation, enabled }, &mut actions);
            }
            Event::Removed { node } => self.removed(node, &mut actions),
            Event::Tick => self.tick(now, &mut actions),
        }
        actions
    }

    /// When [`Event::Tick`] is due; `None`: not before something else happens. A retry whose node is still being
    /// probed waits for that probe.
    pub fn next_wakeup(&self) -> Option<Duration> {
        let waiting = self.records.iter().filter(|(key, _)| !self.probing.contains_key(key));
        waiting.map(|(_, record)| record.next).min()
    }

    /// Whether a node stands in the unhealthy set, under either of its keys.
    pub fn is_unhealthy(&self, node: &NodeKey) -> bool {
        self.record(node).is_some()
    }

    /// The record of a node; that of its bare name if it has none of its own.
    pub fn record(&self, node: &NodeKey) -> Option<&Record> {
        Key::both(node).iter().find_map(|key| self.records.get(key))
    }

    /// The unhealthy set, by key.
    pub fn unhealthy(&self) -> impl Iterator<Item = (&Key, &Record)> {
        self.records.iter()
    }

    /// What has been counted since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A report about a process that has been followed by another says nothing about the one that runs now.
    fn is_stale(&self, key: &Key, incarnation: Option<Incarnation>) -> bool {
        let (Key::Node(node), Some(about)) = (key, incarnation) else { return false };
        self.members.get(node).is_some_and(|member| about < member.incarnation)
    }

    fn mark_unhealthy(&mut self, key: Key, evidence: String, now: Duration, actions: &mut Vec<Action>) {
        if self.settings.kind == Kind::None || self.records.contains_key(&key) {
            return;
        }
        self.illnesses += 1;
        let delay = self.settings.initial_delay;
        let next = now.saturating_add(delay);
        let record = Record { since: now, evidence, next, delay, tries: 0, illness: self.illnesses };
        self.records.insert(key.clone(), record);
        self.counters.exclusions += 1;
        actions.push(Action::Exclude(key));
    }

    fn mark_healthy(&mut self, key: Key, reason: Inclusion, actions: &mut Vec<Action>) {
        if self.records.remove(&key).is_some() {
            self.counters.included(reason);
            actions.push(Action::Include(key));
        }
    }

    fn check(&mut self, node: NodeKey, actions: &mut Vec<Action>) {
        let Some(member) = self.members.get(&node).filter(|member| member.enabled) else { return };
        let ill = self.is_unhealthy(&node);
        let key = Key::Node(node);
        if self.settings.kind == Kind::None || ill || self.probing.contains_key(&key) {
            return;
        }
        self.probing.insert(key.clone(), Purpose::Check(member.incarnation));
        actions.push(Action::Probe(key));
    }

    fn probed(&mut self, key: Key, outcome: Outcome, now: Duration, actions: &mut Vec<Action>) {
        self.counters.probed(&outcome);
        let bad = match outcome {
            Outcome::Healthy | Outcome::Unknown => None,
            Outcome::Unhealthy(evidence) | Outcome::Error(evidence) => Some(evidence),
            Outcome::NotEnabled => Some("nobody has it enabled".to_owned()),
        };
        match (self.probing.remove(&key), bad) {
            (None, _) => {}
            (Some(Purpose::Retry(illness)), bad) => {
                let Some(record) = self.records.get_mut(&key).filter(|record| record.illness == illness)
                else {
                    return;
                };
                if bad.is_none() {
                    return self.mark_healthy(key, Inclusion::Probe, actions);
                }
                record.delay = self.settings.grown(record.delay);
                record.next = now.saturating_add(record.delay);
                record.tries += 1;
            }
            (Some(Purpose::Check(incarnation)), bad) => {
                if self.is_stale(&key, Some(incarnation)) {
                    self.counters.stale_reports += 1;
                } else if let (Some(evidence), true) = (bad, self.is_enabled(&key)) {
                    self.mark_unhealthy(key, evidence, now, actions);
                }
            }
        }
    }

    fn is_enabled(&self, key: &Key) -> bool {
        matches!(key, Key::Node(node) if self.members.get(node).is_some_and(|member| member.enabled))
    }

    /// A node that becomes enabled, or starts anew while it is, begins with a clean record.
    fn member(&mut self, node: NodeKey, member: Member, actions: &mut Vec<Action>) {
        let before = self.members.insert(node.clone(), member);
        let starts_clean = member.enabled
            && before.is_none_or(|before| !before.enabled || before.incarnation < member.incarnation);
        if starts_clean {
            for key in Key::both(&node) {
                self.mark_healthy(key, Inclusion::ReEnabled, actions);
            }
        }
    }

    fn removed(&mut self, node: NodeKey, actions: &mut Vec<Action>) {
        self.members.remove(&node);
        let name = node.node.clone();
        self.mark_healthy(Key::Node(node), Inclusion::Removed, actions);
        if !self.has_member_named(&name) {
            self.mark_healthy(Key::Bare(name), Inclusion::Removed, actions);
        }
    }

    fn has_member_named(&self, name: &NodeName) -> bool {
        self.members.keys().any(|member| member.node == *name)
    }

    /// Retries that are due, in the order of their times and then of their keys.
    fn tick(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let due = |(key, record): (&Key, &Record)| {
            let due = record.next <= now && !self.probing.contains_key(key);
            due.then(|| (record.next, key.clone(), record.illness))
        };
        let mut due: Vec<_> = self.records.iter().filter_map(due).collect();
        due.sort();
        for (_, key, illness) in due {
            let used_up = self.records.get(&key).is_some_and(|record| {
                u64::try_from(self.settings.max_retries).is_ok_and(|limit| record.tries == limit)
            });
            if used_up {
                self.mark_healthy(key, Inclusion::Forced, actions);
            } else {
                self.probing.insert(key.clone(), Purpose::Retry(illness));
                actions.push(Action::Probe(key));
            }
        }
    }
}
