//! What holds whatever happens, in whatever order.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{collections::BTreeSet, time::Duration};

use pointsman_failure_detector::{Action, Detector, Event, Key, Outcome, Probe, Settings, SuspicionCause};
use pointsman_ids::{Incarnation, NodeKey};
use proptest::prelude::*;

/// Something that happens; of the probes under way the one at this place ends.
#[derive(Clone, Debug)]
enum Step {
    Event(Event),
    ProbeEnds(usize, Outcome),
}

fn node() -> impl Strategy<Value = NodeKey> {
    (0..2, 0..3).prop_map(|(cluster, node)| NodeKey {
        cluster: format!("c{cluster}").parse().unwrap(),
        node: format!("n{node}").parse().unwrap(),
    })
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![4 => node().prop_map(Key::Node), 1 => node().prop_map(|node| Key::Bare(node.node))]
}

fn process() -> impl Strategy<Value = (NodeKey, Incarnation)> {
    (node(), (0..3u64).prop_map(Incarnation))
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        1 => Just(Outcome::Healthy),
        1 => Just(Outcome::Unknown),
        1 => Just(Outcome::NotEnabled),
        1 => Just(Outcome::Error("panic".into())),
        3 => Just(Outcome::Unhealthy("silent".into())),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let event = prop_oneof![
        3 => (key(), 0..3u64).prop_map(|(key, incarnation)| Event::Failed {
            key,
            incarnation: Some(Incarnation(incarnation)),
            evidence: "reset".into()
        }),
        3 => process().prop_map(|(node, incarnation)| Event::Suspicious {
            node,
            incarnation,
            cause: SuspicionCause::Silent,
            evidence: "silent".into()
        }),
        1 => process().prop_map(|(node, incarnation)| Event::Answered { node, incarnation }),
        1 => key().prop_map(|key| Event::Recovered { key }),
        2 => process().prop_map(|(node, incarnation)| Event::ProbeWanted { node, incarnation }),
        2 => (process(), any::<bool>()).prop_map(|((node, incarnation), enabled)| Event::Member {
            node,
            incarnation,
            enabled
        }),
        1 => (process(), any::<bool>()).prop_map(|((node, incarnation), enabled)| Event::KnownMember {
            node,
            incarnation,
            enabled
        }),
        1 => node().prop_map(|node| Event::Removed { node }),
        4 => Just(Event::Tick),
    ];
    prop_oneof![
        4 => event.prop_map(Step::Event),
        1 => (0..8usize, outcome()).prop_map(|(at, outcome)| Step::ProbeEnds(at, outcome)),
    ]
}

/// A detector and what a driver knows of it from its actions alone.
struct Driven {
    detector: Detector,
    now: Duration,
    excluded: BTreeSet<Key>,
    /// Every probe that was asked for and not reported, those that the detector gave up included.
    probes: Vec<Probe>,
}

impl Driven {
    fn new() -> Self {
        let settings = Settings { max_retries: 2, ..Settings::default() };
        let (excluded, probes) = (BTreeSet::new(), vec![]);
        Self { detector: Detector::new(settings).unwrap(), now: Duration::ZERO, excluded, probes }
    }

    fn run(&mut self, step: Step) -> Result<(), TestCaseError> {
        let event = match step {
            Step::Event(event) => event,
            Step::ProbeEnds(at, outcome) if at < self.probes.len() => {
                Event::Probed { probe: self.probes.remove(at), outcome }
            }
            Step::ProbeEnds(..) => return Ok(()),
        };
        self.feed(event)
    }

    fn feed(&mut self, event: Event) -> Result<(), TestCaseError> {
        for action in self.detector.handle(event, self.now) {
            match action {
                Action::Exclude(key) => prop_assert!(self.excluded.insert(key), "excluded twice"),
                Action::Include(key) => prop_assert!(self.excluded.remove(&key), "included without need"),
                Action::Probe(probe) => self.probes.push(probe),
            }
        }
        let unhealthy: BTreeSet<Key> = self.detector.unhealthy().map(|(key, _)| key.clone()).collect();
        prop_assert_eq!(&unhealthy, &self.excluded);
        for (key, record) in self.detector.unhealthy() {
            prop_assert!(record.tries <= 2);
            prop_assert!(record.next <= self.now + Duration::from_secs(60), "{key} waits too long");
        }
        for (suspect, row) in self.detector.suspects() {
            prop_assert!(!self.excluded.contains(&Key::Node(suspect.clone())), "a row beside a record");
            prop_assert!(!row.times.is_empty() && row.times.len() < 3);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn actions_and_the_unhealthy_set_agree(steps in proptest::collection::vec((step(), 0..10_000u64), 1..200)) {
        let mut driven = Driven::new();
        for (step, pause) in steps {
            driven.now += Duration::from_millis(pause);
            driven.run(step)?;
        }
    }

    #[test]
    fn a_tick_leaves_nothing_that_is_due(steps in proptest::collection::vec((step(), 0..10_000u64), 1..200)) {
        let mut driven = Driven::new();
        for (step, pause) in steps {
            driven.now += Duration::from_millis(pause);
            driven.run(step)?;
            driven.feed(Event::Tick)?;
            prop_assert!(driven.detector.next_wakeup().is_none_or(|next| next > driven.now));
        }
    }

    /// Not even by probes without a verdict: every one is given up, and the tries are used up.
    #[test]
    fn nobody_is_excluded_for_ever(steps in proptest::collection::vec((step(), 0..10_000u64), 1..100)) {
        let mut driven = Driven::new();
        for (step, pause) in steps {
            driven.now += Duration::from_millis(pause);
            driven.run(step)?;
        }
        let mut wakeups = 0;
        while let Some(next) = driven.detector.next_wakeup() {
            driven.now = driven.now.max(next);
            driven.feed(Event::Tick)?;
            wakeups += 1;
            prop_assert!(wakeups < 200, "wake-ups without end");
        }
        prop_assert!(driven.excluded.is_empty());
    }
}
