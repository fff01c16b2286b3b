//! The state machine.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::{Error, Incarnation, NodeKey};

use crate::{
    Action, Counters, Event, Inclusion, Key, Kind, Outcome, Probe, Record, Settings, SuspicionCause,
    Suspicions,
    members::{Member, Members},
    probes::{Probes, Purpose},
    suspicions::Rows,
};

/// Who is excluded, and when they are looked at again. Times are since the driver's start and never go back.
#[derive(Debug)]
pub struct Detector {
    settings: Settings,
    members: Members,
    /// The unhealthy set.
    records: BTreeMap<Key, Record>,
    rows: Rows,
    probes: Probes,
    illnesses: u64,
    counters: Counters,
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
            members: Members::default(),
            records: BTreeMap::new(),
            rows: Rows::default(),
            probes: Probes::default(),
            illnesses: 0,
            counters: Counters::default(),
        })
    }

    /// Takes an event and says what is to be done, in this order.
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Failed { key, incarnation, evidence } => {
                self.failed(key, incarnation, evidence, now, &mut actions);
            }
            Event::Suspicious { node, incarnation, cause, evidence } => {
                self.suspicious(node, (incarnation, cause, evidence), now, &mut actions);
            }
            Event::Answered { node, incarnation } => self.answered(&node, incarnation),
            Event::Recovered { key } => self.mark_healthy(key, Inclusion::Reported, &mut actions),
            Event::ProbeWanted { node, incarnation } => self.look(node, incarnation, now, &mut actions),
            Event::Probed { probe, outcome } => self.probed(probe, outcome, now, &mut actions),
            Event::Member { node, incarnation, enabled } => {
                self.member(node, Member { incarnation, enabled }, true, &mut actions);
            }
            Event::KnownMember { node, incarnation, enabled } => {
                self.member(node, Member { incarnation, enabled }, false, &mut actions);
            }
            Event::Removed { node } => self.removed(node, &mut actions),
            Event::Tick => self.tick(now, &mut actions),
        }
        actions
    }

    /// When [`Event::Tick`] is due; `None`: not before something else happens. A retry whose node is still being
    /// probed waits for that probe, and no longer than for a bounded time.
    pub fn next_wakeup(&self) -> Option<Duration> {
        let waiting = self.records.iter().filter(|(key, _)| !self.probes.is_under_way(key));
        waiting.map(|(_, record)| record.next).chain(self.probes.next_expiry()).min()
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

    /// Whether any node has a row of suspicions, so that [`Event::Answered`] may matter.
    pub fn has_suspicions(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Nodes with a row of suspicions, by node. A row that has grown too old to count may still be among them.
    pub fn suspects(&self) -> impl Iterator<Item = (&NodeKey, &Suspicions)> {
        self.rows.iter()
    }

    /// What has been counted since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn failed(
        &mut self,
        key: Key,
        incarnation: Option<Incarnation>,
        evidence: String,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if let (Key::Node(node), Some(incarnation)) = (&key, incarnation)
            && self.is_stale(node, incarnation)
        {
            return;
        }
        self.mark_unhealthy(key, evidence, now, actions);
    }

    fn suspicious(
        &mut self,
        node: NodeKey,
        suspicion: (Incarnation, SuspicionCause, String),
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let (incarnation, cause, _) = suspicion;
        if self.is_stale(&node, incarnation) {
            return;
        }
        self.counters.suspected(cause);
        let Settings { kind, suspicion_limit: limit, suspicion_window: window, .. } = self.settings;
        let key = Key::Node(node.clone());
        if kind == Kind::None || limit == 0 || self.records.contains_key(&key) {
            return;
        }
        let said = suspicion.2.clone();
        let count = self.rows.add(&node, suspicion, now, window);
        if u32::try_from(count).is_ok_and(|count| count >= limit) {
            let evidence = format!("{count} suspicions in a row, the last: {} ({said})", cause.as_str());
            self.mark_unhealthy(key, evidence, now, actions);
        }
    }

    fn answered(&mut self, node: &NodeKey, incarnation: Incarnation) {
        if self.rows.contain(node) && !self.is_stale(node, incarnation) {
            self.rows.end(node);
        }
    }

    /// News of a process that has been followed by another says nothing about the one that runs now.
    fn is_stale(&mut self, node: &NodeKey, incarnation: Incarnation) -> bool {
        let stale =
            self.members.is_followed(node, incarnation) || self.rows.are_about_later(node, incarnation);
        self.counters.stale_reports += u64::from(stale);
        stale
    }

    fn mark_unhealthy(&mut self, key: Key, evidence: String, now: Duration, actions: &mut Vec<Action>) {
        if self.settings.kind == Kind::None || self.records.contains_key(&key) {
            return;
        }
        if let Key::Node(node) = &key {
            self.rows.end(node);
        }
        self.illnesses += 1;
        self.records.insert(key.clone(), Record::new(self.illnesses, evidence, now, &self.settings));
        self.counters.exclusions += 1;
        actions.push(Action::Exclude(key));
    }

    fn mark_healthy(&mut self, key: Key, reason: Inclusion, actions: &mut Vec<Action>) {
        if self.records.remove(&key).is_some() {
            self.counters.included(reason);
            actions.push(Action::Include(key));
        }
    }

    /// One probe of a node that is enabled and not excluded.
    fn look(&mut self, node: NodeKey, incarnation: Incarnation, now: Duration, actions: &mut Vec<Action>) {
        if self.is_stale(&node, incarnation) || !self.members.is_enabled(&node) {
            return;
        }
        if self.settings.kind == Kind::None || self.is_unhealthy(&node) {
            return;
        }
        let key = Key::Node(node);
        if self.probes.is_under_way(&key) {
            self.probes.want(&key, incarnation);
        } else {
            self.probe(key, Purpose::Look(incarnation), now, actions);
        }
    }

    fn probe(&mut self, key: Key, purpose: Purpose, now: Duration, actions: &mut Vec<Action>) {
        actions.push(Action::Probe(self.probes.start(key, purpose, now, self.settings.probe_timeout)));
    }

    fn probed(&mut self, probe: Probe, outcome: Outcome, now: Duration, actions: &mut Vec<Action>) {
        let Some(ended) = self.probes.end(&probe) else { return };
        self.counters.probed(&outcome);
        let key = probe.key();
        match ended.purpose {
            Purpose::Retry(illness) => self.retried(key, illness, outcome, now, actions),
            Purpose::Look(incarnation) => self.looked(key, incarnation, outcome, now, actions),
        }
        if let (Key::Node(node), Some(incarnation)) = (key, ended.wanted) {
            self.look(node.clone(), incarnation, now, actions);
        }
    }

    fn retried(
        &mut self,
        key: &Key,
        illness: u64,
        outcome: Outcome,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let Some(record) = self.records.get_mut(key).filter(|record| record.illness == illness) else {
            return;
        };
        match outcome.evidence() {
            Some(evidence) => record.stays(evidence, now, &self.settings),
            None => self.mark_healthy(key.clone(), Inclusion::Probe, actions),
        }
    }

    fn looked(
        &mut self,
        key: &Key,
        incarnation: Incarnation,
        outcome: Outcome,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let (Key::Node(node), Outcome::Unhealthy(evidence)) = (key, outcome) else { return };
        if !self.is_stale(node, incarnation) && self.members.is_enabled(node) {
            self.mark_unhealthy(key.clone(), evidence, now, actions);
        }
    }

    /// `is_news`: the node may be a newcomer to its cluster, and not only to a manager that comes up.
    fn member(&mut self, node: NodeKey, member: Member, is_news: bool, actions: &mut Vec<Action>) {
        let before = self.members.set(node.clone(), member);
        let was_in_service = match before {
            Some(before) => before.enabled && before.incarnation == member.incarnation,
            None => !is_news,
        };
        if member.enabled && !was_in_service {
            self.forget(&node, Inclusion::ReEnabled, actions);
            self.mark_healthy(Key::Bare(node.node), Inclusion::ReEnabled, actions);
        }
    }

    fn removed(&mut self, node: NodeKey, actions: &mut Vec<Action>) {
        self.members.remove(&node);
        self.forget(&node, Inclusion::Removed, actions);
        if !self.members.have_name(&node.node) {
            self.mark_healthy(Key::Bare(node.node), Inclusion::Removed, actions);
        }
    }

    fn forget(&mut self, node: &NodeKey, reason: Inclusion, actions: &mut Vec<Action>) {
        self.rows.end(node);
        self.mark_healthy(Key::Node(node.clone()), reason, actions);
    }

    /// Probes that are given up, then retries that are due, in the order of their times and then of their keys.
    fn tick(&mut self, now: Duration, actions: &mut Vec<Action>) {
        for probe in self.probes.expired(now) {
            self.probed(probe, Outcome::Error("the probe came to no end".to_owned()), now, actions);
        }
        let due = |(key, record): (&Key, &Record)| {
            let due = record.next <= now && !self.probes.is_under_way(key);
            due.then(|| (record.next, key.clone(), record.illness))
        };
        let mut due: Vec<_> = self.records.iter().filter_map(due).collect();
        due.sort();
        for (_, key, illness) in due {
            if self.records.get(&key).is_some_and(|record| record.is_used_up(&self.settings)) {
                self.mark_healthy(key, Inclusion::Forced, actions);
            } else {
                self.probe(key, Purpose::Retry(illness), now, actions);
            }
        }
    }
}
